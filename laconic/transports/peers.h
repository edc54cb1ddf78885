// What one rank of many processes knows of the others: who has left, who waits for whom, and whose
// fault its own last error was.
#pragma once

#include <algorithm>

#include "laconic/transports/loss.h"

namespace laconic {

// For whom a transfer waits: to send, and to receive.
struct Awaited {
  Tag tag;
  std::vector<int> senders = {}, receivers = {};

  bool none() const { return senders.empty() && receivers.empty(); }
  const std::vector<int>& first() const { return senders.empty() ? receivers : senders; }
};

class Peers {
 public:
  Peers(int rank, int size)
      : rank_(rank), left_(static_cast<std::size_t>(size)), needs_(left_.size()) {}

  void heard_of(int from) { needs_[at(from)] = {}; }
  // It has said for whom it waits under a tag, or because of whom it leaves. What is no rank is
  // nobody; else the first tag counts.
  void waits(int from, const std::optional<Tag>& tag, std::uint64_t whom);
  void leaves(int from) { left_[at(from)] = true; }
  bool has_left(int rank) const { return left_[at(rank)]; }
  bool any_left() const { return std::ranges::count(left_, true) > 0; }

  // Throws TransportError where somebody awaited has left.
  void check_left(const Awaited& awaited, std::string_view operation);

  // What to throw for a transfer that took too long.
  TransportError lost(const Awaited& awaited, const Deadline& deadline);

  // When to say for whom this rank waits: before others give up, or when one of them has said so.
  std::chrono::steady_clock::time_point late_at(std::chrono::steady_clock::time_point began,
                                                std::chrono::steady_clock::time_point due) const;

  // Whose fault the last error was; others need not blame this rank for it.
  int blames() const { return blames_; }
  void blame(int rank) { blames_ = rank; }

 private:
  static std::size_t at(int rank) { return static_cast<std::size_t>(rank); }
  int behind(int peer, const Tag& tag) const;

  int rank_;
  std::vector<bool> left_;  // by rank
  // By rank: for whom it has said to wait, or could not go on; not since it was heard of again.
  std::vector<Need> needs_;
  int blames_ = kNobody;
};

}  // namespace laconic

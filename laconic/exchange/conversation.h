// Blocking exchanges, for those who need no more: agreement, gossip, the trainer.
#pragma once

#include "laconic/exchange/transport.h"

namespace laconic {

// An attempt of its own, in which messages between two ranks arrive in the order sent. All ranks
// have the same conversations in the same order. When it is left by an exception, all others are
// told, and whoever waits in it throws too.
class Conversation {
 public:
  Conversation(Transport& transport, const Deadline& deadline);
  ~Conversation();
  Conversation(const Conversation&) = delete;
  Conversation& operator=(const Conversation&) = delete;

  int rank() const { return transport_.rank(); }
  int size() const { return transport_.size(); }

  // What is done from here on, for messages, and until when.
  void go_on(const Deadline& deadline) { deadline_ = deadline; }

  // Starts all sends and receives, then waits for all of them: no order among ranks can deadlock
  // it.
  void exchange(std::span<const Send> sends, std::span<const Receive> receives);
  // The same with a transfer of the caller's, which keeps its memory.
  void exchange(Transfer& transfer);

  // Everybody's bytes, by rank; all[rank()] is a copy of `mine`. Lengths may differ, up to `most`.
  void all_gather(ByteView mine, std::vector<Buffer>& all, std::uint64_t most);

  // The sum over ranks, equal bit for bit on every rank: a ring, each part summed in rank order
  // from the part's owner.
  void all_reduce(std::span<float> values);
  void all_reduce(std::span<std::int64_t> values);

  // The sum over ranks by the transport's own all-reduce where it has one, else as above.
  void reduce(std::span<float> values);

  // Tells all others that this rank cannot go on.
  void abort(int culprit, std::string_view reason);

 private:
  void wait(Transfer& transfer);

  Transport& transport_;
  Deadline deadline_;
  std::uint64_t attempt_;
  int exceptions_;  // under way when it was made
  bool over_ = false;
  Transfer transfer_;
};

}  // namespace laconic

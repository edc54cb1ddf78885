// What one rank knows of attempts: which are open, and which were ended by whom.
#pragma once

#include <optional>

#include "laconic/transports/head.h"

namespace laconic {

// Why an attempt cannot go on.
struct Verdict {
  int culprit;
  std::string sentence;  // "rank 1 cannot go on: no memory"

  Verdict(int speaker, int culprit, std::string_view reason)
      : culprit(culprit),
        sentence("rank " + std::to_string(speaker) + " cannot go on: " + std::string(reason)) {}
};

// What an abort or a poison says. It came from rank `from` of `size`, but its head's sequence is
// the rank that said it first: whoever hears of an end tells all others before it does anything
// else. So who hears of it and leaves is not taken for its cause by one that has not heard of it
// yet, however long the first word takes.
Verdict read_verdict(int from, int size, const Head& head, ByteView reason);

class Attempts {
 public:
  std::uint64_t open();
  void close(std::uint64_t attempt);

  bool is_open(std::uint64_t attempt) const;
  bool is_closed(std::uint64_t attempt) const { return attempt < next_ && !is_open(attempt); }

  // The first verdict counts; whether this is it.
  bool abort(std::uint64_t attempt, Verdict verdict);
  bool is_aborted(std::uint64_t attempt) const;
  bool poison(Verdict verdict);

  // Throws UsageError unless it is open.
  void require_open(std::uint64_t attempt) const;
  // Throws TransportError when it was aborted, or all is poisoned.
  void check(std::uint64_t attempt) const;
  void check_poison() const;

 private:
  std::uint64_t next_ = 0;
  std::vector<std::uint64_t> open_;
  std::vector<std::pair<std::uint64_t, Verdict>> aborted_;  // of open ones and of those to come
  std::optional<Verdict> poisoned_;
};

}  // namespace laconic

// How long the link has taken for a step's bytes at most: what a rank tells the guard of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace laconic {

// Times are seconds from any moment. What a leg sends may lie in a buffer of the system when the
// leg has landed, and leave while nothing is under way. So where the link was idle for all one can
// see, bytes and time begin anew with what starts then: these bytes are in everybody's hands when
// all have voted. Legs of a unit that goes on follow each other without such a pause.
class WireTime {
 public:
  void reset() { *this = {}; }

  // A leg starts, after so many bytes had been sent.
  void start(double now, std::uint64_t sent, bool first_of_unit) {
    if (under_way_++ > 0) return;
    since_ = now;
    if (!first_of_unit) return;
    if (!std::exchange(any_, true)) first_ = now;
    before_ = 0;
    from_ = sent;
  }
  void land(double now) {
    if (--under_way_ > 0) return;
    before_ += now - since_;
    since_ = now;
  }

  // When all have voted: what all bytes of the step would have taken, by those that left last, or
  // where none did all that has passed since the first leg. `sent` is without the vote.
  double seconds(double now, std::uint64_t sent, std::uint64_t of_step) const {
    if (sent <= from_) return now - first_;
    return (before_ + now - since_) * static_cast<double>(of_step) /
           static_cast<double>(sent - from_);
  }

 private:
  std::size_t under_way_ = 0;      // legs
  double since_ = 0, before_ = 0;  // when the link was last taken or left, and what it took before
  std::uint64_t from_ = 0;
  double first_ = 0;
  bool any_ = false;
};

}  // namespace laconic

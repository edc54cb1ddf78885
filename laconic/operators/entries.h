// What a selector sees of the entries: passes over them, block by block, wherever they lie. The
// first pass also looks for NaN and Inf and writes what is left if nothing is kept, so that only
// kept entries remain to be done.
#pragma once

#include <array>

#include "laconic/base/array.h"
#include "laconic/base/pool.h"
#include "laconic/codecs/index.h"
#include "laconic/kernels/collect.h"
#include "laconic/operators/source.h"

namespace laconic {

// Entries by position, ascending, with their values.
struct Picked {
  Positions positions;
  Array<float> values;

  std::size_t size() const { return positions.size(); }
  void clear();
  void add(std::uint32_t position, float value);

  // Empties it, with room for so many.
  void make_room(std::size_t count) {
    positions.reset(count);
    values.reset(count);
    clear();
  }
};

class Entries {
 public:
  // x of the source, times `scale`. `memory` is for those who want one array.
  Entries(const Source& source, float scale, Array<float>& memory, Pool& pool)
      : source_(source), scale_(scale), memory_(memory), pool_(pool) {}

  std::size_t size() const { return source_.fresh.size(); }

  // Makes `found` the entries that reach the bounds. Returns false when there is NaN or Inf. One
  // pass.
  bool collect(kernels::Bounds bounds, Picked& found);

  // The same when nobody looks for anything: is all finite?
  bool pass();

  // All as one array, finite or not; a pass unless they lie so.
  std::span<const float> array();

  // The entries at these positions.
  void gather(std::span<const std::uint32_t> positions, Array<float>& values) const;

  // The largest magnitude of all, as bits, after a pass.
  std::uint32_t largest() const { return largest_; }

  // How many entries there are of magnitudes that have their upper 11 bits in common, above 0 and
  // below. One pass.
  struct Tally {
    std::array<std::size_t, 2048> above{}, below{};
  };
  void tally(Tally& counts) const;

  Hint* hint() const { return source_.hint; }

  // Finishes what is left: where `positions` were kept, `values` are decoded; they are used up.
  void leave(std::span<const std::uint32_t> positions, std::span<float> values);

 private:
  const float* load(std::size_t from, std::size_t count, float* buffer) const;
  void leave_all(std::size_t from, std::size_t count, const float* x) const;
  bool x_lies_in_left() const { return left_written_ && source_.c == 1 && source_.left.array(); }

  const Source& source_;
  float scale_;
  Array<float>& memory_;
  Pool& pool_;
  bool left_written_ = false;  // with c * x
  std::uint32_t largest_ = 0;
};

}  // namespace laconic

// What an operator encodes: a gradient, what memory keeps, and where the rest is to be left.
#pragma once

#include "laconic/kernels/floats.h"
#include "laconic/kernels/mixed.h"

namespace laconic {

// Magnitudes that a selector may remember from step to step, as bits; 0: none. They save time and
// never change a byte.
struct Hint {
  std::uint32_t above = 0;  // least one worth a look among entries above 0
  std::uint32_t below = 0;  // the same below 0
  float margin = 0.1F;      // by which the next ones are lowered: more after a miss, else less
};

// A block of a source for kernels that mix and leave it themselves, and its memory.
struct MixedBlock {
  kernels::Mixed mixed;
  float fresh[kBlock], kept[kBlock], left[kBlock];
};

// x[i] = a * fresh[i] + b * kept[i], computed in float in this order, and left[i] = c * (x[i] -
// what receivers decode). `kept` may be empty, and b = 0 takes nothing of it, not even a NaN.
// `left` may be empty, and shares no entry with the others.
struct Source {
  Floats fresh = {}, kept = {}, left = {};
  float a = 1, b = 1, c = 1;
  Hint* hint = nullptr;
  std::size_t cols = 1;  // the length of a row, if the entries are a matrix whose shape may be used

  bool takes_kept() const { return b != 0 && !kept.empty(); }

  // x as one array, if it is `fresh` as it lies; else null.
  const float* as_it_lies() const;

  // x[from..from + count), count at most kBlock: where it lies, or computed into `buffer`.
  const float* load(std::size_t from, std::size_t count, float* buffer) const;

  // Whether two arrays are mixed and something is left of them. Then `open` makes `block` the
  // entries from..from + count, at most kBlock, and `close` stores what was written to its `left`,
  // if that does not stream: somebody calls end_stream.
  bool mixes_and_leaves() const { return takes_kept() && !left.empty(); }
  void open(std::size_t from, std::size_t count, MixedBlock& block) const;
  void close(std::size_t from, const MixedBlock& block) const;

  // Throws UsageError unless kept and left are empty or as long as fresh.
  void require_sizes() const;
};

// What came of it.
struct Encoded {
  bool finite = true;  // false: x holds NaN or Inf, nothing was appended, left is undefined
};

}  // namespace laconic

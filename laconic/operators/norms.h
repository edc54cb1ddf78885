// Norms as quantisers send them: one float, at least as large as every entry, the same on every
// machine.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "laconic/base/errors.h"
#include "laconic/kernels/levels.h"
#include "laconic/kernels/reduce.h"
#include "laconic/operators/blocks.h"
#include "laconic/operators/stage.h"

namespace laconic {

// Beyond the largest float a norm is the largest float: dithering with any norm that no entry
// exceeds is unbiased.
inline float to_norm(double value) {
  constexpr float kMost = std::numeric_limits<float>::max();
  return value < static_cast<double>(kMost) ? static_cast<float>(value) : kMost;
}

inline float max_norm(std::span<const float> x) {
  return std::bit_cast<float>(kernels::largest_magnitude(x));
}

// What is known of all entries after one pass over them, on all threads. `each(from, count)` is
// called for every block while it is in the cache.
template <class Each>
kernels::Measures measure(std::span<const float> x, StageScratch& scratch, Each each) {
  const std::size_t blocks = (x.size() + kBlock - 1) / kBlock;
  const auto measures = scratch.measures.reset(blocks);
  each_block(x.size(), scratch.pool, [&](std::size_t from, std::size_t count) {
    measures[from / kBlock] = kernels::measure_block(x.subspan(from, count));
    each(from, count);
  });
  kernels::Measures all;
  for (const kernels::Measures& block : measures) {
    all.largest = std::max(all.largest, block.largest);
    all.squares += block.squares;
    all.magnitudes += block.magnitudes;
  }
  return all;
}
inline kernels::Measures measure(std::span<const float> x, StageScratch& scratch) {
  return measure(x, scratch, [](std::size_t, std::size_t) {});
}

// A plane of one float in front of the symbols; none when there are no entries.
inline PlaneShape scale_plane(std::size_t count) {
  return {.width = 32, .count = count > 0 ? std::size_t{1} : 0};
}

inline float load_scale(ByteView plane) { return load<float>(plane.data()); }

// Throws DataError unless the scale is finite and not negative.
inline void check_scale(ByteView plane, const char* name) {
  const float scale = load_scale(plane);
  if (!(scale >= 0) || !std::isfinite(scale))
    throw DataError(std::string("a section by '") + name + "' has a scale of " +
                    std::to_string(scale) + "; allowed: 0 and finite numbers above");
}

// Calls part(from, count) for pieces of so many entries, on all threads.
template <class Part>
void in_pieces(std::size_t count, StageScratch& scratch, Part part) {
  constexpr std::size_t kPiece = 65536;
  if (count <= kPiece) return part(std::size_t{0}, count);
  scratch.pool.each((count + kPiece - 1) / kPiece, [&](std::size_t piece, unsigned) {
    const std::size_t from = piece * kPiece;
    part(from, std::min(kPiece, count - from));
  });
}

}  // namespace laconic

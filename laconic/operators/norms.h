// Norms as quantisers send them: one float, at least as large as every entry, the same on every
// machine.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "laconic/base/errors.h"
#include "laconic/kernels/levels.h"
#include "laconic/kernels/looks.h"
#include "laconic/kernels/reduce.h"
#include "laconic/operators/stage.h"

namespace laconic {

// Beyond the largest float a norm is the largest float: dithering with any norm that no entry
// exceeds is unbiased.
inline float to_norm(double value) {
  constexpr float kMost = std::numeric_limits<float>::max();
  return value < static_cast<double>(kMost) ? static_cast<float>(value) : kMost;
}

// The largest magnitude alone, of entries as they lie or as a block mixes them.
template <class Entries>
kernels::Measures largest_of(const Entries& x) {
  return {.largest = kernels::largest_magnitude(x)};
}

// |x|^2 or |x|_1 of a block alone, in one pass over it: a sum of finite floats is finite.
template <class Entries>
kernels::Measures squares_of(const Entries& x) {
  const double sum = kernels::sum_of_squares(x);
  return {.largest = std::isfinite(sum) ? 0 : kernels::kInfinity, .squares = sum};
}
template <class Entries>
kernels::Measures magnitudes_of(const Entries& x) {
  const double sum = kernels::sum_of_magnitudes(x);
  return {.largest = std::isfinite(sum) ? 0 : kernels::kInfinity, .magnitudes = sum};
}

inline float max_norm(const kernels::Measures& all) { return std::bit_cast<float>(all.largest); }
inline float l2_norm(const kernels::Measures& all) { return to_norm(std::sqrt(all.squares)); }
inline float l1_norm(const kernels::Measures& all) { return to_norm(all.magnitudes); }

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

}  // namespace laconic

// Choosing entries by magnitude.
#pragma once

#include <span>

#include "laconic/base/array.h"

namespace laconic::kernels {

// Which entries count, and as what: |x|, or only entries of one sign. Zeros never do.
enum class Side { both, positive, negative };

// The k-th largest of some magnitudes, and its rank among its equals, from 1 on.
struct Kth {
  std::uint32_t value = 0;
  std::size_t rank = 0;
};

// Of at least k magnitudes, all at or above `least`; 1 <= k. Grows `magnitudes` for its own use.
Kth kth_largest_of(Array<std::uint32_t>& magnitudes, std::uint32_t least, std::size_t k);

// A magnitude that, by a sample of `count` entries, at least k of them reach: a guess that saves
// time when it is right. `sample` is moved about.
std::uint32_t guess_kth(std::span<std::uint32_t> sample, std::size_t count, std::size_t k);

// How many entries to sample of `count`, and which: at no fixed distance, as x may have a period.
// 0: too few for a guess.
std::size_t sample_size(std::size_t count);
std::size_t sample_position(std::size_t i, std::size_t count);

// out[j] = x[positions[j]] * factor
void gather(std::span<const float> x, std::span<const std::uint32_t> positions, float factor,
            float* out);

}  // namespace laconic::kernels

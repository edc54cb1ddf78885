// Choosing entries by magnitude.
#pragma once

#include <span>

#include "laconic/base/array.h"

namespace laconic::kernels {

// Which entries count, and as what: |x|, or only entries of one sign. Zeros never do.
enum class Side { both, positive, negative };

// Where a choice by magnitude ends: larger ones are kept, and the first `ties` of those that equal
// `value`.
struct Cut {
  std::uint32_t value = 0;
  std::size_t ties = 0;

  // Keeps nothing.
  static constexpr Cut none() { return {0x7fffffffU, 0}; }
  // No kept magnitude is below this one.
  std::uint32_t least() const { return ties > 0 ? value : value + 1; }
};

// Entries that count on this side.
std::size_t count_on(std::span<const float> values, Side side);

// The cut that keeps k of the entries that count, 1 <= k <= their number; all of these have
// magnitudes from `least` (at least 1) to `most`. `memory` is working memory.
Cut cut_after(std::size_t k, std::span<const float> values, Side side, std::uint32_t least,
              std::uint32_t most, Array<std::uint32_t>& memory);

// Moves the entries that are kept to the front, in their order, and returns how many they are:
// those above 0 by one cut, those below by the other. Both may be the same one, whose ties are then
// of both signs. Ties are used up. No entry is 0.
std::size_t keep_above(std::uint32_t* positions, float* values, std::size_t count, Cut& above,
                       Cut& below);

// A magnitude that, by a sample of `count` entries, at least k of them reach: a guess that saves
// time when it is right.
std::uint32_t guess_kth(std::span<const float> sample, Side side, std::size_t count, std::size_t k,
                        Array<std::uint32_t>& memory);

// How many entries to sample of `count`; 0: too few for a guess. A larger sample costs more, and
// its guesses let fewer through: three times the square root of the entries does both at once.
std::size_t sample_size(std::size_t count);

// Which they are, for as many positions as that: ascending, at no fixed distance, as x may have a
// period.
void sample_positions(std::size_t count, std::span<std::uint32_t> positions);

// out[j] = x[positions[j]] * factor
void gather(std::span<const float> x, std::span<const std::uint32_t> positions, float factor,
            float* out);

}  // namespace laconic::kernels

// Floats to codes that are evenly spaced in a range, and back. Draw i is draws.bits32(first + i).
#pragma once

#include <span>

#include "laconic/base/key.h"
#include "laconic/kernels/natural.h"

namespace laconic::kernels {

// Codes of `bits` (1 to 8) bits between low and high, low < high, both finite, as bytes: y =
// (fit x - fit low) * factor, in float, with fit a power of two that keeps the range within floats
// and factor such that the range becomes at least L = 2^bits - 1; at least 0, then rounded as in
// to_levels, to at most L. Code c stands for low * (1 - t) + high * t with t = c * (1 / L), clamped
// to low and high.
void to_codes(std::span<const float> x, float low, float high, unsigned bits, Rounding rounding,
              const Draws& draws, std::uint64_t first, std::uint8_t* codes);
// The same for finite x as `block` mixes it, writing block.left in the same sweep. Returns false,
// with nothing done, where positions cross a multiple of 2^32.
bool to_codes_mixed(const Mixed& block, float low, float high, unsigned bits, Rounding rounding,
                    const Draws& draws, std::uint64_t first, std::uint8_t* codes);
void add_codes(const std::uint8_t* codes, float low, float high, unsigned bits, float weight,
               std::span<float> y);

// The least and the largest entry; x is not empty. -0 counts as 0. When x is not finite, neither
// are they and `finite` is false.
struct Range {
  float low, high;
  bool finite;
};
Range range_of(std::span<const float> x);

}  // namespace laconic::kernels

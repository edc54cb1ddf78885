// Rounding of floats to powers of two, and adding them back: the loops under natural compression.
#pragma once

#include <span>

#include "laconic/base/bytes.h"
#include "laconic/base/key.h"
#include "laconic/kernels/mixed.h"

namespace laconic::kernels {

// How the magnitude of an entry becomes a power of two.
enum class Rounding {
  stochastic,  // up with the mantissa's fraction as probability: the mean is the entry
  nearest,     // up when the mantissa is above one half
};

// Entries that share one window in the 8-bit form, and the grain in which planes are cut.
inline constexpr std::size_t kWindow = 4096;

// 9 bits: exponents[i] is the exponent field (0..254) of the rounded entry, bit i of signs its
// sign; zeros have sign 0. The draw for x[i] is the one at position first + i. Magnitudes above
// 2^127 stay at 2^127. Returns false when x holds NaN or Inf; the planes are then undefined.
// Threads may share a plane cut at multiples of 64.
bool natural_encode(std::span<const float> x, Rounding rounding, const Draws& draws,
                    std::uint64_t first, std::uint8_t* exponents, std::uint8_t* signs);

// The same for x as `block` mixes it, writing block.left in the same sweep. Returns false when that
// cannot be: x holds NaN or Inf, an entry of the last binade rounded up, or positions cross a
// multiple of 2^32. Planes and left are then undefined.
bool natural_encode_mixed(const Mixed& block, Rounding rounding, const Draws& draws,
                          std::uint64_t first, std::uint8_t* exponents, std::uint8_t* signs);

// y[i] += weight * (the entry of those 9 bits). An exponent field of 255 is read as 254.
void natural_add(const std::uint8_t* exponents, const std::uint8_t* signs, float weight,
                 std::span<float> y);

// The planes of one of several sections that are added up.
struct NaturalPlanes {
  const std::uint8_t *exponents, *signs;
};

// y[i] = 0 + weight * (entry i of the first section) + weight * (that of the second) + ..., in this
// order, whatever y holds: one pass over all of them.
void natural_sum(std::span<const NaturalPlanes> sections, float weight, std::span<float> y);

// 8 bits, for one window (x.size() <= kWindow): code 0 is zero, else sign << 7 | c with c = 1..127
// standing for exponent field top - 127 + c. `top` is returned by natural_window. Entries below the
// lowest level, 2^(top-126-127), become zero or that level, again without bias.
void natural8_encode(std::span<const float> x, Rounding rounding, const Draws& draws,
                     std::uint64_t first, unsigned top, std::uint8_t* codes);
// The same for finite x as `block` mixes it, writing block.left in the same sweep. Returns false
// when that cannot be: an entry lies below the window, or positions cross a multiple of 2^32. Codes
// and left are then undefined.
bool natural8_encode_mixed(const Mixed& block, Rounding rounding, const Draws& draws,
                           std::uint64_t first, unsigned top, std::uint8_t* codes);
void natural8_add(const std::uint8_t* codes, unsigned top, float weight, std::span<float> y);

// The window's highest exponent field, 127..254: one above the largest entry's, which may round up.
// Returns 255 when x holds NaN or Inf.
unsigned natural_window(std::span<const float> x);
unsigned natural_window(const Mixed& block);

}  // namespace laconic::kernels

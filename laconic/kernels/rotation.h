// Rotations of a block: random signs, then the Hadamard matrix H of +-1, and back from the signs of
// what came of it. Entry i is turned round where the topmost of key.bits32(first + i) is set.
#pragma once

#include <array>
#include <span>

#include "laconic/base/bytes.h"
#include "laconic/base/key.h"
#include "laconic/kernels/floats.h"

namespace laconic::kernels {

// z = H S x, with x filled up with zeros to the power of two that z is long, kBlock at most: sums
// and differences of neighbours, then of neighbours two apart and so on, in double. Returns false
// when x holds NaN or Inf.
bool rotate(std::span<const float> x, Key key, std::uint64_t first, std::span<double> z);

// Bit i is whether z[i] is below 0; what remains of the last byte is 0.
void pack_negative(std::span<const double> z, std::uint8_t* bits);

// Sums of one to four arrays as long as each other.
inline constexpr std::size_t kSideBySide = 4;
using SidesOfDoubles = std::array<const double*, kSideBySide>;
using SidesOfFloats = std::array<const float*, kSideBySide>;
using Sums = std::array<double, kSideBySide>;
// Each sum in the order of its entries, in double. An addition waits for the one before, so four
// arrays take the time of one.
Sums sums_of_magnitudes(const SidesOfDoubles& x, std::size_t count);
Sums sums_of_squares(const SidesOfFloats& x, std::size_t count);

// y[i] += weight * entry i of S H z * scale, within the range of floats, for the +-1 that `size`
// bits of z stand for, of which 1 is -1; y has up to `size` entries.
void add_rotated(const std::uint8_t* bits, std::size_t size, float scale, Key key,
                 std::uint64_t first, float weight, std::span<float> y);

}  // namespace laconic::kernels

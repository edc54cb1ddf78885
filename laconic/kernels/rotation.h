// Rotations of a block: random signs, then the Hadamard matrix H of +-1, and back from the signs of
// what came of it. Entry i is turned round where the topmost of key.bits32(first + i) is set.
#pragma once

#include <span>

#include "laconic/base/bytes.h"
#include "laconic/base/key.h"
#include "laconic/kernels/floats.h"

namespace laconic::kernels {

// z = H S x, with x filled up with zeros to the power of two that z is long, kBlock at most: sums
// and differences of neighbours, then of neighbours two apart and so on, in float. Bit i of `turns`
// is whether entry i was turned round. Returns what z is multiplied by: 1, or 2^-13 for all of a
// block with an entry of 2^115 or beyond; 0 when x holds NaN or Inf.
float rotate(std::span<const float> x, Key key, std::uint64_t first, std::span<float> z,
             std::uint8_t* turns);

// left[i] = c * (x[i] - value), for up to `size` entries, where value is entry i of S H z * scale,
// within the range of floats, for the +-1 that `size` bits of z stand for, of which 1 is -1. If it
// streams, as in kernels/mixed.h.
void leave_rotated(const std::uint8_t* bits, std::size_t size, float scale,
                   const std::uint8_t* turns, std::span<const float> x, float c, bool streams,
                   float* left);

// y[i] += weight * that value.
void add_rotated(const std::uint8_t* bits, std::size_t size, float scale, Key key,
                 std::uint64_t first, float weight, std::span<float> y);

}  // namespace laconic::kernels

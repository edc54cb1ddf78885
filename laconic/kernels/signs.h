// Signs of floats as bits, and back: the loops under sign compression.
#pragma once

#include <span>

#include "laconic/base/bytes.h"
#include "laconic/kernels/mixed.h"

namespace laconic::kernels {

// Bit i % 8 of signs[i / 8] says whether x[i] is below 0; -0 is not. Bits after the last are 0.
void pack_signs(std::span<const float> x, std::uint8_t* signs);

// The same of the x that `block` mixes, and block.left: what is decoded is -scale where x is below
// 0, else scale.
void pack_and_leave_signs(const Mixed& block, float scale, std::uint8_t* signs);

// y[i] += weight * scale, or weight * -scale where bit i is set.
void add_signs(const std::uint8_t* signs, float scale, float weight, std::span<float> y);

}  // namespace laconic::kernels

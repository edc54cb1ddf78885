// float32 to 16 bits and back, rounded to the nearest (ties to even), the same on every instruction
// set.
#pragma once

#include <span>

#include "laconic/base/bytes.h"
#include "laconic/kernels/mixed.h"

namespace laconic::kernels {

// bfloat16: the upper half of the float. Magnitudes that would round to Inf stay at the largest
// finite value, and NaN and Inf are read as it. Returns false when x holds NaN or Inf. `halves` has
// 2 bytes per entry, unaligned.
bool bf16_encode(std::span<const float> x, std::uint8_t* halves);
// The same for x as `block` mixes it, writing block.left in the same sweep.
bool bf16_encode_mixed(const Mixed& block, std::uint8_t* halves);
void bf16_add(const std::uint8_t* halves, float weight, std::span<float> y);

// float16 of x * 2^(141 - top), where `top` is the exponent field of the largest entry (at least
// 1): the largest entry then lies in [2^14, 2^15), so nothing overflows and what is lost is below
// 2^-39 of it. Subnormal entries become zero.
void fp16_encode(std::span<const float> x, unsigned top, std::uint8_t* halves);
void fp16_encode_mixed(const Mixed& block, unsigned top, std::uint8_t* halves);
// Magnitudes end at fp16_limit(top), as 15 bits: 2^15, or just below it where that times the scale
// would be Inf. What lies beyond is read as the limit.
void fp16_add(const std::uint8_t* halves, unsigned top, float weight, std::span<float> y);
constexpr std::uint32_t fp16_limit(unsigned top) { return top == 254 ? 0x77ff : 0x7800; }

// The formats as they are, of arrays at any address: beyond the largest finite value lies Inf, and
// NaN stays NaN (quiet, with what fits of its payload).
void bf16_to_floats(const std::uint8_t* halves, std::span<float> y);
void floats_to_bf16(std::span<const float> x, std::uint8_t* halves);
void fp16_to_floats(const std::uint8_t* halves, std::span<float> y);
void floats_to_fp16(std::span<const float> x, std::uint8_t* halves);

// The exponent field of the entry with the largest magnitude, 1..254, or 255 when x holds NaN or
// Inf.
unsigned fp16_top(std::span<const float> x);
unsigned fp16_top(const Mixed& block);

}  // namespace laconic::kernels

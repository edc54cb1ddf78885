// Floats to whole numbers of steps and back, rounded at random without bias or to the nearest. Draw
// i is key.bits32(first + i), so that any cut, thread or vector lane gives the same levels.
#pragma once

#include <span>

#include "laconic/base/key.h"
#include "laconic/kernels/natural.h"

namespace laconic::kernels {

// A level l stands for (l / steps) * norm, computed in float in this order.
struct Scale {
  float norm = 1;   // above 0 and finite
  float steps = 1;  // levels that make one norm
};

// levels[i] = sign(x[i]) * L where y = |x[i]| / norm * steps (in this order, in float) and L is
// floor(y), plus 1 if u < y - floor(y) with u = (draw >> 8) / 2^24; or, to the nearest, plus 1 if
// y - floor(y) > 1/2. L is at most `most`; -0 and 0 give 0.
void to_levels(std::span<const float> x, Scale scale, std::int32_t most, Rounding rounding, Key key,
               std::uint64_t first, std::int32_t* levels);

// y[i] += weight * value of levels[i]
void add_levels(const std::int32_t* levels, Scale scale, float weight, std::span<float> y);

// Natural dithering: level l of 0..s stands for 0 or norm * 2^(l - s), and has the sign of x[i].
// With y = |x[i]| / norm, at most 1: from 2^(1-s) on, y is rounded to a power of two as natural
// compression does (draw's low 23 bits added to the mantissa); below it y becomes 2^(1-s) if (draw
// >> 8) / 2^24 < y * 2^(s-1), else 0.
void to_powers(std::span<const float> x, float norm, int s, Key key, std::uint64_t first,
               std::int32_t* levels);
void add_powers(const std::int32_t* levels, float norm, int s, float weight, std::span<float> y);

// The sum of f(1 - f) with f the fraction of |x[i]| / step: the variance of rounding at random, in
// steps squared. In blocks and lanes like sum_of_squares.
double spread(std::span<const float> x, float step);

// Sum of |x[i]| in double, in blocks and lanes like sum_of_squares.
double sum_of_magnitudes(std::span<const float> x);

// Codes of `bits` (1 to 8) bits between low and high, low < high, both finite, as bytes: y =
// (x - low) / (high - low) * (2^bits - 1) in float (of halves of all three when high - low is
// beyond the largest float), clamped to 0 and 2^bits - 1, rounded as in to_levels. Code c stands
// for low * (1 - c/L) + high * (c/L) with L = 2^bits - 1, clamped to low and high.
void to_codes(std::span<const float> x, float low, float high, unsigned bits, Rounding rounding,
              Key key, std::uint64_t first, std::uint8_t* codes);
void add_codes(const std::uint8_t* codes, float low, float high, unsigned bits, float weight,
               std::span<float> y);

// The least and the largest entry; x is not empty and finite. -0 counts as 0.
struct Range {
  float low, high;
};
Range range_of(std::span<const float> x);

}  // namespace laconic::kernels

// Sums and extremes over arrays, the same number on every instruction set.
#pragma once

#include <algorithm>
#include <span>

#include "laconic/base/bytes.h"

namespace laconic::kernels {

inline constexpr std::uint32_t kInfinity = 0x7f800000U;  // magnitudes from here on are Inf or NaN

// The bits of the largest |x[i]|; 0 when x is empty. NaN counts as larger than Inf.
std::uint32_t largest_magnitude(std::span<const float> x);

inline bool all_finite(std::span<const float> x) { return largest_magnitude(x) < kInfinity; }

// The largest byte; 0 when there is none.
std::uint8_t largest_byte(ByteView bytes);

// Sum of x[i]^2 in double, over blocks of 4096 entries in 16 lanes; lanes, then blocks, are added
// in index order.
double sum_of_squares(std::span<const float> x);

// The same of every 64 entries, of which the last may be fewer, in 8 lanes: their sums are added
// by halves. Inf or NaN where an entry is.
void squares_of_groups(std::span<const float> x, double* sums);

// Sum of |x[i]|, in the same way as all squares.
double sum_of_magnitudes(std::span<const float> x);

// What is known of some entries, as far as somebody asked for it.
struct Measures {
  std::uint32_t largest = 0;  // as largest_magnitude
  double squares = 0, magnitudes = 0;
  double sum = 0;           // filled in by those who need it
  float low = 0, high = 0;  // the least and the largest entry

  // Extends it by the entries that follow.
  void join(const Measures& next) {
    largest = std::max(largest, next.largest);
    squares += next.squares;
    magnitudes += next.magnitudes;
    sum += next.sum;
    low = std::min(low, next.low);
    high = std::max(high, next.high);
  }
};

// The first three of one block, of at most 4096 entries.
Measures measure_block(std::span<const float> x);

}  // namespace laconic::kernels

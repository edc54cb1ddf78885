// What is known of a block that is mixed, without x in memory: mixed in registers once more where
// it is needed, it takes fewer lines of the first-level cache than its two arrays and a third.
#pragma once

#include "laconic/kernels/codes.h"
#include "laconic/kernels/mixed.h"
#include "laconic/kernels/reduce.h"

namespace laconic::kernels {

// As the functions of these names of the x that `block` mixes, which is written to block.left if
// there is one. Sums are of at most 4096 entries.
std::uint32_t largest_magnitude(const Mixed& block);
Range range_of(const Mixed& block);
double sum_of_squares(const Mixed& block);
double sum_of_magnitudes(const Mixed& block);

// The largest magnitude, and the sums of x[i] and x[i]^2 in the same lanes, in one sweep over at
// most 4096 entries.
Measures moments_of(std::span<const float> x);
Measures moments_of(const Mixed& block);

}  // namespace laconic::kernels

// Sums down the columns of a matrix.
#pragma once

#include <span>

namespace laconic::kernels {

// sums[i] += x[i]^2, in double.
void add_squares(std::span<const float> x, double* sums);

}  // namespace laconic::kernels

// Sums down the columns of a matrix.
#pragma once

#include <span>

namespace laconic::kernels {

// sums[i] += x[row * stride + i]^2 for every row in turn, in double.
void add_squares(const float* x, std::size_t stride, std::size_t rows, std::span<double> sums);

}  // namespace laconic::kernels

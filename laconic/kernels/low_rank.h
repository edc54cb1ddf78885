// Products and bases of tall factors, the same bits everywhere. A factor of rank r is r columns,
// one after the other, each an array; a matrix is row by row.
#pragma once

#include <cstddef>
#include <span>

#include "laconic/base/key.h"

namespace laconic {

struct MatrixShape {
  std::size_t rows = 0, cols = 0, rank = 0;
};

// `left` = M * right: rows * rank entries from cols * rank.
void multiply(std::span<const float> matrix, const MatrixShape& shape, std::span<const float> right,
              std::span<float> left);

// `right` = M^T * left.
void multiply_transposed(std::span<const float> matrix, const MatrixShape& shape,
                         std::span<const float> left, std::span<float> right);

// M += weight * left * right^T.
void add_product(std::span<const float> left, std::span<const float> right,
                 const MatrixShape& shape, float weight, std::span<float> matrix);

// Makes columns of `rows` entries each, at most as many as rows, orthonormal by modified
// Gram-Schmidt in double. A column that depends on those before it becomes a random one, drawn from
// `key`: it would else stay without effect for ever, because its other factor would be zero.
void orthonormalise(std::span<float> columns, std::size_t rows, Key key);

// Fills x with draws of variance 1, as good as normal ones.
void draw_normal(Key key, std::span<float> x);

}  // namespace laconic

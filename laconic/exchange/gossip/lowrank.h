// Thin matrices: a few columns, one after the other, beside a large matrix by rows. Sums are made
// in double in a fixed order: both ends of an edge must get the same bits.
#pragma once

#include <cstddef>
#include <span>

#include "laconic/base/key.h"

namespace laconic::gossip {

// A large matrix, by rows.
struct MatrixShape {
  std::size_t rows = 0, cols = 0;
};

// out = X columns, and out = X^T columns. `columns` and `out` have `rank` columns each.
void multiply(std::span<const float> x, MatrixShape shape, std::span<const float> columns,
              std::size_t rank, std::span<float> out);
void multiply_transposed(std::span<const float> x, MatrixShape shape,
                         std::span<const float> columns, std::size_t rank, std::span<float> out);

// x += weight * p q^T
void add_outer(std::span<const float> p, std::span<const float> q, std::size_t rank, float weight,
               MatrixShape shape, std::span<float> x);

// Makes the columns orthonormal (Gram and Schmidt). A column that is 0 or that depends on those
// before it is drawn again: a direction of length 0 would never find another.
void orthonormalise(std::span<float> columns, std::size_t rank, Key draws);

// Independent draws around 0, the same on every machine: four 16-bit numbers added up, which is
// near enough to normal for a direction and needs no logarithm.
void draw_directions(Key key, std::span<float> out);

double squared_length(std::span<const float> x);

}  // namespace laconic::gossip

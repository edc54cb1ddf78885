// Products and bases of tall factors, the same bits everywhere. A factor of rank r is r columns,
// one after the other, each an array; a matrix is row by row.
#pragma once

#include "laconic/base/array.h"
#include "laconic/base/key.h"
#include "laconic/kernels/floats.h"

namespace laconic {

struct MatrixShape {
  std::size_t rows = 0, cols = 0, rank = 0;
};

// Factors of up to so many columns, where they have fewer entries than the matrix; else rank 0: it
// is its own factor.
MatrixShape shape_of_factors(std::size_t rows, std::size_t cols, std::size_t rank);

// `left` = M * right: rows * rank entries from cols * rank.
void multiply(std::span<const float> matrix, const MatrixShape& shape, std::span<const float> right,
              std::span<float> left);

// The same for M = fresh + b * kept, which is written to `matrix`, in one sweep. With rank 0 that
// is all.
void mix_and_multiply(const Floats& fresh, float b, std::span<const float> kept,
                      const MatrixShape& shape, std::span<const float> right,
                      std::span<float> matrix, std::span<float> left);

// `right` = M^T * left; M is read once. `spare` is working memory.
void multiply_transposed(std::span<const float> matrix, const MatrixShape& shape,
                         std::span<const float> left, std::span<float> right, Array<float>& spare);

// Both for rows first to last - 1 alone: those of `left`, and what they add to `right`, of which
// `sums` is as long. Threads take rows.
void multiply_rows(std::span<const float> matrix, const MatrixShape& shape,
                   std::span<const float> right, std::size_t first, std::size_t last,
                   std::span<float> left);
void multiply_rows_transposed(std::span<const float> matrix, const MatrixShape& shape,
                              std::span<const float> left, std::size_t first, std::size_t last,
                              std::span<float> right, std::span<float> sums);

// M += weight * left * right^T.
void add_product(std::span<const float> left, std::span<const float> right,
                 const MatrixShape& shape, float weight, std::span<float> matrix);

// Entries from `from` on of left * right^T, as far as `product` goes; and beside them, in the same
// sweep, m[i] = c * (m[i] - product[i]).
void expand(std::span<const float> left, std::span<const float> right, const MatrixShape& shape,
            std::size_t from, std::span<float> product, float c, float* m);

// The same entries alone, and x[i] - product[i]; of a rank of 16 at most.
void fill_product(std::span<const float> left, std::span<const float> right,
                  const MatrixShape& shape, std::size_t from, std::span<float> product);
void leave_product(std::span<const float> left, std::span<const float> right,
                   const MatrixShape& shape, std::size_t from, const float* x,
                   std::span<float> rest);

// Makes columns of `rows` entries each, at most as many as rows, orthonormal by modified
// Gram-Schmidt in double. A column that depends on those before it becomes a random one, drawn from
// `key`: it would else stay without effect for ever, because its other factor would be zero.
// `spare` is working memory.
void orthonormalise(std::span<float> columns, std::size_t rows, Key key, Array<double>& spare);

// Makes `chosen` the `kept` rows of a factor with the largest sums of squares, ascending; of equal
// ones the first. `lengths` is working memory.
void longest_rows(std::span<const float> factor, std::size_t rows, std::size_t kept,
                  Array<std::uint32_t>& chosen, Array<double>& lengths);

// Fills x with draws of variance 1, as good as normal ones.
void draw_normal(Key key, std::span<float> x);

}  // namespace laconic

// Thin matrices beside a large one.
#include "laconic/exchange/gossip/lowrank.h"

#include <cmath>
#include <vector>

namespace laconic::gossip {
namespace {

// What is left of a column after projection is rounding when it is shorter than this part of it.
constexpr double kDependent = 1e-6;

std::span<const float> column(std::span<const float> columns, std::size_t rank, std::size_t c) {
  const std::size_t length = columns.size() / rank;
  return columns.subspan(c * length, length);
}
std::span<float> column(std::span<float> columns, std::size_t rank, std::size_t c) {
  const std::size_t length = columns.size() / rank;
  return columns.subspan(c * length, length);
}

// In eight lanes, added in order: the compiler may use vectors, and every machine gets the same.
double dot(std::span<const float> a, std::span<const float> b) {
  double lanes[8] = {};
  std::size_t i = 0;
  for (; i + 8 <= a.size(); i += 8)
    for (std::size_t lane = 0; lane < 8; ++lane)
      lanes[lane] += static_cast<double>(a[i + lane]) * b[i + lane];
  for (std::size_t lane = 0; i < a.size(); ++i, ++lane)
    lanes[lane] += static_cast<double>(a[i]) * b[i];
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

void project_out(std::span<const float> unit, std::span<float> from) {
  const double along = dot(unit, from);
  for (std::size_t i = 0; i < from.size(); ++i)
    from[i] = static_cast<float>(from[i] - along * unit[i]);
}

// Makes column c orthogonal to those before it and of length 1. False: nothing was left of it.
bool orthonormalise_column(std::span<float> columns, std::size_t rank, std::size_t c) {
  const std::span<float> mine = column(columns, rank, c);
  const double before = squared_length(mine);
  for (int pass = 0; pass < 2; ++pass)  // the second takes away what rounding left
    for (std::size_t other = 0; other < c; ++other) project_out(column(columns, rank, other), mine);
  const double length = std::sqrt(squared_length(mine));
  if (!(length > kDependent * std::sqrt(before))) return false;
  for (float& value : mine) value = static_cast<float>(value / length);
  return true;
}

}  // namespace

double squared_length(std::span<const float> x) { return dot(x, x); }

void multiply(std::span<const float> x, MatrixShape shape, std::span<const float> columns,
              std::size_t rank, std::span<float> out) {
  for (std::size_t c = 0; c < rank; ++c)
    for (std::size_t row = 0; row < shape.rows; ++row)
      out[c * shape.rows + row] = static_cast<float>(
          dot(x.subspan(row * shape.cols, shape.cols), column(columns, rank, c)));
}

void multiply_transposed(std::span<const float> x, MatrixShape shape,
                         std::span<const float> columns, std::size_t rank, std::span<float> out) {
  std::vector<double> sums(shape.cols);
  for (std::size_t c = 0; c < rank; ++c) {
    sums.assign(shape.cols, 0);
    for (std::size_t row = 0; row < shape.rows; ++row) {
      const double factor = columns[c * shape.rows + row];
      const float* const values = x.data() + row * shape.cols;
      for (std::size_t col = 0; col < shape.cols; ++col) sums[col] += factor * values[col];
    }
    for (std::size_t col = 0; col < shape.cols; ++col)
      out[c * shape.cols + col] = static_cast<float>(sums[col]);
  }
}

void add_outer(std::span<const float> p, std::span<const float> q, std::size_t rank, float weight,
               MatrixShape shape, std::span<float> x) {
  for (std::size_t c = 0; c < rank; ++c)
    for (std::size_t row = 0; row < shape.rows; ++row) {
      const float factor = weight * p[c * shape.rows + row];
      const float* const values = q.data() + c * shape.cols;
      float* const out = x.data() + row * shape.cols;
      for (std::size_t col = 0; col < shape.cols; ++col) out[col] += factor * values[col];
    }
}

void orthonormalise(std::span<float> columns, std::size_t rank, Key draws) {
  for (std::size_t c = 0; c < rank; ++c)
    for (std::uint64_t attempt = 0; !orthonormalise_column(columns, rank, c) && attempt < 8;
         ++attempt)
      draw_directions(draws.fork(c).fork(attempt), column(columns, rank, c));
}

void draw_directions(Key key, std::span<float> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::int32_t sum = -2 * 0xffff;
    for (std::uint64_t bits = key.bits(i); bits != 0; bits >>= 16)
      sum += static_cast<std::int32_t>(bits & 0xffff);
    out[i] = static_cast<float>(sum) * 0x1p-15F;
  }
}

}  // namespace laconic::gossip

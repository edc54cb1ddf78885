// Low-rank arithmetic in loops the compiler vectorises: rows of the matrix are read once per column
// of a factor, from the first-level cache but for the first. Sums have a fixed order: lanes, then
// blocks of rows.
#include "laconic/kernels/low_rank.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "laconic/kernels/axpy.h"

namespace laconic {
namespace {

constexpr std::size_t kLanes = 16;
constexpr std::size_t kBlock = 64;  // rows whose sum is made apart, so that rounding stays small
constexpr double kDependent =
    1e-6;  // what float32 leaves of a column that depends on others is less

float dot(const float* a, const float* b, std::size_t count) {
  float lanes[kLanes] = {};
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (std::size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += a[i + lane] * b[i + lane];
  double sum = 0;
  for (const float lane : lanes) sum += lane;
  for (; i < count; ++i) sum += static_cast<double>(a[i]) * b[i];
  return static_cast<float>(sum);
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// Takes out of x what lies along the columns. Twice: once leaves a rounding error that grows with
// how much was taken out.
void project_out(std::span<const std::vector<double>> columns, std::vector<double>& x) {
  for (int pass = 0; pass < 2; ++pass)
    for (const auto& column : columns) {
      const double along = dot(column, x);
      for (std::size_t i = 0; i < x.size(); ++i) x[i] -= along * column[i];
    }
}

}  // namespace

void multiply(std::span<const float> matrix, const MatrixShape& shape, std::span<const float> right,
              std::span<float> left) {
  for (std::size_t row = 0; row < shape.rows; ++row)
    for (std::size_t k = 0; k < shape.rank; ++k)
      left[k * shape.rows + row] =
          dot(matrix.data() + row * shape.cols, right.data() + k * shape.cols, shape.cols);
}

void multiply_transposed(std::span<const float> matrix, const MatrixShape& shape,
                         std::span<const float> left, std::span<float> right) {
  std::vector<float> block(right.size());
  std::ranges::fill(right, 0.0F);
  for (std::size_t from = 0; from < shape.rows; from += kBlock) {
    std::ranges::fill(block, 0.0F);
    for (std::size_t row = from; row < std::min(shape.rows, from + kBlock); ++row)
      for (std::size_t k = 0; k < shape.rank; ++k)
        kernels::add_scaled(matrix.data() + row * shape.cols, left[k * shape.rows + row],
                            std::span(block).subspan(k * shape.cols, shape.cols));
    kernels::add_scaled(block.data(), 1, right);
  }
}

void add_product(std::span<const float> left, std::span<const float> right,
                 const MatrixShape& shape, float weight, std::span<float> matrix) {
  for (std::size_t row = 0; row < shape.rows; ++row)
    for (std::size_t k = 0; k < shape.rank; ++k)
      kernels::add_scaled(right.data() + k * shape.cols, weight * left[k * shape.rows + row],
                          matrix.subspan(row * shape.cols, shape.cols));
}

void orthonormalise(std::span<float> columns, std::size_t rows, Key key) {
  std::vector<std::vector<double>> done;
  for (std::size_t k = 0; k * rows < columns.size(); ++k) {
    const auto column = columns.subspan(k * rows, rows);
    std::vector<double> x(column.begin(), column.end());
    double length = std::sqrt(dot(x, x));
    project_out(done, x);
    for (std::uint64_t attempt = 0; !(std::sqrt(dot(x, x)) > kDependent * length); ++attempt) {
      draw_normal(key.fork(k).fork(attempt), column);
      x.assign(column.begin(), column.end());
      length = std::sqrt(dot(x, x));
      project_out(done, x);
    }
    const double norm = std::sqrt(dot(x, x));
    for (double& value : x) value /= norm;
    std::ranges::transform(x, column.begin(), [](double v) { return static_cast<float>(v); });
    done.push_back(std::move(x));
  }
}

// The sum of twelve uniform draws: no function of libm, whose last bit differs between machines.
void draw_normal(Key key, std::span<float> x) {
  for (std::size_t i = 0; i < x.size(); ++i) {
    std::int64_t sum = 0;
    for (std::uint64_t word = 0; word < 3; ++word) {
      const std::uint64_t bits = key.bits(3 * i + word);
      for (unsigned shift = 0; shift < 64; shift += 16)
        sum += static_cast<std::int64_t>(bits >> shift & 0xffff);
    }
    x[i] = static_cast<float>(2 * sum - 12 * 0xffff) / 0x1p17F;
  }
}

}  // namespace laconic

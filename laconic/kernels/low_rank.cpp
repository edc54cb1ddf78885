// Low-rank arithmetic on vector lanes. Rows of the matrix are read from memory once, for all
// columns of a factor. Sums have a fixed order, whatever the vector's width: 16 lanes along a row;
// rows one after the other, in blocks.
#include "laconic/kernels/low_rank.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "laconic/kernels/axpy.h"
#include "laconic/kernels/mixed.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "laconic/kernels/low_rank.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#ifndef LACONIC_KERNELS_LOW_RANK_ONCE
#define LACONIC_KERNELS_LOW_RANK_ONCE
namespace laconic::kernels {
constexpr std::size_t kDotLanes = 16;
constexpr std::size_t kRows = 8;     // that are added to a factor's sums between two loads of these
constexpr std::size_t kDotRows = 3;  // of the matrix that share the loads of a factor's columns
constexpr std::size_t kStretch =
    1024;  // of a row that stays in the first-level cache for all columns
}  // namespace laconic::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace laconic::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::CappedTag<float, kDotLanes>;

// Adds to the lane sums of kCount rows times kColumns columns, both `stride` apart. `count` is a
// multiple of 16. A row's sums of one column lie `apart` after those of the row before.
template <std::size_t kCount, std::size_t kColumns>
HWY_INLINE void dot_some(const float* rows, const float* columns, std::size_t stride,
                         std::size_t count, std::size_t apart, float* lanes) {
  const F32 d;
  constexpr std::size_t kWidth = hn::MaxLanes(F32()), kVectors = kDotLanes / kWidth;
  hn::Vec<F32> sums[kCount][kColumns][kVectors];
  const auto at = [&](std::size_t r, std::size_t c, std::size_t v) {
    return lanes + r * apart + c * kDotLanes + v * kWidth;
  };
  for (std::size_t r = 0; r < kCount; ++r)
    for (std::size_t c = 0; c < kColumns; ++c)
      for (std::size_t v = 0; v < kVectors; ++v) sums[r][c][v] = hn::LoadU(d, at(r, c, v));
  for (std::size_t i = 0; i < count; i += kDotLanes)
    for (std::size_t v = 0; v < kVectors; ++v) {
      hn::Vec<F32> y[kColumns];
      for (std::size_t c = 0; c < kColumns; ++c)
        y[c] = hn::LoadU(d, columns + c * stride + i + v * kWidth);
      for (std::size_t r = 0; r < kCount; ++r) {
        const auto x = hn::LoadU(d, rows + r * stride + i + v * kWidth);
        for (std::size_t c = 0; c < kColumns; ++c)
          sums[r][c][v] = hn::Add(sums[r][c][v], hn::Mul(x, y[c]));
      }
    }
  for (std::size_t r = 0; r < kCount; ++r)
    for (std::size_t c = 0; c < kColumns; ++c)
      for (std::size_t v = 0; v < kVectors; ++v) hn::StoreU(sums[r][c][v], d, at(r, c, v));
}

template <std::size_t kCount>
HWY_INLINE void dot_rows(const float* rows, const float* columns, std::size_t stride,
                         std::size_t rank, std::size_t count, float* lanes) {
  for (std::size_t from = 0; from < count; from += kStretch) {
    const std::size_t some = HWY_MIN(kStretch, count - from);
    std::size_t k = 0;
    for (; k + 2 <= rank; k += 2)
      dot_some<kCount, 2>(rows + from, columns + k * stride + from, stride, some, rank * kDotLanes,
                          lanes + k * kDotLanes);
    if (k < rank)
      dot_some<kCount, 1>(rows + from, columns + k * stride + from, stride, some, rank * kDotLanes,
                          lanes + k * kDotLanes);
  }
}

// lanes[(r * rank + k) * 16 ...] += lane sums of row r times column k, for kDotRows rows or one.
void dot_run(const float* rows, std::size_t some, const float* columns, std::size_t stride,
             std::size_t rank, std::size_t count, float* lanes) {
  if (some == kDotRows)
    dot_rows<kDotRows>(rows, columns, stride, rank, count, lanes);
  else
    dot_rows<1>(rows, columns, stride, rank, count, lanes);
}

// sum + w[0] * rows[0] + w[1] * rows[1] and so on, in this order.
template <class V>
HWY_INLINE V add_weighted(V sum, const float* w, V a, V b, V c, V e) {
  const F32 d;
  sum = hn::Add(sum, hn::Mul(hn::Set(d, w[0]), a));
  sum = hn::Add(sum, hn::Mul(hn::Set(d, w[1]), b));
  sum = hn::Add(sum, hn::Mul(hn::Set(d, w[2]), c));
  return hn::Add(sum, hn::Mul(hn::Set(d, w[3]), e));
}

// sums[k * cols + i] += weights[k * kRows + r] * rows[r * cols + i], for r in turn.
void add_rows_run(const float* rows, std::size_t cols, const float* weights, std::size_t rank,
                  float* sums) {
  static_assert(kRows == 8);
  const F32 d;
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= cols; i += hn::Lanes(d)) {
    const auto row = [&](std::size_t r) { return hn::LoadU(d, rows + r * cols + i); };
    const auto r0 = row(0), r1 = row(1), r2 = row(2), r3 = row(3);
    const auto r4 = row(4), r5 = row(5), r6 = row(6), r7 = row(7);
    for (std::size_t k = 0; k < rank; ++k) {
      const float* w = weights + k * kRows;
      auto sum = add_weighted(hn::LoadU(d, sums + k * cols + i), w, r0, r1, r2, r3);
      hn::StoreU(add_weighted(sum, w + 4, r4, r5, r6, r7), d, sums + k * cols + i);
    }
  }
  for (; i < cols; ++i)
    for (std::size_t k = 0; k < rank; ++k)
      for (std::size_t r = 0; r < kRows; ++r)
        sums[k * cols + i] += weights[k * kRows + r] * rows[r * cols + i];
}

// out[i] = 0 + weights[k] * columns[k * stride + i], for k in turn, and m[i] = c * (m[i] - out[i]).
void expand_run(const float* columns, std::size_t stride, const float* weights, std::size_t rank,
                std::size_t count, float c, float* m, float* out) {
  const F32 d;
  const auto factor = hn::Set(d, c);
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) {
    auto sum = hn::Zero(d);
    for (std::size_t k = 0; k < rank; ++k)
      sum = hn::Add(sum, hn::Mul(hn::Set(d, weights[k]), hn::LoadU(d, columns + k * stride + i)));
    hn::StoreU(sum, d, out + i);
    hn::StoreU(hn::Mul(factor, hn::Sub(hn::LoadU(d, m + i), sum)), d, m + i);
  }
  for (; i < count; ++i) {
    float sum = 0;
    for (std::size_t k = 0; k < rank; ++k) sum += weights[k] * columns[k * stride + i];
    out[i] = sum;
    m[i] = c * (m[i] - sum);
  }
}

// sum += weights[k] * columns[k * stride + i] for kRank columns in turn; or out[i] becomes x[i]
// minus the sum. Weights stay in registers.
template <std::size_t kRank, bool kLeave>
HWY_INLINE void product_by(const float* columns, std::size_t stride, const float* weights,
                           std::size_t rank, std::size_t count, const float* x, float* out) {
  const F32 d;
  hn::Vec<F32> all[kRank == 0 ? 1 : kRank];
  for (std::size_t k = 0; k < kRank; ++k) all[k] = hn::Set(d, weights[k]);
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) {
    auto sum = hn::Zero(d);
    for (std::size_t k = 0; k < kRank; ++k)
      sum = hn::Add(sum, hn::Mul(all[k], hn::LoadU(d, columns + k * stride + i)));
    for (std::size_t k = kRank; k < rank; ++k)
      sum = hn::Add(sum, hn::Mul(hn::Set(d, weights[k]), hn::LoadU(d, columns + k * stride + i)));
    if constexpr (kLeave) sum = hn::Sub(hn::LoadU(d, x + i), sum);
    hn::StoreU(sum, d, out + i);
  }
  for (; i < count; ++i) {
    float sum = 0;
    for (std::size_t k = 0; k < rank; ++k) sum += weights[k] * columns[k * stride + i];
    out[i] = kLeave ? x[i] - sum : sum;
  }
}

// out[i] = 0 + weights[k] * columns[k * stride + i], for k in turn; or x[i] minus that.
void product_run(const float* columns, std::size_t stride, const float* weights, std::size_t rank,
                 std::size_t count, const float* x, float* out) {
  const auto with = [&](auto first) HWY_ATTR {
    if (x == nullptr)
      product_by<first, false>(columns, stride, weights, rank, count, x, out);
    else
      product_by<first, true>(columns, stride, weights, rank, count, x, out);
  };
  if (rank >= 8) return with(std::integral_constant<std::size_t, 8>());
  if (rank >= 6) return with(std::integral_constant<std::size_t, 6>());
  if (rank >= 4) return with(std::integral_constant<std::size_t, 4>());
  if (rank >= 2) return with(std::integral_constant<std::size_t, 2>());
  with(std::integral_constant<std::size_t, 0>());
}

// out[i] += weights[k] * columns[k * stride + i], for k in turn.
void add_columns_run(const float* columns, std::size_t stride, const float* weights,
                     std::size_t rank, std::size_t count, float* out) {
  const F32 d;
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) {
    auto sum = hn::LoadU(d, out + i);
    for (std::size_t k = 0; k < rank; ++k)
      sum = hn::Add(sum, hn::Mul(hn::Set(d, weights[k]), hn::LoadU(d, columns + k * stride + i)));
    hn::StoreU(sum, d, out + i);
  }
  for (; i < count; ++i)
    for (std::size_t k = 0; k < rank; ++k) out[i] += weights[k] * columns[k * stride + i];
}

}  // namespace laconic::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace laconic {
namespace kernels {

HWY_EXPORT(dot_run);
HWY_EXPORT(add_rows_run);
HWY_EXPORT(add_columns_run);
HWY_EXPORT(expand_run);
HWY_EXPORT(product_run);

}  // namespace kernels

namespace {

using kernels::kDotLanes;
using kernels::kRows;

constexpr std::size_t kSome = 16;      // columns of a factor that are done at a time
constexpr std::size_t kRowBlock = 64;  // rows whose sum is made apart: rounding stays small
constexpr double kDependent = 1e-6;    // more than float32 leaves of a column that depends

// `count` rows of the matrix from row `at` on, kDotRows or one, with every column of `right`.
void multiply_few(const float* rows, std::size_t count, const MatrixShape& shape,
                  const float* right, std::size_t at, float* left) {
  const std::size_t whole = shape.cols / kDotLanes * kDotLanes;
  float lanes[kernels::kDotRows * kSome * kDotLanes];
  for (std::size_t from = 0; from < shape.rank; from += kSome) {
    const std::size_t some = std::min(kSome, shape.rank - from);
    std::fill_n(lanes, count * some * kDotLanes, 0.0F);
    HWY_DYNAMIC_DISPATCH(kernels::dot_run)
    (rows, count, right + from * shape.cols, shape.cols, some, whole, lanes);
    for (std::size_t r = 0; r < count; ++r)
      for (std::size_t k = 0; k < some; ++k) {
        const float* sums = lanes + (r * some + k) * kDotLanes;
        double sum = 0;
        for (std::size_t lane = 0; lane < kDotLanes; ++lane) sum += sums[lane];
        const float *column = right + (from + k) * shape.cols, *row = rows + r * shape.cols;
        for (std::size_t i = whole; i < shape.cols; ++i)
          sum += static_cast<double>(row[i]) * column[i];
        left[(from + k) * shape.rows + at + r] = static_cast<float>(sum);
      }
  }
}

// Rows [first, last) of the matrix with every column of `right`.
void multiply_some(const float* matrix, const MatrixShape& shape, const float* right,
                   std::size_t first, std::size_t last, float* left) {
  while (first < last) {
    const std::size_t count = last - first >= kernels::kDotRows ? kernels::kDotRows : 1;
    multiply_few(matrix + first * shape.cols, count, shape, right, first, left);
    first += count;
  }
}

// out[i] += weight * entry (row, col + i) of left * right^T, column by column.
void add_row_of_product(const float* left, const float* right, const MatrixShape& shape,
                        std::size_t row, std::size_t col, float weight, std::span<float> out) {
  float weights[kSome];
  for (std::size_t from = 0; from < shape.rank; from += kSome) {
    const std::size_t some = std::min(kSome, shape.rank - from);
    for (std::size_t k = 0; k < some; ++k)
      weights[k] = weight * left[(from + k) * shape.rows + row];
    HWY_DYNAMIC_DISPATCH(kernels::add_columns_run)
    (right + from * shape.cols + col, shape.cols, weights, some, out.size(), out.data());
  }
}

// Adds `rows` rows from `first` on, times their entries of left, to the sums of all columns.
void add_rows(std::span<const float> matrix, const MatrixShape& shape, std::span<const float> left,
              std::size_t first, std::size_t last, std::span<float> sums) {
  std::size_t row = first;
  for (; row + kRows <= last; row += kRows)
    for (std::size_t from = 0; from < shape.rank; from += kSome) {
      const std::size_t some = std::min(kSome, shape.rank - from);
      float weights[kSome * kRows];
      for (std::size_t k = 0; k < some; ++k)
        std::copy_n(left.data() + (from + k) * shape.rows + row, kRows, weights + k * kRows);
      HWY_DYNAMIC_DISPATCH(kernels::add_rows_run)
      (matrix.data() + row * shape.cols, shape.cols, weights, some,
       sums.data() + from * shape.cols);
    }
  for (; row < last; ++row)
    for (std::size_t k = 0; k < shape.rank; ++k)
      kernels::add_scaled(matrix.data() + row * shape.cols, left[k * shape.rows + row],
                          sums.subspan(k * shape.cols, shape.cols));
}

// Calls use(row, col, done, part) for the stretches of rows that entries from..from + count are.
template <class Use>
void in_rows(const MatrixShape& shape, std::size_t from, std::size_t count, Use use) {
  std::size_t row = from / shape.cols, col = from % shape.cols;
  for (std::size_t done = 0; done < count; ++row, col = 0) {
    const std::size_t part = std::min(count - done, shape.cols - col);
    use(row, col, done, part);
    done += part;
  }
}

void fill_or_leave(std::span<const float> left, std::span<const float> right,
                   const MatrixShape& shape, std::size_t from, const float* x,
                   std::span<float> out) {
  in_rows(shape, from, out.size(),
          [&](std::size_t row, std::size_t col, std::size_t done, std::size_t part) {
            float weights[kSome];
            bool any = false;
            for (std::size_t k = 0; k < shape.rank; ++k) {
              weights[k] = left[k * shape.rows + row];
              any = any || weights[k] != 0;
            }
            HWY_DYNAMIC_DISPATCH(kernels::product_run)
            (right.data() + col, shape.cols, weights, any ? shape.rank : 0, part,
             x == nullptr ? nullptr : x + done, out.data() + done);
          });
}

// Eight sums side by side: one alone would wait for each of its terms.
double dot(std::span<const double> a, std::span<const double> b) {
  constexpr std::size_t kSums = 8;
  double sums[kSums] = {};
  std::size_t i = 0;
  for (; i + kSums <= a.size(); i += kSums)
    for (std::size_t lane = 0; lane < kSums; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  for (; i < a.size(); ++i) sums[i % kSums] += a[i] * b[i];
  return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

// Takes out of x what lies along the columns before it. Twice: once leaves a rounding error that
// grows with how much was taken out.
void project_out(std::span<const double> columns, std::span<double> x) {
  for (int pass = 0; pass < 2; ++pass)
    for (std::size_t from = 0; from < columns.size(); from += x.size()) {
      const auto column = columns.subspan(from, x.size());
      const double along = dot(column, x);
      for (std::size_t i = 0; i < x.size(); ++i) x[i] -= along * column[i];
    }
}

}  // namespace

void multiply(std::span<const float> matrix, const MatrixShape& shape, std::span<const float> right,
              std::span<float> left) {
  multiply_some(matrix.data(), shape, right.data(), 0, shape.rows, left.data());
}

void mix_and_multiply(const Floats& fresh, float b, std::span<const float> kept,
                      const MatrixShape& shape, std::span<const float> right,
                      std::span<float> matrix, std::span<float> left) {
  // As many rows at a time as stay in the caches until they are multiplied.
  const std::size_t rows =
      std::max<std::size_t>(kBlock / std::max<std::size_t>(shape.cols, 1), kernels::kDotRows);
  float buffer[kBlock];
  for (std::size_t row = 0; row < shape.rows; row += rows) {
    const std::size_t last = std::min(shape.rows, row + rows), end = last * shape.cols;
    for (std::size_t from = row * shape.cols; from < end; from += kBlock) {
      const std::size_t count = std::min(kBlock, end - from);
      kernels::mix(1, fresh.load(from, count, buffer), b, kept.data() + from,
                   matrix.subspan(from, count));
    }
    if (shape.rank == 0) continue;
    multiply_some(matrix.data(), shape, right.data(), row, last, left.data());
  }
}

void multiply_rows(std::span<const float> matrix, const MatrixShape& shape,
                   std::span<const float> right, std::size_t first, std::size_t last,
                   std::span<float> left) {
  multiply_some(matrix.data(), shape, right.data(), first, last, left.data());
}

void multiply_transposed(std::span<const float> matrix, const MatrixShape& shape,
                         std::span<const float> left, std::span<float> right, Array<float>& spare) {
  multiply_rows_transposed(matrix, shape, left, 0, shape.rows, right, spare.reset(right.size()));
}

void multiply_rows_transposed(std::span<const float> matrix, const MatrixShape& shape,
                              std::span<const float> left, std::size_t first, std::size_t last,
                              std::span<float> right, std::span<float> sums) {
  std::ranges::fill(right, 0.0F);
  for (std::size_t from = first; from < last; from += kRowBlock) {
    std::ranges::fill(sums, 0.0F);
    add_rows(matrix, shape, left, from, std::min(last, from + kRowBlock), sums);
    kernels::add_scaled(sums.data(), 1, right);
  }
}

void add_product(std::span<const float> left, std::span<const float> right,
                 const MatrixShape& shape, float weight, std::span<float> matrix) {
  for (std::size_t row = 0; row < shape.rows; ++row)
    add_row_of_product(left.data(), right.data(), shape, row, 0, weight,
                       matrix.subspan(row * shape.cols, shape.cols));
}

void expand(std::span<const float> left, std::span<const float> right, const MatrixShape& shape,
            std::size_t from, std::span<float> product, float c, float* m) {
  for (std::size_t done = 0; done < product.size();) {
    const std::size_t row = (from + done) / shape.cols, col = (from + done) % shape.cols;
    const auto part = product.subspan(done, std::min(product.size() - done, shape.cols - col));
    if (shape.rank <= kSome) {
      float weights[kSome];
      for (std::size_t k = 0; k < shape.rank; ++k) weights[k] = left[k * shape.rows + row];
      HWY_DYNAMIC_DISPATCH(kernels::expand_run)
      (right.data() + col, shape.cols, weights, shape.rank, part.size(), c, m + done, part.data());
    } else {
      std::ranges::fill(part, 0.0F);
      add_row_of_product(left.data(), right.data(), shape, row, col, 1, part);
      kernels::leave(c, m + done, part.data(), part.size(), false, m + done);
    }
    done += part.size();
  }
}

void fill_product(std::span<const float> left, std::span<const float> right,
                  const MatrixShape& shape, std::size_t from, std::span<float> product) {
  fill_or_leave(left, right, shape, from, nullptr, product);
}

void leave_product(std::span<const float> left, std::span<const float> right,
                   const MatrixShape& shape, std::size_t from, const float* x,
                   std::span<float> rest) {
  fill_or_leave(left, right, shape, from, x, rest);
}

void orthonormalise(std::span<float> columns, std::size_t rows, Key key, Array<double>& spare) {
  const auto done = spare.reset(columns.size());
  std::ranges::copy(columns, done.begin());
  for (std::size_t k = 0; k * rows < columns.size(); ++k) {
    const auto column = columns.subspan(k * rows, rows);
    const auto x = done.subspan(k * rows, rows);
    double length = std::sqrt(dot(x, x));
    project_out(done.first(k * rows), x);
    for (std::uint64_t attempt = 0; !(std::sqrt(dot(x, x)) > kDependent * length); ++attempt) {
      draw_normal(key.fork(k).fork(attempt), column);
      std::ranges::copy(column, x.begin());
      length = std::sqrt(dot(x, x));
      project_out(done.first(k * rows), x);
    }
    const double norm = std::sqrt(dot(x, x));
    for (double& value : x) value /= norm;
    std::ranges::transform(x, column.begin(), [](double v) { return static_cast<float>(v); });
  }
}

}  // namespace laconic
#endif  // HWY_ONCE

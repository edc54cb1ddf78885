// Scales of rows and columns.
#include "laconic/operators/dither_scales.h"

#include <bit>
#include <cmath>

#include "laconic/kernels/columns.h"
#include "laconic/kernels/reduce.h"

namespace laconic {
namespace {

constexpr std::uint8_t kDead = 63;  // of a row or column of zeros, on the wire

// The power of two nearest to v by ratio, for v > 0 that is not subnormal.
int nearest_power(double v) {
  constexpr std::uint64_t kRoot = 0x6a09e667f3bcdULL;  // the digits of sqrt 2
  return static_cast<int>((std::bit_cast<std::uint64_t>(v) + (1ULL << 52) - kRoot) >> 52) - 1023;
}

constexpr std::size_t kPiece = 1 << 14;  // entries that stay in the caches between two sums
constexpr std::size_t kLeastChunk = 1 << 16;
constexpr std::size_t kMostChunks = 16;  // each of which adds up columns of its own

// How rows are shared out. Their number depends on the shape alone, and so does every sum.
struct Chunks {
  std::size_t rows, count;

  explicit Chunks(const DitherShape& shape) {
    const std::size_t least = std::max<std::size_t>(1, kLeastChunk / shape.cols);
    rows = shape.matrix ? std::max(least, (shape.rows() + kMostChunks - 1) / kMostChunks) : least;
    count = (shape.rows() + rows - 1) / rows;
  }
};

// Sums of squares of rows first to last - 1 of a matrix, and from top to bottom of columns.
void sum_rows(std::span<const float> x, const DitherShape& shape, const DitherRows& from,
              std::size_t first, std::size_t last, std::span<double> rows, std::span<double> cols) {
  std::ranges::fill(cols, 0.0);
  const std::size_t some = std::max<std::size_t>(1, kPiece / shape.cols);
  for (; first < last; first += some) {
    const std::size_t count = std::min(some, last - first), at = first * shape.cols;
    if (from.product != nullptr)
      from.product->leave(at, from.x.data() + at, from.rest.subspan(at, count * shape.cols));
    for (std::size_t row = 0; row < count; ++row)
      rows[first + row] = kernels::sum_of_squares(x.subspan(at + row * shape.cols, shape.cols));
    kernels::add_squares(x.data() + at, shape.cols, count, cols);
  }
}

// Sums of rows, then of columns of a matrix: not finite where an entry is not.
std::span<const double> sum_all(std::span<const float> x, const DitherShape& shape,
                                const DitherRows& from, StageScratch& scratch) {
  const Chunks chunks(shape);
  const std::size_t rows = shape.rows(), cols = shape.matrix ? shape.cols : 0;
  const auto all = scratch.sums.reset(rows + chunks.count * cols);
  const auto columns_of = [&](std::size_t chunk) { return all.subspan(rows + chunk * cols, cols); };
  scratch.pool.each(chunks.count, [&](std::size_t chunk, unsigned) {
    const std::size_t first = chunk * chunks.rows, last = std::min(rows, first + chunks.rows);
    if (shape.matrix) return sum_rows(x, shape, from, first, last, all, columns_of(chunk));
    const std::size_t at = first * shape.cols;
    kernels::squares_of_groups(x.subspan(at, std::min(x.size(), last * shape.cols) - at),
                               all.data() + first);
  });
  for (std::size_t chunk = 1; chunk < chunks.count && shape.matrix; ++chunk)
    for (std::size_t col = 0; col < cols; ++col) columns_of(0)[col] += columns_of(chunk)[col];
  return all.first(rows + cols);
}

}  // namespace

std::optional<double> measure_scales(const DitherRows& from, const DitherShape& shape,
                                     std::span<std::uint8_t> scales, std::int16_t& exponent,
                                     StageScratch& scratch) {
  const std::size_t rows = shape.rows();
  const auto sums = sum_all(from.product == nullptr ? from.x : from.rest, shape, from, scratch);
  double total = 0;
  for (const double sum : sums.first(rows)) total += sum;
  if (!std::isfinite(total)) return {};
  if (total == 0) {
    std::ranges::fill(scales, kNowhere);
    return 0;
  }
  const double mean = total / static_cast<double>(shape.count);
  int top = -10000, col_top = shape.matrix ? -10000 : 0;
  const auto power = [&](std::size_t i) {
    if (i >= rows) return nearest_power(sums[i] / static_cast<double>(rows) / mean);
    return nearest_power(sums[i] / static_cast<double>(shape.row_size(i)));
  };
  for (std::size_t i = 0; i < sums.size(); ++i)
    if (sums[i] > 0) (i < rows ? top : col_top) = std::max(i < rows ? top : col_top, power(i));
  exponent = static_cast<std::int16_t>((top + col_top + 1) >> 1);
  top = 2 * exponent - col_top;  // of rows, so that both make it up
  for (std::size_t i = 0; i < sums.size(); ++i)
    scales[i] = sums[i] > 0 ? static_cast<std::uint8_t>(
                                  std::min<int>((i < rows ? top : col_top) - power(i), kMostSteps))
                            : kNowhere;
  return total;
}

void write_scales(const DitherShape& shape, std::span<const std::uint8_t> scales, Buffer& out,
                  StageScratch& scratch) {
  const auto bytes = scratch.spare.reset(scales.size());
  std::ranges::transform(scales, bytes.begin(),
                         [](std::uint8_t scale) { return std::min(scale, kDead); });
  scratch.entropy.encode(bytes.first(shape.rows()), out, scratch.pool);
  if (shape.matrix) scratch.entropy.encode(bytes.subspan(shape.rows()), out, scratch.pool);
}

ByteView read_scales(ByteView section, const DitherShape& shape, std::span<std::uint8_t> scales,
                     StageScratch& scratch) {
  section = scratch.entropy.decode(section, scales.first(shape.rows()), scratch.pool);
  if (shape.matrix)
    section = scratch.entropy.decode(section, scales.subspan(shape.rows()), scratch.pool);
  for (std::uint8_t& scale : scales) {
    if (scale > kDead)
      throw DataError("a section by 'dither' has a scale of " + std::to_string(scale) +
                      "; allowed: 0 to " + std::to_string(kDead));
    if (scale == kDead) scale = kNowhere;
  }
  return section;
}

std::int16_t read_exponent(ByteReader& reader) {
  constexpr int kMostExponent = 200;
  const auto exponent = reader.number<std::int16_t>("the exponent of the largest scale");
  if (std::abs(exponent) > kMostExponent)
    throw DataError("a section in contexts has a largest scale of 2^" + std::to_string(exponent) +
                    "; allowed: 2^-200 to 2^200");
  return exponent;
}

ScaleCounts entries_of(const DitherShape& shape, std::span<const std::uint8_t> scales) {
  ScaleCounts rows{}, cols{}, all{};
  for (std::size_t row = 0; row < shape.rows(); ++row)
    rows[scales[row]] += shape.matrix ? 1 : shape.row_size(row);
  if (!shape.matrix)
    cols[0] = 1;
  else
    for (const std::uint8_t col : scales.subspan(shape.rows())) ++cols[col];
  for (std::size_t i = 0; i <= kMostSteps; ++i)
    for (std::size_t j = 0; j <= kMostSteps; ++j) all[i + j] += rows[i] * cols[j];
  return all;
}

}  // namespace laconic

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

// Sums of squares: not finite where an entry is not.
void sum_rows(std::span<const float> x, const DitherShape& shape, std::span<double> sums,
              Pool& pool) {
  constexpr std::size_t kPiece = 16 * kBlock;  // entries one thread takes at a time
  const std::size_t some = std::max<std::size_t>(1, kPiece / shape.cols);
  pool.each((shape.rows() + some - 1) / some, [&](std::size_t piece, unsigned) {
    const std::size_t first = piece * some, end = std::min(shape.rows(), first + some);
    if (!shape.matrix) {
      const std::size_t from = first * shape.cols;
      return kernels::squares_of_groups(
          x.subspan(from, std::min(x.size(), end * shape.cols) - from), sums.data() + first);
    }
    for (std::size_t row = first; row < end; ++row)
      sums[row] = kernels::sum_of_squares(x.subspan(row * shape.cols, shape.cols));
  });
}

// Sums of squares, each from top to bottom; threads take columns.
void sum_columns(std::span<const float> x, const DitherShape& shape, std::span<double> sums,
                 Pool& pool) {
  constexpr std::size_t kStripe = 1024;
  pool.each((shape.cols + kStripe - 1) / kStripe, [&](std::size_t stripe, unsigned) {
    const std::size_t first = stripe * kStripe, count = std::min(kStripe, shape.cols - first);
    const auto to = sums.subspan(first, count);
    std::ranges::fill(to, 0.0);
    kernels::add_squares(x.data() + first, shape.cols, shape.rows(), to);
  });
}

}  // namespace

std::optional<double> measure_scales(std::span<const float> x, const DitherShape& shape,
                                     std::span<std::uint8_t> scales, std::int16_t& exponent,
                                     StageScratch& scratch) {
  const std::size_t rows = shape.rows();
  const auto sums = scratch.sums.reset(shape.scales());
  sum_rows(x, shape, sums, scratch.pool);
  double total = 0;
  for (const double sum : sums.first(rows)) total += sum;
  if (!std::isfinite(total)) return {};
  if (shape.matrix) sum_columns(x, shape, sums.subspan(rows), scratch.pool);
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

// Factors from the loudest rows of a matrix and two sweeps over it.
#include "laconic/operators/dither_factors.h"

#include <array>
#include <cmath>
#include <numeric>

#include "laconic/codecs/varint.h"
#include "laconic/operators/dither_scales.h"

namespace laconic {
namespace {

constexpr std::size_t kLeastCount = 1 << 13;  // entries from which on a product may pay
constexpr std::size_t kSampled = 64;          // rows that suggest a product, and that try it
constexpr int kRounds = 2;                    // in which they do
constexpr std::size_t kLeastChunk = 1 << 16;  // entries that a thread takes at a time
constexpr std::size_t kMostChunks = 16;
constexpr int kMostExponent = 40;  // of entries: nothing over- or underflows then
constexpr float kMostSize = 0x1p100F, kLeastSize = 0x1p-100F;
constexpr double kBitsOfTable = 300;  // of the code of a column and its size
constexpr int kMost = 127;

bool is_sent(std::uint8_t scale) { return scale != kNowhere; }

// Which rows and columns hold anything.
struct Alive {
  std::span<const std::uint8_t> rows, cols;
  double row_count, col_count;

  Alive(const DitherShape& shape, std::span<const std::uint8_t> scales)
      : rows(scales.first(shape.rows())),
        cols(scales.subspan(shape.rows())),
        row_count(static_cast<double>(std::ranges::count_if(rows, is_sent))),
        col_count(static_cast<double>(std::ranges::count_if(cols, is_sent))) {}
  double entries() const { return row_count * col_count; }
};

// Working memory for a factor of each kind and rows of the matrix.
struct Room {
  MatrixShape sample, all;
  std::span<float> rows, left, few, right;

  Room(const DitherShape& shape, std::size_t sampled, Array<float>& memory)
      : sample{sampled, shape.cols, std::min({kDitherRank, sampled, shape.cols})},
        all{shape.rows(), shape.cols, sample.rank} {
    auto rest = memory.reset(sampled * shape.cols + sample.rank * (all.rows + sampled + all.cols));
    const auto take = [&](std::size_t size) {
      const auto part = rest.first(size);
      rest = rest.subspan(size);
      return part;
    };
    rows = take(sampled * shape.cols);
    left = take(sample.rank * all.rows);
    few = take(sample.rank * sampled);
    right = take(sample.rank * all.cols);
  }
  // Of the columns only the first.
  void keep(std::size_t rank) {
    sample.rank = all.rank = rank;
    left = left.first(rank * all.rows);
    few = few.first(rank * sample.rows);
    right = right.first(rank * all.cols);
  }
};

void copy_rows(std::span<const float> x, std::span<const std::uint32_t> chosen, std::size_t cols,
               float* to) {
  for (const std::uint32_t row : chosen) to = std::copy_n(x.data() + row * cols, cols, to);
}

double sum_of_squares(std::span<const float> x) {
  double sum = 0;
  for (const float value : x) sum += static_cast<double>(value) * value;
  return sum;
}

// What each column of a factor holds of all squares.
using Taken = std::array<double, kDitherRank>;
Taken squares_of(std::span<const float> factor, std::size_t rank) {
  Taken taken{};
  const std::size_t size = factor.size() / rank;
  for (std::size_t k = 0; k < rank; ++k) taken[k] = sum_of_squares(factor.subspan(k * size, size));
  return taken;
}

// How many columns promise the fewest bits, and what is left of the entries' mean square then: as
// if a product took the same part of every entry's variance.
struct Choice {
  std::size_t rank = 0;
  double left = 0;
};
Choice chosen_rank(const DitherRest& rest, std::size_t rank, const Taken& taken, const Alive& alive,
                   double squares, double omega) {
  const double without = dither_bits(rest.entries, rest.loudness);
  double most = 0, cost = 0, left = squares;
  Choice best;
  for (std::size_t k = 0; k < rank; ++k) {
    left = std::max(0x1p-20 * squares, left - taken[k]);
    const double noise = (omega * squares + left) / alive.entries();
    cost += kBitsOfTable + alive.row_count * dither_bits(taken[k] / alive.row_count / noise) +
            alive.col_count * dither_bits(taken[k] / alive.col_count / noise);
    Loudness quieter = rest.loudness;
    quieter.c = solved_noise(rest.entries, quieter, omega * squares * (squares / left));
    const double saved = without - dither_bits(rest.entries, quieter) - cost;
    if (saved > most) most = saved, best = {k + 1, left / alive.entries()};
    if (k > best.rank + 1) break;  // two in turn saved less
  }
  return best;
}

// How many orthonormal columns of `right` would pay for the whole matrix, by what they take out of
// rows that did not suggest them.
std::size_t rank_elsewhere(const DitherRest& rest, const Room& room, const Alive& alive,
                           double squares, double omega, StageScratch& scratch) {
  const auto all = scratch.chosen.reset(room.all.rows);
  std::size_t found = 0;
  for (std::size_t row = 0; row < room.all.rows; ++row)
    if (is_sent(alive.rows[row])) all[found++] = static_cast<std::uint32_t>(row);
  const std::size_t stride = found / room.sample.rows;
  for (std::size_t i = 0; i < room.sample.rows; ++i) all[i] = all[i * stride + stride / 2];
  copy_rows(rest.x, all.first(room.sample.rows), room.all.cols, room.rows.data());
  multiply(room.rows, room.sample, room.right, room.few);
  Taken taken = squares_of(room.few, room.sample.rank);
  const double of_all = squares / std::max(sum_of_squares(room.rows), 0x1p-120);
  for (double& part : taken) part *= of_all;
  return chosen_rank(rest, room.sample.rank, taken, alive, squares, omega).rank;
}

// Rows as threads take them: how many at a time depends on the matrix alone, and so does every sum.
struct RowChunks {
  std::size_t all, rows, count;

  explicit RowChunks(const MatrixShape& shape)
      : all(shape.rows),
        rows(std::max({std::size_t{64}, kLeastChunk / shape.cols,
                       (shape.rows + kMostChunks - 1) / kMostChunks})),
        count((shape.rows + rows - 1) / rows) {}
  std::size_t first(std::size_t chunk) const { return std::min(all, chunk * rows); }
};

// Makes `right` what the matrix is along `left`.
void along_rows(std::span<const float> x, const Room& room, const RowChunks& chunks,
                StageScratch& scratch) {
  const std::size_t size = room.right.size();
  const auto parts = scratch.products.reset(2 * chunks.count * size);
  const auto part_of = [&](std::size_t part) { return parts.subspan(part * size, size); };
  scratch.pool.each(chunks.count, [&](std::size_t chunk, unsigned) {
    multiply_rows_transposed(x, room.all, room.left, chunks.first(chunk), chunks.first(chunk + 1),
                             part_of(2 * chunk), part_of(2 * chunk + 1));
  });
  std::ranges::copy(part_of(0), room.right.begin());
  for (std::size_t chunk = 1; chunk < chunks.count; ++chunk)
    for (std::size_t i = 0; i < size; ++i) room.right[i] += part_of(2 * chunk)[i];
}

// Makes `left` orthonormal and `right` what the matrix is along it, from the loudest rows first;
// false if it is clear that this does not pay.
bool find_directions(const DitherRest& rest, Room& room, const Alive& alive, double squares,
                     double omega, StageScratch& scratch) {
  const auto x = rest.x;
  const Key key(0x646974686572);
  const auto order = scratch.chosen.reset(room.all.rows);
  std::iota(order.begin(), order.end(), 0U);
  const std::span<const double> sums = scratch.sums.view();
  std::nth_element(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(room.sample.rows - 1),
                   order.end(), [&](std::uint32_t a, std::uint32_t b) {
                     return sums[a] != sums[b] ? sums[a] > sums[b] : a < b;
                   });
  std::ranges::sort(order.first(room.sample.rows));
  copy_rows(x, order.first(room.sample.rows), room.all.cols, room.rows.data());
  // Some of the rows themselves: nearer than directions that are drawn, by a round.
  for (std::size_t k = 0; k < room.sample.rank; ++k)
    std::copy_n(room.rows.data() + k * room.sample.rows / room.sample.rank * room.all.cols,
                room.all.cols, room.right.data() + k * room.all.cols);
  for (int round = 0; round < kRounds; ++round) {
    multiply(room.rows, room.sample, room.right, room.few);
    orthonormalise(room.few, room.sample.rows, key.fork(1), scratch.bases);
    multiply_transposed(room.rows, room.sample, room.few, room.right, scratch.products);
  }
  orthonormalise(room.right, room.all.cols, key.fork(2), scratch.bases);
  if (alive.row_count >= 4 * kSampled) {
    const std::size_t rank = rank_elsewhere(rest, room, alive, squares, omega, scratch);
    if (rank == 0) return false;
    room.keep(std::min(rank + 1, room.all.rank));
  }
  const RowChunks chunks(room.all);
  scratch.pool.each(chunks.count, [&](std::size_t chunk, unsigned) {
    multiply_rows(x, room.all, room.right, chunks.first(chunk), chunks.first(chunk + 1), room.left);
  });
  orthonormalise(room.left, room.all.rows, key.fork(3), scratch.bases);
  along_rows(x, room, chunks, scratch);
  return true;
}

float largest_of(std::span<const float> x, std::span<const std::uint8_t> scales) {
  float largest = 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    if (is_sent(scales[i])) largest = std::max(largest, std::abs(x[i]));
  return largest;
}

// Values that have a scale as whole numbers of steps, each a byte.
std::uint8_t* to_bytes(std::span<const float> x, std::span<const std::uint8_t> scales, double step,
                       std::uint8_t* to) {
  for (std::size_t i = 0; i < x.size(); ++i)
    if (is_sent(scales[i]))
      *to++ = static_cast<std::uint8_t>(
          128 + std::clamp(static_cast<int>(std::floor(x[i] / step + 0.5)), -kMost, kMost));
  return to;
}

const std::uint8_t* from_bytes(const std::uint8_t* from, std::span<const std::uint8_t> scales,
                               float size, std::span<float> x) {
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = is_sent(scales[i]) ? static_cast<float>(*from++ - 128) * size : 0;
  return from;
}

// Column k of both factors.
struct Columns {
  std::span<float> left, right;

  Columns(std::span<float> factors, const DitherShape& shape, std::size_t rank, std::size_t k)
      : left(factors.subspan(k * shape.rows(), shape.rows())),
        right(factors.subspan(rank * shape.rows() + k * shape.cols, shape.cols)) {}

  void fill(const std::uint8_t* bytes, const Alive& alive, float size) const {
    from_bytes(from_bytes(bytes, alive.rows, size, left), alive.cols, 1, right);
  }
};

// Writes columns in steps as large as noise and what is left make errors of entries anyway, and
// fills `factors` as readers will. False if a size is beyond what may be written.
bool write_columns(const Room& room, const DitherShape& shape, const Alive& alive, double noise,
                   std::size_t rank, std::span<float> factors, StageScratch& scratch) {
  const double step = std::sqrt(12 * noise);
  for (std::size_t k = 0; k < rank; ++k) {
    const auto left = room.left.subspan(k * shape.rows(), shape.rows());
    const auto right = room.right.subspan(k * shape.cols, shape.cols);
    const double length = std::sqrt(sum_of_squares(right));
    const double left_step =
        std::max(step / length, static_cast<double>(largest_of(left, alive.rows)) / kMost);
    const double right_step =
        std::max(step, static_cast<double>(largest_of(right, alive.cols)) / kMost);
    const auto size = static_cast<float>(left_step * right_step);
    if (!(size >= kLeastSize && size <= kMostSize)) return false;
    const auto bytes = scratch.spare.reset(shape.scales());
    const std::uint8_t* end = to_bytes(right, alive.cols, right_step,
                                       to_bytes(left, alive.rows, left_step, bytes.data()));
    Columns(factors, shape, rank, k).fill(bytes.data(), alive, size);
    scratch.coded.append_number(size);
    scratch.entropy.encode(bytes.first(static_cast<std::size_t>(end - bytes.data())), scratch.coded,
                           scratch.pool);
  }
  return true;
}

}  // namespace

void take_product_off(DitherRest& rest, const DitherShape& shape, double squares, double omega,
                      std::span<std::uint8_t> scales, std::span<float> factors,
                      StageScratch& scratch) {
  const auto x = rest.x;
  if (!shape.matrix || x.size() < kLeastCount || std::abs(rest.loudness.exponent) > kMostExponent)
    return;
  const auto kept = scratch.scales.reset(scales.size());
  std::ranges::copy(scales, kept.begin());
  const Alive alive(shape, kept);
  const auto sampled =
      static_cast<std::size_t>(std::min<double>(static_cast<double>(kSampled), alive.row_count));
  Room room(shape, sampled, scratch.sample);
  if (!find_directions(rest, room, alive, squares, omega, scratch)) return;
  const Choice choice = chosen_rank(rest, room.all.rank, squares_of(room.right, room.all.rank),
                                    alive, squares, omega);
  if (choice.rank == 0) return;
  scratch.coded.clear();
  const double noise = omega * squares / alive.entries() + choice.left;
  if (!write_columns(room, shape, alive, noise, choice.rank, factors, scratch)) return;

  const auto left = scratch.rest.reset(x.size());
  const DitherProduct product(shape, choice.rank, factors.data());
  DitherRest next{.x = left, .rank = choice.rank};
  measure_scales({.x = x, .product = &product, .rest = left}, shape, scales, next.loudness.exponent,
                 scratch);
  next.entries = entries_of(shape, scales);
  const bool same = std::ranges::equal(scales, kept, {}, is_sent, is_sent);
  if (same) next.loudness.c = solved_noise(next.entries, next.loudness, omega * squares);
  const double saved = dither_bits(rest.entries, rest.loudness) -
                       (same ? dither_bits(next.entries, next.loudness) : 0);
  if (same && saved > 8 * static_cast<double>(scratch.coded.size()))
    rest = next;
  else
    std::ranges::copy(kept, scales.begin());
}

ByteView read_factors(ByteView section, const DitherShape& shape, std::size_t rank,
                      std::span<const std::uint8_t> scales, std::span<float> factors,
                      StageScratch& scratch) {
  const Alive alive(shape, scales);
  const auto bytes =
      scratch.spare.reset(static_cast<std::size_t>(alive.row_count + alive.col_count));
  for (std::size_t k = 0; k < rank; ++k) {
    ByteReader reader(section);
    const auto size = reader.number<float>("the size of a column");
    if (!(size >= kLeastSize && size <= kMostSize))
      throw DataError("a section by 'dither' has a column of size " + std::to_string(size) +
                      "; allowed: 2^-100 to 2^100");
    section = scratch.entropy.decode(reader.rest(), bytes, scratch.pool);
    if (std::ranges::find(bytes, 0) != bytes.end())
      throw DataError("a section by 'dither' has a factor of -128; allowed: -127 to 127");
    Columns(factors, shape, rank, k).fill(bytes.data(), alive, size);
  }
  return section;
}

std::size_t most_factor_bytes(std::size_t count) {
  return kDitherRank * (sizeof(float) + Entropy::max_size(DitherShape::most_scales(count)));
}

}  // namespace laconic

// Factors: their shapes, their longest rows, and random ones.
#include <algorithm>
#include <numeric>

#include "laconic/kernels/low_rank.h"

namespace laconic {

MatrixShape shape_of_factors(std::size_t rows, std::size_t cols, std::size_t rank) {
  const std::size_t most = std::min({rank, rows, cols});
  return {rows, cols, most * (rows + cols) < rows * cols ? most : 0};
}

void longest_rows(std::span<const float> factor, std::size_t rows, std::size_t kept,
                  Array<std::uint32_t>& chosen, Array<double>& lengths) {
  const auto length = lengths.reset(rows);
  std::ranges::fill(length, 0.0);
  for (std::size_t i = 0; i < factor.size(); ++i)
    length[i % rows] += static_cast<double>(factor[i]) * factor[i];
  const auto order = chosen.reset(rows);
  std::iota(order.begin(), order.end(), 0U);
  std::nth_element(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) {
                     return length[a] != length[b] ? length[a] > length[b] : a < b;
                   });
  chosen.truncate(kept);
  std::ranges::sort(chosen.span());
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

// Choosing by magnitude. A magnitude is the float's bits without the sign: as an integer it has the
// order of |x|, so every choice is exact and the same everywhere.
#include "laconic/kernels/select.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "laconic/base/key.h"
#include "laconic/kernels/stream.h"

namespace laconic::kernels {
namespace {

// By digits from the top, so that no input is slower than three passes; the first takes the
// exponent and three bits more. 1 <= k <= number of values, which are magnitudes and are moved
// about.
Kth kth_largest(std::span<std::uint32_t> values, std::size_t k) {
  constexpr std::uint32_t kDigits = 2048;
  std::uint32_t value = 0;
  for (const int shift : {20, 10, 0}) {
    const auto digit = [shift](std::uint32_t v) {
      return v >> shift & (shift == 20 ? 2047 : 1023);
    };
    std::array<std::uint32_t, kDigits> counts{};
    for (const std::uint32_t v : values) ++counts[digit(v)];
    std::uint32_t d = kDigits - 1;
    for (; k > counts[d]; --d) k -= counts[d];
    value |= d << shift;
    std::size_t kept = 0;
    for (const std::uint32_t v : values) {
      values[kept] = v;
      kept += digit(v) == d;
    }
    values = values.first(kept);
  }
  return {value, k};
}

// The same of few values, for which counting digits takes longer than moving them.
Kth kth_largest_of_few(std::span<std::uint32_t> values, std::size_t k) {
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(k - 1);
  std::ranges::nth_element(values, at, std::ranges::greater());
  return {*at, 1 + static_cast<std::size_t>(std::count(values.begin(), at, *at))};
}

}  // namespace

// Inputs of few distinct values end at `least` itself.
Kth kth_largest_of(Array<std::uint32_t>& magnitudes, std::uint32_t least, std::size_t k) {
  const std::size_t count = magnitudes.size();
  std::size_t above = 0;
  for (const std::uint32_t magnitude : magnitudes.view()) above += magnitude > least;
  if (above < k) return {least, k - above};
  std::uint32_t* copy = magnitudes.grow(count);
  std::copy_n(magnitudes.data(), count, copy);
  constexpr std::size_t kFew = 1024;
  return count <= kFew ? kth_largest_of_few({copy, count}, k) : kth_largest({copy, count}, k);
}

std::size_t sample_size(std::size_t count) {
  const std::size_t size = std::min<std::size_t>(count / 16, 16384);
  return size < 64 ? 0 : size;
}

std::size_t sample_position(std::size_t i, std::size_t count) {
  const std::size_t stride = count / sample_size(count);
  return i * stride + Key::mix32(static_cast<std::uint32_t>(i), 0, 0) % stride;
}

std::uint32_t guess_kth(std::span<std::uint32_t> sample, std::size_t count, std::size_t k) {
  const double share = static_cast<double>(k) / static_cast<double>(count);
  const double expected = share * static_cast<double>(sample.size());
  const auto rank = static_cast<std::size_t>(expected + 4 * std::sqrt(expected) + 8);
  return rank > sample.size() ? 1 : std::max(kth_largest(sample, rank).value, 1U);
}

void gather(std::span<const float> x, std::span<const std::uint32_t> positions, float factor,
            float* out) {
  constexpr std::size_t kAhead = 16;  // entries asked for before their turn: they lie far apart
  for (std::size_t j = 0; j < positions.size(); ++j) {
    if (j + kAhead < positions.size()) fetch(x.data() + positions[j + kAhead]);
    out[j] = x[positions[j]] * factor;
  }
}

}  // namespace laconic::kernels

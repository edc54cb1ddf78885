// Choosing by magnitude. A magnitude is the float's bits without the sign: as an integer it has the
// order of |x|, so every choice is exact and the same everywhere.
#include "laconic/kernels/select.h"

#include <algorithm>
#include <cmath>

#include "laconic/base/key.h"
#include "laconic/kernels/stream.h"

namespace laconic::kernels {

std::size_t sample_size(std::size_t count) {
  constexpr std::size_t kFewest = 2048;  // entries that are worth it
  if (count < kFewest) return 0;
  const auto size = static_cast<std::size_t>(3 * std::sqrt(static_cast<double>(count)));
  return std::min<std::size_t>(size, 16384);
}

void sample_positions(std::size_t count, std::span<std::uint32_t> positions) {
  const std::uint64_t stride = count / positions.size();
  for (std::uint32_t i = 0; i < positions.size(); ++i)
    positions[i] = static_cast<std::uint32_t>(i * stride + (Key::mix32(i, 0, 0) * stride >> 32));
}

std::uint32_t guess_kth(std::span<const float> sample, Side side, std::size_t count, std::size_t k,
                        Array<std::uint32_t>& memory) {
  const double share = static_cast<double>(k) / static_cast<double>(count);
  const double expected = share * static_cast<double>(sample.size());
  const auto rank = static_cast<std::size_t>(expected + 4 * std::sqrt(expected) + 8);
  if (rank > count_on(sample, side)) return 1;
  return cut_after(rank, sample, side, 1, 0x7fffffffU, memory).least();
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

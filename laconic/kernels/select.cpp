// Choosing by magnitude. A magnitude is the float's bits without the sign: as an integer it has the
// order of |x|, so every choice is exact and the same everywhere.
#include "laconic/kernels/select.h"

#include <algorithm>
#include <cmath>

#include "laconic/base/key.h"
#include "laconic/kernels/stream.h"

namespace laconic::kernels {

std::size_t sample_size(std::size_t count) {
  const std::size_t size = std::min<std::size_t>(count / 16, 16384);
  return size < 64 ? 0 : size;
}

std::size_t sample_position(std::size_t i, std::size_t count) {
  const std::size_t stride = count / sample_size(count);
  return i * stride + Key::mix32(static_cast<std::uint32_t>(i), 0, 0) % stride;
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

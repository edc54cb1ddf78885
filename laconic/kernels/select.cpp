// Choosing by magnitude. A magnitude is the float's bits without the sign: as an integer it has the
// order of |x|, so every choice is exact and the same everywhere.
#include "laconic/kernels/select.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "laconic/base/key.h"
#include "laconic/kernels/stream.h"

namespace laconic::kernels {
namespace {

// What entries count on one side; 0 when they are of the other. No branch depends on their signs.
class Counting {
 public:
  explicit Counting(Side side)
      : flipped_(side == Side::negative ? 0x80000000U : 0),
        taken_(side == Side::both ? 0x7fffffffU : ~0U) {}

  std::uint32_t operator()(float value) const {
    const std::uint32_t bits = (std::bit_cast<std::uint32_t>(value) ^ flipped_) & taken_;
    return static_cast<std::uint32_t>(std::max(static_cast<std::int32_t>(bits), 0));
  }

 private:
  std::uint32_t flipped_, taken_;
};

// Magnitudes from `low` on in bins of 2^shift. What is below, as entries of the other side are, is
// beyond the last bin too.
class Bins {
 public:
  static constexpr std::uint32_t kCount = 2048;

  Bins(std::uint32_t low, std::uint32_t most)
      : low_(low), shift_(std::max(static_cast<int>(std::bit_width(most - low)), 11) - 11) {}

  std::uint32_t bin(std::uint32_t magnitude) const {
    return std::min((magnitude - low_) >> shift_, kCount);
  }

  // Two tables take turns, so that no count waits for the one before.
  template <class Magnitude>
  void fill(std::size_t count, Magnitude magnitude) {
    std::array<std::uint32_t, kCount + 1> even{}, odd{};
    std::size_t i = 0;
    for (; i + 2 <= count; i += 2) {
      ++even[bin(magnitude(i))];
      ++odd[bin(magnitude(i + 1))];
    }
    if (i < count) ++even[bin(magnitude(i))];
    for (std::uint32_t b = 0; b < kCount; ++b) counts_[b] = even[b] + odd[b];
  }

  // The bin that the k-th largest lies in; k becomes its rank there.
  std::uint32_t bin_of(std::size_t& k) const {
    std::uint32_t b = kCount - 1;
    for (; k > counts_[b]; --b) k -= counts_[b];
    return b;
  }

  std::uint32_t count(std::uint32_t b) const { return counts_[b]; }
  std::uint32_t low(std::uint32_t b) const { return low_ + (b << shift_); }
  std::uint32_t most(std::uint32_t b) const { return low(b) + ((1U << shift_) - 1); }
  bool exact() const { return shift_ == 0; }

 private:
  std::uint32_t low_;
  int shift_;
  std::array<std::uint32_t, kCount> counts_;
};

// Of few magnitudes, by halving the range until exactly k are above its middle. Counting is vector
// code and takes a fraction of what moving them about does.
Cut cut_of_few(std::size_t k, std::span<const std::uint32_t> values, std::uint32_t least,
               std::uint32_t most) {
  const auto above = [&](std::uint32_t limit) {
    std::uint32_t count = 0;
    for (const std::uint32_t value : values)
      count += static_cast<std::int32_t>(value) > static_cast<std::int32_t>(limit);
    return count;
  };
  std::uint32_t low = least - 1, high = most;
  if (above(low) == k) return {low, 0};
  while (high - low > 1) {  // more than k are above low, fewer above high
    const std::uint32_t middle = low + (high - low) / 2;
    const std::size_t count = above(middle);
    if (count == k) return {middle, 0};
    (count > k ? low : high) = middle;
  }
  return {high, k - above(high)};
}

constexpr std::size_t kFew = 256;

struct Plain {
  const std::uint32_t* values;
  std::uint32_t operator()(std::size_t i) const { return values[i]; }
};

// By bins, and again by bins of the one that the cut goes through: three rounds end it, whatever
// the magnitudes are. `memory` is empty, or holds them.
template <class Magnitude>
Cut cut_of_many(std::size_t k, std::size_t count, Magnitude magnitude, std::uint32_t least,
                std::uint32_t most, Array<std::uint32_t>& memory) {
  Bins bins(least, most);
  bins.fill(count, magnitude);
  const std::uint32_t b = bins.bin_of(k);
  if (k == bins.count(b)) return {bins.low(b) - 1, 0};
  if (bins.exact()) return {bins.low(b), k};
  // One more than there are: what comes after the last is written, too, and not counted.
  if (memory.empty()) memory.reset(bins.count(b) + std::size_t{1});
  std::size_t kept = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t m = magnitude(i);
    memory[kept] = m;
    kept += bins.bin(m) == b;
  }
  if (kept <= kFew) return cut_of_few(k, memory.view().first(kept), bins.low(b), bins.most(b));
  return cut_of_many(k, kept, Plain{memory.data()}, bins.low(b), bins.most(b), memory);
}

}  // namespace

std::size_t count_on(std::span<const float> values, Side side) {
  const Counting counts_as(side);
  std::size_t count = 0;
  for (const float value : values) count += counts_as(value) > 0;
  return count;
}

Cut cut_after(std::size_t k, std::span<const float> values, Side side, std::uint32_t least,
              std::uint32_t most, Array<std::uint32_t>& memory) {
  const Counting counts_as(side);
  memory.reset(values.size());  // room for the worst, once: bins differ from step to step
  memory.clear();
  if (values.size() > kFew)
    return cut_of_many(
        k, values.size(), [&](std::size_t i) { return counts_as(values[i]); }, least, most, memory);
  const auto magnitudes = memory.reset(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) magnitudes[i] = counts_as(values[i]);
  return cut_of_few(k, magnitudes, least, most);
}

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

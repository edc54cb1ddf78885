// Choosing by magnitude. A magnitude is the float's bits without the sign: as an integer it has the
// order of |x|, so every choice is exact and the same everywhere.
#include "laconic/kernels/select.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "laconic/base/key.h"
#include "laconic/kernels/groups.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "laconic/kernels/select.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace laconic::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The lanes of a mask as bits.
template <class D, class Mask>
HWY_INLINE std::uint64_t bits_of(D d, Mask mask) {
  std::uint8_t bytes[8] = {};
  hn::StoreMaskBits(d, mask, bytes);
  return hn::Lanes(d) <= 8 ? bytes[0] : bytes[0] | std::uint64_t{bytes[1]} << 8;
}

// Writes the positions, counted from `base`, of the entries whose (bits & keep) ^ flip, signed, is
// at least `least`, and returns how many. `count` is a multiple of 64. The compares of 64 entries
// are one word, walked from bit to bit: at a density of 0.01 that takes 1.1 to 1.3 times as long
// as only reading; writing four positions a word without a branch was no faster.
std::size_t at_least_run(const float* x, std::size_t count, std::uint32_t base, std::int32_t least,
                         std::int32_t keep, std::int32_t flip, std::uint32_t* positions) {
  const hn::CappedTag<std::int32_t, 16> d;
  const hn::RebindToFloat<decltype(d)> df;
  const auto below = hn::Set(d, least - 1), kept = hn::Set(d, keep), flipped = hn::Set(d, flip);
  const std::size_t lanes = hn::Lanes(d);
  std::uint32_t* to = positions;
  for (std::size_t from = 0; from < count; from += kGroup) {
    std::uint64_t found = 0;
    for (std::size_t i = 0; i < kGroup; i += lanes) {
      const auto bits = hn::BitCast(d, hn::LoadU(df, x + from + i));
      found |= bits_of(d, hn::Gt(hn::Xor(hn::And(bits, kept), flipped), below)) << i;
    }
    const auto start = static_cast<std::uint32_t>(base + from);
    for (; found != 0; found &= found - 1)
      *to++ = start + static_cast<std::uint32_t>(std::countr_zero(found));
  }
  return static_cast<std::size_t>(to - positions);
}

}  // namespace laconic::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace laconic::kernels {
namespace {

HWY_EXPORT(at_least_run);

constexpr std::size_t kBlock = 4096;  // entries between two looks at the array's room
constexpr std::uint32_t kSign = 0x80000000U;

// What makes an entry's bits its magnitude as a signed integer, or something below 1 when it is of
// the other side.
struct Masks {
  std::uint32_t keep, flip;
  explicit Masks(Side side)
      : keep(side == Side::both ? ~kSign : ~0U), flip(side == Side::negative ? kSign : 0) {}
};

class Magnitudes {
 public:
  Magnitudes(std::span<const float> x, Side side) : x_(x), masks_(side) {}
  std::size_t size() const { return x_.size(); }

  // 0 when the entry does not count.
  std::uint32_t operator[](std::size_t i) const {
    const std::uint32_t bits = (std::bit_cast<std::uint32_t>(x_[i]) & masks_.keep) ^ masks_.flip;
    return bits & kSign ? 0 : bits;
  }

  // Appends the positions at or above `least` in the block that starts at `from`.
  void append_block(std::size_t from, std::uint32_t least, Array<std::uint32_t>& positions) const {
    const std::size_t entries = std::min(kBlock, size() - from), before = positions.size();
    std::uint32_t* to = positions.grow(entries);
    std::size_t found = 0;
    in_groups(
        entries,
        [&](std::size_t skip, std::size_t count, const float* x) {
          found += HWY_DYNAMIC_DISPATCH(at_least_run)(
              x, count, static_cast<std::uint32_t>(from + skip), static_cast<std::int32_t>(least),
              static_cast<std::int32_t>(masks_.keep), static_cast<std::int32_t>(masks_.flip),
              to + found);
        },
        In<float>{x_.data() + from});
    positions.truncate(before + found);
  }

 private:
  std::span<const float> x_;
  Masks masks_;
};

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

std::uint32_t guess(const Magnitudes& x, std::size_t k, Array<std::uint32_t>& spare) {
  const auto sample = spare.reset(sample_size(x.size()));
  for (std::size_t i = 0; i < sample.size(); ++i) sample[i] = x[sample_position(i, x.size())];
  return guess_kth(sample, x.size(), k);
}

// The same for sure: the least magnitude of the eighth of a binade that the k-th lies in, or 1 when
// fewer than k entries count.
std::uint32_t floor_of_kth(const Magnitudes& x, std::size_t k) {
  std::array<std::size_t, 2048> counts{};
  for (std::size_t i = 0; i < x.size(); ++i) ++counts[x[i] >> 20];
  std::uint32_t bin = 2047;
  for (; bin > 0 && k > counts[bin]; --bin) k -= counts[bin];
  return std::max(bin << 20, 1U);
}

// Appends the candidates: entries at or above `least`. Their magnitudes, fetched while they are
// in the cache, become the content of `found`.
void find_candidates(const Magnitudes& x, std::uint32_t least, Array<std::uint32_t>& positions,
                     Array<std::uint32_t>& found) {
  found.clear();
  for (std::size_t from = 0; from < x.size(); from += kBlock) {
    const std::size_t before = positions.size();
    x.append_block(from, least, positions);
    std::uint32_t* to = found.grow(positions.size() - before);
    for (const std::uint32_t position : positions.view().subspan(before)) *to++ = x[position];
  }
}

// Keeps, of ascending positions and their magnitudes, those above the k-th and the first of its
// equals; returns how many.
std::size_t keep(std::span<std::uint32_t> positions, const std::uint32_t* magnitudes, Kth kth) {
  std::size_t kept = 0, ties = 0;
  for (std::size_t i = 0; i < positions.size(); ++i) {
    const bool above = magnitudes[i] > kth.value, tie = magnitudes[i] == kth.value;
    positions[kept] = positions[i];
    kept += above || (tie && ties < kth.rank);
    ties += tie;
  }
  return kept;
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
  return kth_largest({copy, count}, k);
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

void at_least(std::span<const float> x, std::uint32_t magnitude, Side side,
              Array<std::uint32_t>& positions) {
  if (magnitude >= kSign) return;
  const Magnitudes magnitudes(x, side);
  for (std::size_t from = 0; from < x.size(); from += kBlock)
    magnitudes.append_block(from, magnitude, positions);
}

void largest(std::span<const float> x, std::size_t k, Side side, Array<std::uint32_t>& positions,
             Array<std::uint32_t>& spare) {
  if (k == 0) return;
  if (k >= x.size()) return at_least(x, 1, side, positions);
  const Magnitudes magnitudes(x, side);
  const std::size_t before = positions.size();
  std::uint32_t least = guess(magnitudes, k, spare);
  find_candidates(magnitudes, least, positions, spare);
  if (spare.size() < k && least > 1) {
    positions.truncate(before);
    least = floor_of_kth(magnitudes, k);
    find_candidates(magnitudes, least, positions, spare);
  }
  if (spare.size() <= k) return;
  const Kth kth = kth_largest_of(spare, least, k);
  const auto candidates = positions.span().subspan(before);
  positions.truncate(before + keep(candidates, spare.data(), kth));
}

void gather(std::span<const float> x, std::span<const std::uint32_t> positions, float factor,
            float* out) {
  for (const std::uint32_t position : positions) *out++ = x[position] * factor;
}

}  // namespace laconic::kernels
#endif  // HWY_ONCE

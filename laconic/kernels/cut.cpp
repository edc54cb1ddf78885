// Where a choice by magnitude ends: a sample brackets the cut, one pass counts what is above and
// moves what is in between aside, and halving the range ends it. No branch depends on an entry.
#include <algorithm>
#include <bit>
#include <cmath>

#include "laconic/base/key.h"
#include "laconic/kernels/select.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "laconic/kernels/cut.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#ifndef LACONIC_KERNELS_CUT_ONCE
#define LACONIC_KERNELS_CUT_ONCE
namespace laconic::kernels {

// What entries count as: their magnitudes, and 0 when they are of the other side. As signed numbers
// the latter are below 0 once the sign bit is flipped, or not.
struct Counting {
  explicit Counting(Side side)
      : flipped(side == Side::negative ? 0x80000000U : 0),
        taken(side == Side::both ? 0x7fffffffU : ~0U) {}

  std::uint32_t operator()(float value) const {
    const std::uint32_t bits = (std::bit_cast<std::uint32_t>(value) ^ flipped) & taken;
    return static_cast<std::uint32_t>(std::max(static_cast<std::int32_t>(bits), 0));
  }

  std::uint32_t flipped, taken;
};

// How many magnitudes are above a bracket, and how many in it.
struct Bracketed {
  std::size_t above = 0, inside = 0;
};

}  // namespace laconic::kernels
#endif  // LACONIC_KERNELS_CUT_ONCE

HWY_BEFORE_NAMESPACE();
namespace laconic::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Signed = hn::ScalableTag<std::int32_t>;

// How many exceed the limit; both are magnitudes, or zeros.
HWY_INLINE std::size_t count_above(const std::uint32_t* magnitudes, std::size_t count,
                                   std::uint32_t limit) {
  const Signed d;
  const hn::RebindToUnsigned<Signed> du;
  const std::size_t lanes = hn::Lanes(d);
  const auto most = hn::Set(d, static_cast<std::int32_t>(limit));
  auto sum = hn::Zero(d), other = hn::Zero(d);
  std::size_t i = 0;
  const auto exceeding = [&](std::size_t at) HWY_ATTR {
    return hn::VecFromMask(d, hn::Gt(hn::BitCast(d, hn::LoadU(du, magnitudes + at)), most));
  };
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    sum = hn::Sub(sum, exceeding(i));
    other = hn::Sub(other, exceeding(i + lanes));
  }
  auto above = static_cast<std::size_t>(hn::GetLane(hn::SumOfLanes(d, hn::Add(sum, other))));
  for (; i < count; ++i) above += magnitudes[i] > limit;
  return above;
}

// The cut that keeps k of some magnitudes: halves the range until exactly k are above its middle.
// All that count are from `least` to `most`.
Cut halve_run(const std::uint32_t* magnitudes, std::size_t count, std::size_t k,
              std::uint32_t least, std::uint32_t most) {
  std::uint32_t low = least - 1, high = most;
  if (count_above(magnitudes, count, low) == k) return {low, 0};
  while (high - low > 1) {  // more than k are above low, fewer above high
    const std::uint32_t middle = low + (high - low) / 2;
    const std::size_t above = count_above(magnitudes, count, middle);
    if (above == k) return {middle, 0};
    (above > k ? low : high) = middle;
  }
  return {high, k - count_above(magnitudes, count, high)};
}

// Counts what is above `high`, and writes what is from `low` to `high` to `inside`, where a vector
// more is overwritten.
Bracketed bracket_run(const float* values, std::size_t count, const Counting& counts_as,
                      std::uint32_t low, std::uint32_t high, std::uint32_t* inside) {
  const Signed d;
  const hn::RebindToFloat<Signed> df;
  const hn::RebindToUnsigned<Signed> du;
  const std::size_t lanes = hn::Lanes(d);
  const auto flipped = hn::Set(d, static_cast<std::int32_t>(counts_as.flipped));
  const auto taken = hn::Set(d, static_cast<std::int32_t>(counts_as.taken));
  const auto under = hn::Set(d, static_cast<std::int32_t>(low - 1));
  const auto most = hn::Set(d, static_cast<std::int32_t>(high));
  Bracketed found;
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto bits = hn::BitCast(d, hn::LoadU(df, values + i));
    const auto m = hn::And(hn::Xor(bits, flipped), taken);
    const auto above = hn::Gt(m, most), in = hn::AndNot(above, hn::Gt(m, under));
    hn::StoreU(hn::Compress(hn::BitCast(du, m), hn::RebindMask(du, in)), du, inside + found.inside);
    found.above += hn::CountTrue(d, above);
    found.inside += hn::CountTrue(d, in);
  }
  for (; i < count; ++i) {
    const std::uint32_t m = counts_as(values[i]);
    inside[found.inside] = m;
    found.above += m > high;
    found.inside += m >= low && m <= high;
  }
  return found;
}

std::size_t cut_lanes() { return hn::Lanes(Signed()); }

}  // namespace laconic::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace laconic::kernels {
namespace {

HWY_EXPORT(halve_run);
HWY_EXPORT(bracket_run);
HWY_EXPORT(cut_lanes);

Cut halved(std::size_t k, std::span<const std::uint32_t> magnitudes, std::uint32_t least,
           std::uint32_t most) {
  return HWY_DYNAMIC_DISPATCH(halve_run)(magnitudes.data(), magnitudes.size(), k, least, most);
}

constexpr std::size_t kFew = 512;  // entries that are halved without a look at a sample
constexpr std::size_t kSampled = 4096;

struct Bracket {
  std::uint32_t low, high;
};

// Where the k-th largest lies, four deviations of what a sample may be wrong by to either side.
Bracket by_sample(std::size_t k, std::span<const float> values, const Counting& counts_as,
                  std::uint32_t least, std::uint32_t most) {
  std::uint32_t memory[kSampled];
  const std::size_t size = values.size() < 2048      ? kSampled / 64
                           : values.size() < 32768   ? kSampled / 16
                           : values.size() < 1 << 20 ? kSampled / 4
                                                     : kSampled;
  const std::span<std::uint32_t> sample(memory, size);
  const std::uint64_t stride = values.size() / size;
  std::size_t counted = 0;
  for (std::uint32_t i = 0; i < size; ++i) {  // at no fixed distance: entries may have a period
    sample[i] = counts_as(values[i * stride + (Key::mix32(i, 0, 0) * stride >> 32)]);
    counted += sample[i] > 0;
  }
  const double share = static_cast<double>(k) / static_cast<double>(values.size());
  const double expected = share * static_cast<double>(size);
  const double slack = 4 * std::sqrt(expected * (1 - share)) + 2;
  const auto lower = static_cast<std::size_t>(expected + slack);
  Bracket bracket{least, most};
  if (lower <= counted) bracket.low = std::max(least, halved(lower, sample, 1, most).least());
  if (expected >= slack + 1) {
    const auto upper = std::min(static_cast<std::size_t>(expected - slack), counted);
    if (upper > 0) bracket.high = std::min(most, halved(upper, sample, 1, most).least());
  }
  return bracket;
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
  // Room for the worst, once: brackets differ from step to step.
  const auto inside = memory.reset(values.size() + HWY_DYNAMIC_DISPATCH(cut_lanes)());
  const auto put_inside = [&](Bracket bracket) {
    return HWY_DYNAMIC_DISPATCH(bracket_run)(values.data(), values.size(), counts_as, bracket.low,
                                             bracket.high, inside.data());
  };
  Bracket bracket{least, most};
  if (values.size() > kFew) bracket = by_sample(k, values, counts_as, least, most);
  Bracketed found = put_inside(bracket);
  if (found.above >= k || found.above + found.inside < k) {  // the sample was wrong
    bracket = found.above >= k ? Bracket{bracket.high + 1, most} : Bracket{least, bracket.low - 1};
    found = put_inside(bracket);
  }
  k -= found.above;
  if (k == found.inside) return {bracket.low - 1, 0};
  if (bracket.low == bracket.high) return {bracket.low, k};
  return halved(k, inside.first(found.inside), bracket.low, bracket.high);
}

}  // namespace laconic::kernels
#endif  // HWY_ONCE

// Gaps on vector lanes: each position less the one before it.
#include "laconic/kernels/gaps.h"

#include <algorithm>

#include "laconic/kernels/groups.h"
#include "laconic/kernels/stream.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "laconic/kernels/gaps.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace laconic::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using U32 = hn::ScalableTag<std::uint32_t>;

// Calls use(vector of gaps) from position 1 on, and returns the first that was not used. In two
// vectors at a time, which need not wait for each other.
template <class Use>
HWY_INLINE std::size_t each_gap(const std::uint32_t* positions, std::size_t count, Use use) {
  const U32 d;
  const std::size_t lanes = hn::Lanes(d);
  const auto one = hn::Set(d, 1);
  const auto gap = [&](std::size_t j) HWY_ATTR {
    fetch_ahead(positions + j + kReadAhead);
    return hn::Sub(hn::Sub(hn::LoadU(d, positions + j), hn::LoadU(d, positions + j - 1)), one);
  };
  std::size_t j = 1;
  for (; j + 2 * lanes <= count; j += 2 * lanes) use(gap(j), gap(j + lanes));
  return j;
}

std::size_t gaps_run(const std::uint32_t* positions, std::size_t count, Gaps& gaps) {
  const U32 d;
  auto largest = hn::Zero(d);
  hn::Vec<U32> from[Gaps::kDigits];
  for (auto& number : from) number = hn::Zero(d);
  const std::size_t end = each_gap(positions, count, [&](auto v, auto w) HWY_ATTR {
    largest = hn::Max(largest, hn::Max(v, w));
    for (unsigned i = 0; i < Gaps::kDigits; ++i) {
      const auto least = hn::Set(d, (2U << i) - 1);
      const auto some = hn::VecFromMask(d, hn::Eq(hn::Max(v, least), v));
      const auto others = hn::VecFromMask(d, hn::Eq(hn::Max(w, least), w));
      from[i] = hn::Sub(from[i], hn::Add(some, others));
    }
  });
  gaps.largest = hn::GetLane(hn::MaxOfLanes(d, largest));
  for (unsigned i = 0; i < Gaps::kDigits; ++i)
    gaps.from[i] = hn::GetLane(hn::SumOfLanes(d, from[i]));
  return end;
}

// Gaps are below 2^32 in all: no lane overflows.
std::size_t sum_run(const std::uint32_t* positions, std::size_t count, int bits, GapSum& gaps) {
  const U32 d;
  auto a = hn::Zero(d), b = hn::Zero(d), largest = hn::Zero(d);
  const std::size_t end = each_gap(positions, count, [&](auto v, auto w) HWY_ATTR {
    a = hn::Add(a, hn::ShiftRightSame(v, bits));
    b = hn::Add(b, hn::ShiftRightSame(w, bits));
    largest = hn::Max(largest, hn::Max(v, w));
  });
  gaps.sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(a, b)));
  gaps.largest = hn::GetLane(hn::MaxOfLanes(d, largest));
  return end;
}

}  // namespace laconic::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace laconic::kernels {
namespace {

HWY_EXPORT(gaps_run);
HWY_EXPORT(sum_run);

// All, or the first where no other has a gap before it, which the ends tell.
std::span<const std::uint32_t> with_gaps(std::span<const std::uint32_t> positions) {
  if (positions.back() - positions.front() == positions.size() - 1) return positions.first(1);
  return positions;
}

// Calls use(gap) for the first, and from position j on.
template <class Use>
void others(std::span<const std::uint32_t> positions, std::size_t j, Use use) {
  if (!positions.empty()) use(positions[0]);
  for (; j < positions.size(); ++j) use(positions[j] - positions[j - 1] - 1);
}

}  // namespace

Gaps gaps_of(std::span<const std::uint32_t> positions) {
  Gaps gaps;
  positions = with_gaps(positions);
  const std::size_t done = HWY_DYNAMIC_DISPATCH(gaps_run)(positions.data(), positions.size(), gaps);
  others(positions, done, [&](std::uint32_t gap) {
    gaps.largest = std::max(gaps.largest, gap);
    for (unsigned i = 0; i < Gaps::kDigits; ++i) gaps.from[i] += gap >= (2U << i) - 1;
  });
  return gaps;
}

GapSum sum_of_gaps(std::span<const std::uint32_t> positions, unsigned bits) {
  GapSum gaps;
  positions = with_gaps(positions);
  const std::size_t done = HWY_DYNAMIC_DISPATCH(sum_run)(positions.data(), positions.size(),
                                                         static_cast<int>(bits), gaps);
  others(positions, done, [&](std::uint32_t gap) {
    gaps.largest = std::max(gaps.largest, gap);
    gaps.sum += gap >> bits;
  });
  return gaps;
}

}  // namespace laconic::kernels
#endif  // HWY_ONCE

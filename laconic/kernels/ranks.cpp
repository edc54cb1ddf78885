// Every candidate is compared with a whole vector of them.
#include "laconic/kernels/ranks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "laconic/kernels/ranks.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#ifndef LACONIC_KERNELS_RANKS_ONCE
#define LACONIC_KERNELS_RANKS_ONCE
namespace laconic::kernels {

// A one among zeros: from kRanked - j on it is at place j.
struct One {
  std::int32_t at[2 * kRanked] = {};
};
inline constexpr One kOne = [] {
  One one;
  one.at[kRanked] = 1;
  return one;
}();

}  // namespace laconic::kernels
#endif  // LACONIC_KERNELS_RANKS_ONCE

HWY_BEFORE_NAMESPACE();
namespace laconic::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Ints = hn::CappedTag<std::int32_t, 16>;
using Words = hn::RebindToUnsigned<Ints>;
using Reals = hn::RebindToFloat<Ints>;

// The run is within kRoom candidates.
template <std::size_t kRoom>
std::size_t keep_ranked(const std::uint32_t* positions, const float* values, std::uint32_t end,
                        std::size_t kept, std::uint32_t* to, float* to_value) {
  constexpr std::size_t kLanes = hn::MaxLanes(Ints()), kVectors = kRoom / kLanes;
  const Ints d;
  const Words du;
  const Reals df;
  const auto magnitude = hn::Set(d, 0x7fffffff),
             first = hn::Set(d, static_cast<std::int32_t>(kept));
  const auto last = hn::Set(du, end);
  HWY_ALIGN std::int32_t magnitudes[kRoom];
  // One below the magnitudes up to their turn: a candidate comes before those that it equals.
  hn::Vec<Ints> below[kVectors], before[kVectors];
  for (std::size_t v = 0; v < kVectors; ++v) {
    const auto in_run = hn::RebindMask(d, hn::Lt(hn::LoadU(du, positions + v * kLanes), last));
    const auto bits = hn::BitCast(d, hn::LoadU(df, values + v * kLanes));
    const auto m = hn::IfThenElseZero(in_run, hn::And(bits, magnitude));
    below[v] = hn::Sub(m, hn::Set(d, 1));
    before[v] = hn::Zero(d);
    hn::Store(m, d, magnitudes + v * kLanes);
  }
  for (std::size_t j = 0; j < kRoom; ++j) {
    const auto one = hn::Set(d, magnitudes[j]);
    for (std::size_t v = 0; v < kVectors; ++v) {
      below[v] = hn::Add(below[v], hn::LoadU(d, kOne.at + kRanked - j + v * kLanes));
      before[v] = hn::Sub(before[v], hn::ShiftRight<31>(hn::Sub(below[v], one)));
    }
  }
  std::size_t number = 0;
  for (std::size_t v = 0; v < kVectors; ++v) {
    const auto position = hn::LoadU(du, positions + v * kLanes);
    const auto value = hn::LoadU(df, values + v * kLanes);
    const auto keeps = hn::And(hn::Lt(before[v], first), hn::RebindMask(d, hn::Lt(position, last)));
    hn::StoreU(hn::Compress(position, hn::RebindMask(du, keeps)), du, to + number);
    hn::StoreU(hn::Compress(value, hn::RebindMask(df, keeps)), df, to_value + number);
    number += hn::CountTrue(d, keeps);
  }
  return number;
}

void ranked_run(const std::uint32_t* positions, const float* values, std::uint32_t end,
                std::size_t kept, std::uint32_t* to, float* to_value, Ranked* ranked) {
  constexpr std::size_t kLanes = hn::MaxLanes(Words());
  const Words d;
  const auto last = hn::Set(d, end);
  ranked->run = 0;
  for (std::size_t i = 0; i < kRanked; i += kLanes)
    ranked->run += hn::CountTrue(d, hn::Lt(hn::LoadU(d, positions + i), last));
  const auto keep = ranked->run <= 16   ? keep_ranked<16>
                    : ranked->run <= 32 ? keep_ranked<32>
                                        : keep_ranked<kRanked>;
  ranked->number = keep(positions, values, end, kept, to, to_value);
}

}  // namespace laconic::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace laconic::kernels {
namespace {

HWY_EXPORT(ranked_run);

}  // namespace

Ranked keep_by_rank(const std::uint32_t* positions, const float* values, std::uint32_t end,
                    std::size_t kept, std::uint32_t* to, float* to_value) {
  Ranked ranked;
  HWY_DYNAMIC_DISPATCH(ranked_run)(positions, values, end, kept, to, to_value, &ranked);
  return ranked;
}

}  // namespace laconic::kernels
#endif  // HWY_ONCE

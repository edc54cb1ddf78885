// Every candidate is compared with a whole vector of them.
#include "laconic/kernels/ranks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "laconic/kernels/ranks.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace laconic::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Ints = hn::CappedTag<std::int32_t, 16>;
using Words = hn::RebindToUnsigned<Ints>;
using Reals = hn::RebindToFloat<Ints>;

// The run is within kRoom candidates.
template <std::size_t kRoom>
HWY_INLINE std::size_t keep_ranked(const std::uint32_t* positions, const float* values,
                                   std::uint32_t end, std::size_t kept, std::uint32_t* to,
                                   float* to_value) {
  constexpr std::size_t kLanes = hn::MaxLanes(Ints()), kVectors = kRoom / kLanes;
  const Ints d;
  const Words du;
  const Reals df;
  const auto magnitude = hn::Set(d, 0x7fffffff),
             first = hn::Set(d, static_cast<std::int32_t>(kept));
  const auto last = hn::Set(du, end);
  HWY_ALIGN std::int32_t magnitudes[kRoom];
  hn::Vec<Ints> m[kVectors], larger[kVectors];
  for (std::size_t v = 0; v < kVectors; ++v) {
    const auto in_run = hn::RebindMask(d, hn::Lt(hn::LoadU(du, positions + v * kLanes), last));
    const auto bits = hn::BitCast(d, hn::LoadU(df, values + v * kLanes));
    m[v] = hn::IfThenElseZero(in_run, hn::And(bits, magnitude));
    larger[v] = hn::Zero(d);
    hn::Store(m[v], d, magnitudes + v * kLanes);
  }
  for (std::size_t j = 0; j < kRoom; ++j) {
    const auto one = hn::Set(d, magnitudes[j]);
    for (std::size_t v = 0; v < kVectors; ++v)
      larger[v] = hn::Sub(larger[v], hn::VecFromMask(d, hn::Gt(one, m[v])));
  }
  std::size_t number = 0;
  for (std::size_t v = 0; v < kVectors; ++v) {
    const auto position = hn::LoadU(du, positions + v * kLanes);
    const auto value = hn::LoadU(df, values + v * kLanes);
    const auto keeps = hn::And(hn::Lt(larger[v], first), hn::RebindMask(d, hn::Lt(position, last)));
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
  ranked->number = ranked->run <= kRanked / 2
                       ? keep_ranked<kRanked / 2>(positions, values, end, kept, to, to_value)
                       : keep_ranked<kRanked>(positions, values, end, kept, to, to_value);
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

// Sums that tell what a step does to entries.
#include "laconic/kernels/spread.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "laconic/kernels/spread.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "laconic/kernels/sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace laconic::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void about_spread_run(const float* x, std::size_t count, float by, double* variance,
                      double* whole) {
  constexpr std::size_t kPiece = 16 * kGroup;
  const hn::CappedTag<float, kSumLanes> d;
  const auto factor = hn::Set(d, by);
  float some[kPiece / 4], others[kPiece / 4];
  const auto promoted = [](auto v) HWY_ATTR { return hn::PromoteTo(Summand(), v); };
  for (std::size_t from = 0; from < count; from += kPiece) {
    const std::size_t part = std::min(kPiece, count - from);
    for (std::size_t i = 0; i < part; i += kGroup)
      for (std::size_t lane = 0; lane < kSumLanes; lane += hn::Lanes(d)) {
        auto f = hn::Zero(d), k = hn::Zero(d);
        for (std::size_t j = 0; j < kGroup; j += kSumLanes) {
          const auto y = hn::Mul(hn::Abs(hn::LoadU(d, x + from + i + lane + j)), factor);
          const auto floor = hn::Floor(y), rest = hn::Sub(y, floor);
          f = hn::Add(f, hn::Sub(rest, hn::Mul(rest, rest)));
          k = hn::Add(k, hn::Add(floor, hn::Mul(floor, floor)));
        }
        hn::StoreU(f, d, some + i / 4 + lane);
        hn::StoreU(k, d, others + i / 4 + lane);
      }
    add_in_lanes(some, part / 4, variance, promoted);
    add_in_lanes(others, part / 4, whole, promoted);
  }
}

}  // namespace laconic::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace laconic::kernels {
namespace {

HWY_EXPORT(about_spread_run);

}  // namespace

Spacing about_spread(std::span<const float> x, float step) {
  double variance[kSumLanes] = {}, whole[kSumLanes] = {};
  in_groups(
      x.size(),
      [&](std::size_t, std::size_t count, const float* x) {
        HWY_DYNAMIC_DISPATCH(about_spread_run)(x, count, 1 / step, variance, whole);
      },
      In<float>{x.data()});
  Spacing sums;
  for (std::size_t lane = 0; lane < kSumLanes; ++lane) {
    sums.variance += variance[lane];
    sums.whole += whole[lane];
  }
  return sums;
}

}  // namespace laconic::kernels
#endif  // HWY_ONCE

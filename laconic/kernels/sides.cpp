// Both sides in one pass. Eight vectors are added up in float before they go to double.
#include "laconic/kernels/sides.h"

#include <algorithm>
#include <bit>

#include "laconic/kernels/groups.h"
#include "laconic/kernels/stream.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "laconic/kernels/sides.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace laconic::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Ints = hn::CappedTag<std::int32_t, 16>;
using Reals = hn::RebindToFloat<Ints>;

// One side of a vector: its magnitudes, and 0 where entries are of the other.
class SideLanes {
 public:
  HWY_INLINE explicit SideLanes(SideBracket& bracket)
      : bracket_(bracket),
        under_(hn::Set(Ints(), static_cast<std::int32_t>(bracket.low - 1))),
        high_(hn::Set(Ints(), static_cast<std::int32_t>(bracket.high))),
        sum_(hn::Zero(Reals())) {}

  HWY_INLINE void take(hn::Vec<Ints> m) {
    const Ints d;
    const hn::RebindToUnsigned<Ints> du;
    const auto above = hn::Gt(m, high_), inside = hn::AndNot(above, hn::Gt(m, under_));
    hn::StoreU(hn::Compress(hn::BitCast(du, m), hn::RebindMask(du, inside)), du,
               bracket_.inside + number_);
    number_ += hn::CountTrue(d, inside);
    above_ += hn::CountTrue(d, above);
    const auto magnitudes = hn::BitCast(Reals(), m);
    sum_ = hn::Add(sum_, hn::IfThenElseZero(hn::RebindMask(Reals(), above), magnitudes));
  }
  // What was added in float.
  HWY_INLINE void carry() {
    total_ += static_cast<double>(hn::GetLane(hn::SumOfLanes(Reals(), sum_)));
    sum_ = hn::Zero(Reals());
  }
  HWY_INLINE void finish() {
    bracket_.number = number_;
    bracket_.above = above_;
    bracket_.sum = total_;
  }

 private:
  SideBracket& bracket_;
  hn::Vec<Ints> under_, high_;
  hn::Vec<Reals> sum_;
  std::size_t number_ = 0, above_ = 0;
  double total_ = 0;
};

// The last vector on a padded copy: zeros are on no side.
std::uint32_t bracket_run(const float* x, std::size_t count, SideBracket& positive,
                          SideBracket& negative) {
  constexpr std::size_t kAdded = 8;
  const Ints d;
  const Reals df;
  const std::size_t lanes = hn::Lanes(d);
  const auto magnitude = hn::Set(d, 0x7fffffff), zero = hn::Zero(d);
  auto most = zero;
  SideLanes above(positive), below(negative);
  const auto one = [&](const float* from) HWY_ATTR {
    const auto bits = hn::BitCast(d, hn::LoadU(df, from));
    const auto m = hn::And(bits, magnitude);
    most = hn::Max(most, m);
    above.take(hn::Max(bits, zero));
    below.take(hn::IfThenElseZero(hn::Lt(bits, zero), m));
  };
  std::size_t i = 0;
  while (i + lanes <= count) {
    for (std::size_t j = 0; j < kAdded && i + lanes <= count; ++j, i += lanes) {
      fetch_ahead(x + i + kReadAhead);
      one(x + i);
    }
    above.carry();
    below.carry();
  }
  if (i < count) {
    float last[16] = {};
    std::copy(x + i, x + count, last);
    one(last);
    above.carry();
    below.carry();
  }
  above.finish();
  below.finish();
  return static_cast<std::uint32_t>(hn::GetLane(hn::MaxOfLanes(d, most)));
}

}  // namespace laconic::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace laconic::kernels {
namespace {

HWY_EXPORT(bracket_run);

}  // namespace

std::uint32_t bracket_sides(std::span<const float> x, SideBracket& positive,
                            SideBracket& negative) {
  return HWY_DYNAMIC_DISPATCH(bracket_run)(x.data(), x.size(), positive, negative);
}

}  // namespace laconic::kernels
#endif  // HWY_ONCE

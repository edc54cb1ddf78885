// Moving the entries that are kept to the front, a vector at a time.
#include <bit>

#include "laconic/kernels/select.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "laconic/kernels/keep.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace laconic::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// One by one, entries `from` up to `to`; they move to `kept` and after.
HWY_INLINE std::size_t keep_few(std::uint32_t* positions, float* values, std::size_t from,
                                std::size_t to, std::size_t kept, Cut& above, Cut& below) {
  for (std::size_t i = from; i < to; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(values[i]);
    const std::uint32_t m = bits & 0x7fffffffU;
    Cut& cut = bits >> 31 ? below : above;
    const bool tie = m == cut.value && cut.ties > 0;
    cut.ties -= tie;
    positions[kept] = positions[i];
    values[kept] = values[i];
    kept += tie || m > cut.value;
  }
  return kept;
}

std::size_t keep_run(std::uint32_t* positions, float* values, std::size_t count, Cut& above,
                     Cut& below) {
  const hn::ScalableTag<std::int32_t> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const hn::RebindToFloat<decltype(d)> df;
  const auto magnitude = hn::Set(d, 0x7fffffff);
  const auto over = hn::Set(d, static_cast<std::int32_t>(above.value));
  const auto under = hn::Set(d, static_cast<std::int32_t>(below.value));
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0, kept = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto value = hn::LoadU(df, values + i);
    const auto position = hn::LoadU(du, positions + i);
    const auto bits = hn::BitCast(d, value);
    const auto m = hn::And(bits, magnitude);
    const auto limit = hn::IfThenElse(hn::Lt(bits, hn::Zero(d)), under, over);
    if (above.ties + below.ties > 0 && !hn::AllFalse(d, hn::Eq(m, limit))) {
      kept = keep_few(positions, values, i, i + lanes, kept, above, below);
      continue;
    }
    const auto keeps = hn::Gt(m, limit);
    // Whole vectors: what is overwritten after the kept ones has been read.
    hn::StoreU(hn::Compress(position, hn::RebindMask(du, keeps)), du, positions + kept);
    hn::StoreU(hn::Compress(value, hn::RebindMask(df, keeps)), df, values + kept);
    kept += hn::CountTrue(d, keeps);
  }
  return keep_few(positions, values, i, count, kept, above, below);
}

}  // namespace laconic::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace laconic::kernels {

HWY_EXPORT(keep_run);

std::size_t keep_above(std::uint32_t* positions, float* values, std::size_t count, Cut& above,
                       Cut& below) {
  return HWY_DYNAMIC_DISPATCH(keep_run)(positions, values, count, above, below);
}

}  // namespace laconic::kernels
#endif  // HWY_ONCE

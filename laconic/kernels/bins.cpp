// Bins on vector lanes: a comparison for each cut, and a table that is looked up in a register.
#include "laconic/kernels/bins.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "laconic/kernels/reduce.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "laconic/kernels/bins.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "laconic/kernels/rounding-inl.h"
#include "laconic/kernels/stream.h"

HWY_BEFORE_NAMESPACE();
namespace laconic::kernels::HWY_NAMESPACE {

HWY_INLINE Ints bin_of(Values x, const BinCuts& cuts, std::size_t number) {
  const I32 d;
  const Values zero = hn::Zero(F32());
  const auto negative = hn::RebindMask(d, hn::Lt(x, zero));
  Ints bin = hn::IfThenElseZero(negative, hn::Set(d, cuts.negative()));
  for (std::size_t i = 0; i < number; ++i) {
    const auto beyond = hn::Or(hn::Gt(x, set(cuts.above[i])), hn::Lt(x, set(cuts.below[i])));
    bin = hn::Sub(bin, hn::VecFromMask(d, hn::RebindMask(d, beyond)));
  }
  return bin;
}

void to_bins_run(const float* x, std::size_t count, const BinCuts& cuts, std::uint8_t* bins) {
  const std::size_t lanes = hn::Lanes(U32()), number = cuts.cuts();
  const auto bin = [&](std::size_t at) LACONIC_INLINED {
    if (at % 16 == 0) fetch_ahead(x + at + kReadAhead);
    return bin_of(hn::LoadU(F32(), x + at), cuts, number);
  };
  for (std::size_t i = 0; i < count; i += 4 * lanes) {
    const Ints a = bin(i), b = bin(i + lanes), c = bin(i + 2 * lanes), d = bin(i + 3 * lanes);
    store_unsigned(a, b, c, d, bins + i);
  }
}

// Where vectors are compressed by a table that takes ten times as long as entries one by one.
#if HWY_TARGET != HWY_AVX3 && HWY_TARGET != HWY_AVX3_DL
std::uint32_t part_run(const float* x, std::size_t count, const BinCuts& cuts, Binned& to) {
  std::uint8_t bins[kBinPiece];
  to_bins_run(x, count, cuts, bins);
  std::uint32_t largest = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const float magnitude = std::abs(x[i]);
    largest = std::max(largest, std::bit_cast<std::uint32_t>(magnitude));
    to.magnitudes[bins[i]][to.sizes[bins[i]]++] = magnitude;
  }
  return largest;
}
#else
std::uint32_t part_run(const float* x, std::size_t count, const BinCuts& cuts, Binned& to) {
  const U32 d;
  const I32 di;
  const F32 df;
  const std::size_t number = cuts.cuts(), bins = std::size_t{1} << cuts.bits;
  Word largest = hn::Zero(d);
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    if (i % 16 == 0) fetch_ahead(x + i + kReadAhead);
    const Values v = hn::LoadU(df, x + i), magnitude = hn::Abs(v);
    largest = hn::Max(largest, hn::BitCast(d, magnitude));
    const Ints bin = bin_of(v, cuts, number);
    for (std::size_t b = 0; b < bins; ++b) {
      const auto inside = hn::Eq(bin, hn::Set(di, static_cast<std::int32_t>(b)));
      hn::StoreU(hn::Compress(magnitude, hn::RebindMask(df, inside)), df,
                 to.magnitudes[b] + to.sizes[b]);
      to.sizes[b] += static_cast<std::uint32_t>(hn::CountTrue(di, inside));
    }
  }
  return hn::GetLane(hn::MaxOfLanes(d, largest));
}
#endif

// A table of more entries than a vector has is looked up a vector at a time.
void add_bins_run(const std::uint8_t* bins, std::size_t count, const float* worth, float* y) {
  const I32 di;
  const F32 df;
  constexpr std::size_t lanes = hn::MaxLanes(F32());
  constexpr int kShift = lanes == 16 ? 4 : lanes == 8 ? 3 : lanes == 4 ? 2 : lanes == 2 ? 1 : 0;
  const Ints within = hn::Set(di, static_cast<std::int32_t>(lanes - 1));
  for (std::size_t i = 0; i < count; i += lanes) {
    if (i % 16 == 0) hwy::Prefetch(y + i + kAddAhead);
    const Ints bin = hn::BitCast(di, hn::PromoteTo(U32(), hn::LoadU(Bytes(), bins + i)));
    const auto at = hn::IndicesFromVec(df, hn::And(bin, within));
    Values value = hn::TableLookupLanes(hn::LoadU(df, worth), at);
    for (std::size_t t = 1; t < kMostBins / lanes; ++t) {
      const auto here = hn::Eq(hn::ShiftRight<kShift>(bin), hn::Set(di, static_cast<int>(t)));
      const Values other = hn::TableLookupLanes(hn::LoadU(df, worth + t * lanes), at);
      value = hn::IfThenElse(hn::RebindMask(df, here), other, value);
    }
    hn::StoreU(hn::Add(hn::LoadU(df, y + i), value), df, y + i);
  }
}

}  // namespace laconic::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace laconic::kernels {
namespace {

HWY_EXPORT(to_bins_run);
HWY_EXPORT(part_run);
HWY_EXPORT(add_bins_run);

}  // namespace

void to_bins(std::span<const float> x, const BinCuts& cuts, std::uint8_t* bins) {
  in_groups(
      x.size(),
      [&](std::size_t, std::size_t count, const float* x, std::uint8_t* bins) {
        HWY_DYNAMIC_DISPATCH(to_bins_run)(x, count, cuts, bins);
      },
      In<float>{x.data()}, Out<std::uint8_t>{bins});
}

std::uint32_t part_in_bins(std::span<const float> x, const BinCuts& cuts, Binned& to) {
  std::uint32_t largest = 0;
  std::ranges::fill(to.sizes, 0U);
  in_groups(
      x.size(),
      [&](std::size_t from, std::size_t count, const float* x_part) {
        largest = std::max(largest, HWY_DYNAMIC_DISPATCH(part_run)(x_part, count, cuts, to));
        to.sizes[0] -= static_cast<std::uint32_t>(from + count - std::min(from + count, x.size()));
      },
      In<float>{x.data()});
  return largest;
}

void add_bins(const std::uint8_t* bins, const float* worth, std::span<float> y) {
  in_groups(
      y.size(),
      [&](std::size_t, std::size_t count, const std::uint8_t* bins, float* y) {
        HWY_DYNAMIC_DISPATCH(add_bins_run)(bins, count, worth, y);
      },
      In<std::uint8_t>{bins}, InOut<float>{y.data()});
}

}  // namespace laconic::kernels
#endif  // HWY_ONCE

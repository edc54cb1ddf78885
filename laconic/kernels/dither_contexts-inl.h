// Contexts of levels on vector lanes: of 64 entries at a time, a byte each. Included once per
// instruction set, after hwy/foreach_target.h: hence the guard that toggles.
#if defined(LACONIC_KERNELS_DITHER_CONTEXTS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef LACONIC_KERNELS_DITHER_CONTEXTS_INL_H
#undef LACONIC_KERNELS_DITHER_CONTEXTS_INL_H
#else
#define LACONIC_KERNELS_DITHER_CONTEXTS_INL_H
#endif

#include <algorithm>

#include <hwy/highway.h>

#include "laconic/kernels/dither.h"
#include "laconic/kernels/natural-inl.h"

HWY_BEFORE_NAMESPACE();
namespace laconic::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D8 = hn::CappedTag<std::uint8_t, kGroup>;
using D16 = hn::CappedTag<std::uint16_t, 32>;
using S16 = hn::RebindToSigned<D16>;

// The four highest bits of the draws of 64 entries. By them alone the bin of |u| is known: 7 to 0
// where u is negative, then 0 to 7.
HWY_INLINE void top_bits(Hashed& draws, std::uint8_t* tops) {
  const auto next = [&]() HWY_ATTR { return hn::ShiftRight<28>(draws.next()); };
  for (std::size_t i = 0; i < kGroup; i += 4 * hn::Lanes(U32())) {
    const Word a = next(), b = next(), c = next(), e = next();
    store_bytes({a, b, c, e}, tops + i);
  }
}

// Classes of entries by their scales, and contexts.
class Contexts {
 public:
  HWY_INLINE Contexts(const DitherSteps& steps, DitherScales scales) : scales_(scales) {
    for (std::size_t k = 0; k < kDitherScales; ++k)
      codes_[k] = static_cast<std::uint8_t>(steps.code[k]);
  }

  // Whether none of 64 entries from `at` on is sent.
  HWY_INLINE bool none(std::size_t at) const {
    if (scales_.by_group) return codes_[scales_.scales[at / kGroup]] == 0;
    const D8 d;
    const auto nowhere = hn::Set(d, kDitherNowhere);
    auto all = hn::Eq(nowhere, nowhere);
    for (std::size_t i = 0; i < kGroup; i += hn::Lanes(d))
      all = hn::And(all, hn::Eq(hn::LoadU(d, scales_.scales + at + i), nowhere));
    return hn::AllTrue(d, all);
  }

  // class * kDitherBins of 64 entries.
  HWY_INLINE void codes(std::size_t at, std::uint8_t* codes) const {
    const D8 d;
    if (scales_.by_group) {
      const auto code = hn::Set(d, codes_[scales_.scales[at / kGroup]]);
      for (std::size_t i = 0; i < kGroup; i += hn::Lanes(d)) hn::StoreU(code, d, codes + i);
      return;
    }
#if HWY_TARGET == HWY_SCALAR
    for (std::size_t i = 0; i < kGroup; ++i) codes[i] = codes_[scales_.scales[at + i]];
#else
    constexpr std::size_t kTable = 16;
    for (std::size_t i = 0; i < kGroup; i += hn::Lanes(d)) {
      const auto scale = hn::LoadU(d, scales_.scales + at + i);
      const auto inside = hn::And(scale, hn::Set(d, kTable - 1)), which = hn::ShiftRight<4>(scale);
      auto code = hn::Zero(d);
      HWY_UNROLL(8)
      for (std::size_t table = 0; table < kDitherScales / kTable; ++table) {
        const auto found = hn::TableLookupBytes(hn::LoadDup128(d, codes_ + table * kTable), inside);
        code = hn::IfThenElse(hn::Eq(which, hn::Set(d, static_cast<std::uint8_t>(table))), found,
                              code);
      }
      hn::StoreU(code, d, codes + i);
    }
#endif
  }

 private:
  HWY_ALIGN std::uint8_t codes_[kDitherScales];
  DitherScales scales_;
};

// Whether one of 64 codes or contexts is of a class whose levels have lowest bits.
HWY_INLINE bool have_low(const std::uint8_t* codes) {
  const D8 d;
  auto all = hn::Zero(d);
  for (std::size_t i = 0; i < kGroup; i += hn::Lanes(d)) all = hn::Or(all, hn::LoadU(d, codes + i));
  return !hn::AllTrue(d, hn::Eq(hn::And(all, hn::Set(d, 128)), hn::Zero(d)));
}

// Adds to codes the bin of |u|, or of (|u| + 1/2) / 2^low; class 0 has bin 0 only.
HWY_INLINE void add_bins(const std::uint8_t* tops, std::uint8_t* codes) {
#if HWY_TARGET == HWY_SCALAR
  for (std::size_t i = 0; i < kGroup; ++i) {
    if (codes[i] == 0) continue;
    const auto bin = static_cast<unsigned>(tops[i] < 8 ? 7 - tops[i] : tops[i] - 8);
    const std::uint32_t low = dither_low(codes[i] / kDitherBins);
    codes[i] = static_cast<std::uint8_t>(codes[i] + (low == 0 ? bin : (8 + bin) >> low));
  }
#else
  const D8 d;
  HWY_ALIGN static constexpr std::uint8_t kBins[16] = {7, 6, 5, 4, 3, 2, 1, 0,
                                                       0, 1, 2, 3, 4, 5, 6, 7};
  // By half of a class.
  HWY_ALIGN static constexpr std::uint8_t kLow[16] = {0, 0, 0, 0, 0, 0, 0, 0,
                                                      1, 2, 3, 4, 5, 6, 7, 8};
  const auto bins = hn::LoadDup128(d, kBins), lows = hn::LoadDup128(d, kLow);
  const bool any_low = have_low(codes);
  for (std::size_t i = 0; i < kGroup; i += hn::Lanes(d)) {
    const auto code = hn::LoadU(d, codes + i);
    auto bin = hn::TableLookupBytes(bins, hn::LoadU(d, tops + i));
    if (any_low) {
      const auto low = hn::TableLookupBytes(lows, hn::ShiftRight<4>(code));
      const auto has = [&](std::uint8_t bit) HWY_ATTR { return hn::TestBit(low, hn::Set(d, bit)); };
      auto part = hn::Add(bin, hn::Set(d, 8));
      part = hn::IfThenElse(has(1), hn::ShiftRight<1>(part), part);
      part = hn::IfThenElse(has(2), hn::ShiftRight<2>(part), part);
      part = hn::IfThenZeroElse(hn::Or(has(4), has(8)), part);
      bin = hn::IfThenElse(hn::Eq(low, hn::Zero(d)), bin, part);
    }
    hn::StoreU(hn::IfThenZeroElse(hn::Eq(code, hn::Zero(d)), hn::Add(code, bin)), d, codes + i);
  }
#endif
}

HWY_INLINE hn::Vec<S16> load_halves(const std::int16_t* levels) { return hn::LoadU(S16(), levels); }
HWY_INLINE hn::Vec<S16> load_halves(const std::int8_t* levels) {
  return hn::PromoteTo(S16(), hn::LoadU(hn::Rebind<std::int8_t, S16>(), levels));
}

// Symbols of 64 levels in their contexts: what is left without their lowest bits, counted from
// `least`; the last: all others. Levels are bytes or of 16 bits, and beyond those the last of them.
template <class Level>
HWY_INLINE void to_symbols(const Level* levels, const std::uint8_t* contexts, std::int32_t least,
                           std::uint16_t* symbols) {
  const D16 d;
  const S16 di;
  const hn::Rebind<std::uint8_t, D16> bytes;
  const bool any_low = have_low(contexts);
  for (std::size_t i = 0; i < kGroup; i += hn::Lanes(d)) {
    const auto context = hn::PromoteTo(d, hn::LoadU(bytes, contexts + i));
    auto high = load_halves(levels + i);
    if (any_low) {
      const auto half_class = hn::ShiftRight<4>(context);
      const auto low = hn::Sub(hn::Max(half_class, hn::Set(d, 7)), hn::Set(d, 7));
      const auto has = [&](std::uint16_t bit) HWY_ATTR {
        return hn::RebindMask(di, hn::TestBit(low, hn::Set(d, bit)));
      };
      // Half of 2^low is added first: 0 for a low of 0.
      auto above = hn::IfThenElse(has(1), hn::Set(di, 2), hn::Set(di, 1));
      above = hn::IfThenElse(has(2), hn::ShiftLeft<2>(above), above);
      above = hn::IfThenElse(has(4), hn::ShiftLeft<4>(above), above);
      above = hn::IfThenElse(has(8), hn::Set(di, 256), above);
      high = hn::SaturatedAdd(high, hn::ShiftRight<1>(above));
      high = hn::IfThenElse(has(1), hn::ShiftRight<1>(high), high);
      high = hn::IfThenElse(has(2), hn::ShiftRight<2>(high), high);
      high = hn::IfThenElse(has(4), hn::ShiftRight<4>(high), high);
      high = hn::IfThenElse(has(8), hn::ShiftRight<8>(high), high);
    }
    const auto from_least = hn::SaturatedSub(high, hn::Set(di, static_cast<std::int16_t>(least)));
    const auto symbol = hn::Min(hn::BitCast(d, from_least), hn::Set(d, kDitherSymbols - 1));
    hn::StoreU(hn::Or(hn::ShiftLeft<3>(context), symbol), d, symbols + i);
  }
}

}  // namespace laconic::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // the guard that toggles

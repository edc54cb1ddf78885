// Levels that are more than their symbols.
#include "laconic/kernels/dither_apart.h"

#include "laconic/kernels/dither.h"
#include "laconic/kernels/groups.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "laconic/kernels/dither_apart.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace laconic::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The lanes of a mask as bits from bit i of `bits` on: whole bytes, or a bit where there are no
// vectors.
template <class D, class Mask>
HWY_INLINE void store_mask(D d, Mask mask, std::size_t i, std::uint8_t* bits) {
#if HWY_TARGET == HWY_SCALAR
  std::uint8_t bit[8];
  hn::StoreMaskBits(d, mask, bit);
  bits[i / 8] = static_cast<std::uint8_t>((i % 8 == 0 ? 0 : bits[i / 8]) | (bit[0] & 1) << (i % 8));
#else
  hn::StoreMaskBits(d, mask, bits + i / 8);
#endif
}

void find_run(const std::uint16_t* symbols, std::size_t count, std::uint8_t* bits) {
  const hn::CappedTag<std::uint16_t, 32> d;
  const auto last = hn::Set(d, kDitherSymbols - 1);
  const auto low = hn::Set(d, kLowContexts * kDitherSymbols);
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    const auto code = hn::LoadU(d, symbols + i);
    const auto apart = hn::Or(hn::Eq(hn::And(code, last), last), hn::Eq(hn::And(code, low), low));
    store_mask(d, apart, i, bits);
  }
}

void levels_run(const std::uint8_t* symbols, const std::uint8_t* contexts, std::size_t count,
                std::int32_t first, std::int8_t* levels, std::uint8_t* bits) {
  const hn::CappedTag<std::uint8_t, 64> d;
  const hn::RebindToSigned<decltype(d)> di;
  const auto last = hn::Set(d, static_cast<std::uint8_t>(kDitherSymbols - 1));
  const auto low = hn::Set(d, static_cast<std::uint8_t>(kLowContexts));
  const auto least = hn::Set(d, static_cast<std::uint8_t>(first));
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    const auto symbol = hn::LoadU(d, symbols + i);
    const auto context = hn::LoadU(d, contexts + i);
    const auto apart = hn::Or(hn::Eq(symbol, last), hn::Eq(hn::And(context, low), low));
    store_mask(d, apart, i, bits);
    hn::StoreU(hn::BitCast(di, hn::Add(symbol, least)), di, levels + i);
  }
}

}  // namespace laconic::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace laconic::kernels {
namespace {

HWY_EXPORT(find_run);
HWY_EXPORT(levels_run);

}  // namespace

void find_apart(std::span<const std::uint16_t> symbols, std::uint8_t* bits) {
  const auto run = HWY_DYNAMIC_DISPATCH(find_run);
  in_groups(
      symbols.size(),
      [&](std::size_t, std::size_t count, const std::uint16_t* symbols, std::uint8_t* bits) {
        run(symbols, count, bits);
      },
      In<std::uint16_t>{symbols.data()}, Out<Bit>{bits});
}

void to_levels_apart(std::span<const std::uint8_t> symbols, const std::uint8_t* contexts,
                     std::int32_t least, std::int8_t* levels, std::uint8_t* bits) {
  const auto run = HWY_DYNAMIC_DISPATCH(levels_run);
  in_groups(
      symbols.size(),
      [&](std::size_t, std::size_t count, const std::uint8_t* symbols, const std::uint8_t* contexts,
          std::int8_t* levels,
          std::uint8_t* bits) { run(symbols, contexts, count, least, levels, bits); },
      In<std::uint8_t>{symbols.data()}, In<std::uint8_t>{contexts}, Out<std::int8_t>{levels},
      Out<Bit>{bits});
}

}  // namespace laconic::kernels
#endif  // HWY_ONCE

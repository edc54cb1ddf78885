// Levels that are beyond their symbols.
#include "laconic/kernels/dither_escapes.h"

#include "laconic/kernels/dither.h"
#include "laconic/kernels/groups.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "laconic/kernels/dither_escapes.cpp"
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
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    const auto code = hn::LoadU(d, symbols + i);
    store_mask(d, hn::Eq(hn::And(code, last), last), i, bits);
  }
}

void levels_run(const std::uint8_t* symbols, std::size_t count, std::int32_t first,
                std::int8_t* levels, std::uint8_t* bits) {
  const hn::CappedTag<std::uint8_t, 64> d;
  const hn::RebindToSigned<decltype(d)> di;
  const auto last = hn::Set(d, static_cast<std::uint8_t>(kDitherSymbols - 1));
  const auto least = hn::Set(d, static_cast<std::uint8_t>(first));
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    const auto symbol = hn::LoadU(d, symbols + i);
    store_mask(d, hn::Eq(symbol, last), i, bits);
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

void find_escapes(std::span<const std::uint16_t> symbols, std::uint8_t* bits) {
  const auto run = HWY_DYNAMIC_DISPATCH(find_run);
  in_groups(
      symbols.size(),
      [&](std::size_t, std::size_t count, const std::uint16_t* symbols, std::uint8_t* bits) {
        run(symbols, count, bits);
      },
      In<std::uint16_t>{symbols.data()}, Out<Bit>{bits});
}

void to_levels_and_escapes(std::span<const std::uint8_t> symbols, std::int32_t least,
                           std::int8_t* levels, std::uint8_t* bits) {
  const auto run = HWY_DYNAMIC_DISPATCH(levels_run);
  in_groups(
      symbols.size(),
      [&](std::size_t, std::size_t count, const std::uint8_t* symbols, std::int8_t* levels,
          std::uint8_t* bits) { run(symbols, count, least, levels, bits); },
      In<std::uint8_t>{symbols.data()}, Out<std::int8_t>{levels}, Out<Bit>{bits});
}

}  // namespace laconic::kernels
#endif  // HWY_ONCE

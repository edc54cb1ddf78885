// Lowest bits of levels: found on vector lanes, packed and unpacked eight levels at a time.
#include "laconic/kernels/low_bits.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "laconic/kernels/dither.h"
#include "laconic/kernels/groups.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "laconic/kernels/low_bits.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#ifndef LACONIC_KERNELS_LOW_BITS_ONCE
#define LACONIC_KERNELS_LOW_BITS_ONCE
namespace laconic::kernels {

inline constexpr std::size_t kEight = 8;  // levels whose bits fill a word at most

inline std::uint64_t word_at(const std::uint8_t* from) {
  std::uint64_t word;
  std::memcpy(&word, from, sizeof word);
  return word;
}

// Bits as they are collected: whole words go out.
struct LowWord {
  std::uint8_t* to;
  std::uint64_t word = 0;
  unsigned used = 0;

  void put(std::uint64_t bits, unsigned width) {
    word |= bits << used;
    if (used + width >= 64) {
      std::memcpy(to, &word, sizeof word);
      to += sizeof word;
      word = used == 0 ? 0 : bits >> (64 - used);
      used -= 64;
    }
    used += width;
  }
};

}  // namespace laconic::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace laconic::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using U16 = hn::CappedTag<std::uint16_t, 32>;
using I16 = hn::RebindToSigned<U16>;
using Halves = hn::Vec<U16>;
using Signed = hn::Vec<I16>;

// Bits of eight bytes that a mask has, side by side; and back.
HWY_INLINE std::uint64_t packed(std::uint64_t fields, std::uint64_t masks) {
#if HWY_ARCH_X86_64 && HWY_TARGET <= HWY_AVX2
  return _pext_u64(fields, masks);
#else
  std::uint64_t result = 0;
  unsigned used = 0;
  for (; masks != 0; masks >>= 8, fields >>= 8) {
    result |= (fields & 0xff) << used;
    used += static_cast<unsigned>(std::popcount(masks & 0xff));
  }
  return result;
#endif
}
HWY_INLINE std::uint64_t unpacked(std::uint64_t bits, std::uint64_t masks) {
#if HWY_ARCH_X86_64 && HWY_TARGET <= HWY_AVX2
  return _pdep_u64(bits, masks);
#else
  std::uint64_t result = 0;
  for (unsigned shift = 0; shift < 64; shift += 8) {
    const std::uint64_t mask = masks >> shift & 0xff;
    result |= (bits & mask) << shift;
    bits >>= std::popcount(mask);
  }
  return result;
#endif
}

// 2^low of a vector of contexts over 16, which is half of a class: 2^0 to 2^8, by doubling, as not
// all targets shift each lane by its own number.
HWY_INLINE Halves one_above(Halves half_class) {
  const U16 d;
  const Halves low = hn::Sub(hn::Max(half_class, hn::Set(d, 7)), hn::Set(d, 7));
  const auto has = [&](std::uint16_t bit) HWY_ATTR { return hn::TestBit(low, hn::Set(d, bit)); };
  Halves above = hn::IfThenElse(has(1), hn::Set(d, 2), hn::Set(d, 1));
  above = hn::IfThenElse(has(2), hn::ShiftLeft<2>(above), above);
  above = hn::IfThenElse(has(4), hn::ShiftLeft<4>(above), above);
  return hn::IfThenElse(has(8), hn::Set(d, 256), above);
}

// Whether any of 64 contexts has these bits: most groups of most matrices have no level with lowest
// bits.
template <class D, class T>
HWY_INLINE bool any_has(D d, const T* contexts, T bits) {
  auto all = hn::Zero(d);
  for (std::size_t i = 0; i < kGroup; i += hn::Lanes(d))
    all = hn::Or(all, hn::LoadU(d, contexts + i));
  return !hn::AllFalse(d, hn::TestBit(all, hn::Set(d, bits)));
}

template <class V>
HWY_INLINE void store_bytes(V halves, std::uint8_t* to) {
  const hn::Rebind<std::uint8_t, U16> bytes;
  hn::StoreU(hn::DemoteTo(bytes, hn::BitCast(I16(), halves)), bytes, to);
}

// `count` is a multiple of 64.
void put_run(const std::uint16_t* symbols, LevelView levels, std::size_t count, LowWord& out) {
  const U16 d;
  const I16 di;
  const hn::Rebind<std::int8_t, I16> bytes;
  HWY_ALIGN std::uint8_t fields[kGroup], masks[kGroup];
  for (std::size_t from = 0; from < count; from += kGroup) {
    if (!any_has(d, symbols + from, std::uint16_t{128 * kDitherSymbols})) continue;
    bool wide = false;
    for (std::size_t i = 0; i < kGroup; i += hn::Lanes(d)) {
      const Halves above = one_above(hn::ShiftRight<7>(hn::LoadU(d, symbols + from + i)));
      const Halves mask = hn::Sub(above, hn::Set(d, 1));
      const Signed level = hn::PromoteTo(di, hn::LoadU(bytes, levels.small + from + i));
      wide = wide || !hn::AllFalse(di, hn::Eq(level, hn::Set(di, kWide)));
      const Halves moved = hn::Add(hn::BitCast(d, level), hn::ShiftRight<1>(above));
      store_bytes(hn::And(moved, mask), fields + i);
      store_bytes(mask, masks + i);
    }
    for (std::size_t i = 0; wide && i < kGroup; ++i)
      fields[i] = static_cast<std::uint8_t>((levels[from + i] + (masks[i] + 1) / 2) & masks[i]);
    for (std::size_t i = 0; i < kGroup; i += kEight) {
      const std::uint64_t mask = word_at(masks + i);
      out.put(packed(word_at(fields + i), mask), static_cast<unsigned>(std::popcount(mask)));
    }
  }
}

// Eight levels' bits from a stream that has 16 bytes from there on.
HWY_INLINE void take_eight(const std::uint8_t* masks, LowBits& bits, std::uint8_t* fields) {
  const std::uint64_t mask = word_at(masks);
  std::uint64_t word = word_at(bits.at) >> bits.used;
  if (bits.used > 0) word |= std::uint64_t{bits.at[8]} << (64 - bits.used);
  word = unpacked(word, mask);
  std::memcpy(fields, &word, sizeof word);
  bits.used += static_cast<unsigned>(std::popcount(mask));
  bits.at += bits.used / 8;
  bits.used %= 8;
}

HWY_INLINE bool take_group_bits(const std::uint8_t* masks, LowBits& bits, std::uint8_t* fields) {
  std::size_t all = bits.used;
  for (std::size_t i = 0; i < kGroup; i += kEight)
    all += static_cast<std::size_t>(std::popcount(word_at(masks + i)));
  const auto left = static_cast<std::size_t>(bits.end - bits.at);
  if (all > 8 * left) return false;
  if (HWY_LIKELY(left >= kGroup + kLowRoom)) {
    for (std::size_t i = 0; i < kGroup; i += kEight) take_eight(masks + i, bits, fields + i);
    return true;
  }
  std::uint8_t copy[kGroup + 2 * kLowRoom] = {};
  std::copy_n(bits.at, left, copy);
  LowBits near{copy, copy + left, bits.used};
  for (std::size_t i = 0; i < kGroup; i += kEight) take_eight(masks + i, near, fields + i);
  bits.at += near.at - copy;
  bits.used = near.used;
  return true;
}

// `count` is a multiple of 64.
bool take_run(const std::uint8_t* symbols, const std::uint8_t* contexts, std::size_t count,
              std::int32_t first, LowBits& bits, LevelSpan levels) {
  const U16 d;
  const I16 di;
  const hn::Rebind<std::uint8_t, U16> bytes;
  const hn::Rebind<std::int8_t, I16> small;
  const Signed least = hn::Set(di, static_cast<std::int16_t>(first));
  const Halves last = hn::Set(d, kDitherSymbols - 1);
  HWY_ALIGN std::uint8_t fields[kGroup], masks[kGroup];
  HWY_ALIGN std::int16_t made[kGroup];
  const hn::CappedTag<std::uint8_t, kGroup> all;
  for (std::size_t from = 0; from < count; from += kGroup) {
    if (!any_has(all, contexts + from, std::uint8_t{128})) continue;
    for (std::size_t i = 0; i < kGroup; i += hn::Lanes(d)) {
      const Halves context = hn::PromoteTo(d, hn::LoadU(bytes, contexts + from + i));
      store_bytes(hn::Sub(one_above(hn::ShiftRight<4>(context)), hn::Set(d, 1)), masks + i);
    }
    if (!take_group_bits(masks, bits, fields)) return false;
    bool wide = false;
    for (std::size_t i = 0; i < kGroup; i += hn::Lanes(d)) {
      const Halves symbol = hn::PromoteTo(d, hn::LoadU(bytes, symbols + from + i));
      const Halves above = hn::Add(hn::PromoteTo(d, hn::LoadU(bytes, masks + i)), hn::Set(d, 1));
      const Halves field = hn::PromoteTo(d, hn::LoadU(bytes, fields + i));
      const Signed high = hn::Mul(hn::Add(hn::BitCast(di, symbol), least), hn::BitCast(di, above));
      const Signed level = hn::Add(high, hn::BitCast(di, hn::Sub(field, hn::ShiftRight<1>(above))));
      // The bits of an escape as a signed byte.
      const Halves top = hn::Set(d, 128);
      const Signed bare = hn::BitCast(di, hn::Sub(hn::Xor(field, top), top));
      const Signed result = hn::IfThenElse(hn::RebindMask(di, hn::Eq(symbol, last)), bare, level);
      hn::StoreU(result, di, made + i);
      hn::StoreU(hn::DemoteTo(small, result), small, levels.small + from + i);
      wide = wide || !hn::AllFalse(di, hn::Gt(hn::Abs(level), hn::Set(di, kMostSmall)));
    }
    for (std::size_t i = 0; wide && i < kGroup; ++i)
      if (symbols[from + i] != kDitherSymbols - 1) levels.set(from + i, made[i]);
  }
  return true;
}

}  // namespace laconic::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace laconic::kernels {
namespace {

HWY_EXPORT(put_run);
HWY_EXPORT(take_run);

}  // namespace

std::size_t put_low_bits(std::span<const std::uint16_t> symbols, LevelView levels,
                         std::uint8_t* to) {
  const auto run = HWY_DYNAMIC_DISPATCH(put_run);
  const std::size_t whole = symbols.size() / kGroup * kGroup, rest = symbols.size() - whole;
  LowWord out{to};
  run(symbols.data(), levels, whole, out);
  if (rest > 0) {
    std::uint16_t copy[kGroup] = {};
    std::int8_t small[kGroup] = {};
    std::int32_t wide[kGroup] = {};
    std::copy_n(symbols.data() + whole, rest, copy);
    for (std::size_t i = 0; i < rest; ++i) LevelSpan{small, wide}.set(i, levels[whole + i]);
    run(copy, {small, wide}, kGroup, out);
  }
  std::memcpy(out.to, &out.word, sizeof out.word);
  return static_cast<std::size_t>(out.to - to) + (out.used + 7) / 8;
}

bool take_low_bits(std::span<const std::uint8_t> symbols, const std::uint8_t* contexts,
                   std::int32_t least, LowBits& bits, LevelSpan levels) {
  const auto run = HWY_DYNAMIC_DISPATCH(take_run);
  const std::size_t whole = symbols.size() / kGroup * kGroup, rest = symbols.size() - whole;
  if (!run(symbols.data(), contexts, whole, least, bits, levels)) return false;
  if (rest == 0) return true;
  std::uint8_t copy[kGroup] = {}, of[kGroup] = {};
  std::int8_t small[kGroup] = {};
  std::int32_t wide[kGroup] = {};
  std::copy_n(symbols.data() + whole, rest, copy);
  std::copy_n(contexts + whole, rest, of);
  std::copy_n(levels.small + whole, rest, small);
  if (!run(copy, of, kGroup, least, bits, {small, wide})) return false;
  std::copy_n(small, rest, levels.small + whole);
  for (std::size_t i = 0; i < rest; ++i)
    if (small[i] == kWide) levels.wide[whole + i] = wide[i];
  return true;
}

}  // namespace laconic::kernels
#endif  // HWY_ONCE

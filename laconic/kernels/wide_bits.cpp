// Four symbols of 16 bits in a word are closed up, or opened, for as many words as a vector has;
// words go to and from the stream one by one, each to a place of its own: none waits for another.
#include "laconic/kernels/wide_bits.h"

#include <algorithm>

#include "laconic/base/bytes.h"
#include "laconic/kernels/groups.h"
#include "laconic/kernels/stream.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "laconic/kernels/wide_bits.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace laconic::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR

std::size_t put_wide_run(LevelView, std::size_t, unsigned, std::uint8_t*, std::size_t) { return 0; }
std::size_t take_wide_run(const std::uint8_t*, std::size_t, std::size_t, unsigned, LevelSpan,
                          std::uint32_t&) {
  return 0;
}
std::size_t split_run(LevelView, std::size_t, std::uint8_t*, std::uint8_t*, std::uint32_t&) {
  return 0;
}
std::size_t join_run(const std::uint8_t*, const std::uint8_t*, std::size_t, LevelSpan,
                     std::uint32_t&) {
  return 0;
}

#else

using Ints = hn::CappedTag<std::int32_t, 16>;
using Shorts = hn::Repartition<std::int16_t, Ints>;
using Words = hn::Repartition<std::uint64_t, Ints>;

constexpr std::size_t kWords = kGroup / 4;

// Groups of symbols that may be loaded and stored as whole words.
std::size_t whole_groups(std::size_t count, unsigned width, std::size_t size) {
  const std::size_t step = kGroup / 8 * width, most = count / kGroup;
  return size < 8 ? 0 : std::min(most, (size - 8) / step);
}

template <int kBits>
HWY_INLINE hn::Vec<Words> closer(hn::Vec<Words> v, hn::Vec<Words> low, int used) {
  return hn::Or(hn::And(v, low), hn::ShiftLeftSame(hn::And(hn::ShiftRight<kBits>(v), low), used));
}

// The symbols of half a vector's levels.
HWY_INLINE hn::Vec<hn::Rebind<std::uint16_t, Ints> > symbols_at(const LevelView& levels,
                                                                std::size_t at) {
  const Ints d;
  const hn::Rebind<std::int8_t, Ints> d8;
  const hn::Rebind<std::uint16_t, Ints> d16;
  auto level = hn::PromoteTo(d, hn::LoadU(d8, levels.small + at));
  const auto beyond = hn::Eq(level, hn::Set(d, kWide));
  // Where there is none the other plane, four times as large, is not touched.
  if (!hn::AllFalse(d, beyond))
    level = hn::IfThenElse(beyond, hn::LoadU(d, levels.wide + at), level);
  level = hn::Min(hn::Max(level, hn::Set(d, -32768)), hn::Set(d, 32768));  // whose symbol is cut
  return hn::DemoteTo(d16, hn::Xor(hn::Add(level, level), hn::BroadcastSignBit(level)));
}

// A group's words, each of four closed symbols.
HWY_INLINE void close_group(const LevelView& levels, std::size_t from, int width,
                            std::uint64_t* words) {
  const Words d;
  const hn::RebindToUnsigned<Shorts> d16;
  const auto low16 = hn::Set(d, 0x0000ffff0000ffffULL), low32 = hn::Set(d, 0xffffffffULL);
  for (std::size_t i = 0; i < kGroup; i += hn::Lanes(d16)) {
    fetch_ahead(levels.wide + from + i + kReadAhead);
    const auto low = symbols_at(levels, from + i);
    const auto high = symbols_at(levels, from + i + hn::Lanes(Ints()));
    auto word = hn::BitCast(d, hn::Combine(d16, high, low));
    word = closer<16>(word, low16, width);
    hn::StoreU(closer<32>(word, low32, 2 * width), d, words + i / 4);
  }
}

std::size_t put_wide_run(LevelView levels, std::size_t count, unsigned width, std::uint8_t* packed,
                         std::size_t size) {
  const std::size_t groups = whole_groups(count, width, size);
  const unsigned half = width / 2, odd = 4 * width % 8;  // of two words the second may begin there
  for (std::size_t g = 0; g < groups; ++g) {
    std::uint64_t words[kWords];
    close_group(levels, g * kGroup, static_cast<int>(width), words);
    for (std::size_t w = 0; w < kWords; w += 2, packed += width) {
      const std::uint64_t shared = words[w] >> (4 * width - 8) >> (8 - odd);
      store(packed, words[w]);
      store(packed + half, words[w + 1] << odd | shared);
    }
  }
  return groups * kGroup;
}

using Symbols = hn::RebindToUnsigned<Shorts>;

HWY_INLINE void raise(std::uint32_t& largest, hn::Vec<Symbols> most) {
  std::uint16_t lanes[hn::MaxLanes(Symbols())];
  hn::StoreU(most, Symbols(), lanes);
  for (std::size_t i = 0; i < hn::Lanes(Symbols()); ++i)
    largest = std::max<std::uint32_t>(largest, lanes[i]);
}

// The levels of 16-bit symbols, in both planes.
HWY_INLINE void put_levels_of(hn::Vec<hn::RebindToUnsigned<Shorts> > symbols, const LevelSpan& to,
                              std::size_t at) {
  const hn::RebindToUnsigned<Shorts> du;
  const Shorts d;
  const Ints di;
  const hn::Half<Shorts> half;
  const hn::Rebind<std::int8_t, Shorts> d8;
  const auto sign = hn::Sub(hn::Zero(d), hn::BitCast(d, hn::And(symbols, hn::Set(du, 1))));
  const auto level = hn::Xor(hn::BitCast(d, hn::ShiftRight<1>(symbols)), sign);
  const auto beyond = hn::Gt(level, hn::Set(d, kMostSmall));  // those below are cut to kWide
  hn::StoreU(hn::DemoteTo(d8, hn::IfThenElse(beyond, hn::Set(d, kWide), level)), d8, to.small + at);
  hn::StoreU(hn::PromoteTo(di, hn::LowerHalf(half, level)), di, to.wide + at);
  hn::StoreU(hn::PromoteTo(di, hn::UpperHalf(half, level)), di, to.wide + at + hn::Lanes(di));
}

std::size_t take_wide_run(const std::uint8_t* packed, std::size_t size, std::size_t count,
                          unsigned width, LevelSpan levels, std::uint32_t& largest) {
  const Words dw;
  const hn::RebindToUnsigned<Shorts> du16;
  const std::size_t groups = whole_groups(count, width, size);
  const unsigned half = width / 2, odd = 4 * width % 8;
  const int w = static_cast<int>(width);
  const std::uint64_t one = (1ULL << width) - 1;
  const auto low2 = hn::Set(dw, (1ULL << (2 * width)) - 1), low1 = hn::Set(dw, one | one << 32);
  auto most = hn::Zero(du16);
  // Words wait in memory until their stores are done: a vector that is loaded at once would wait.
  constexpr std::size_t kAtOnce = 16;
  for (std::size_t done = 0; done < groups; done += kAtOnce) {
    std::uint64_t words[kAtOnce * kWords];
    const std::size_t part = std::min(kAtOnce, groups - done);
    for (std::size_t k = 0; k < part * kWords; k += 2, packed += width) {
      words[k] = load<std::uint64_t>(packed);
      words[k + 1] = load<std::uint64_t>(packed + half) >> odd;
    }
    for (std::size_t i = 0; i < part * kGroup; i += hn::Lanes(du16)) {
      auto word = hn::LoadU(dw, words + i / 4);
      word = hn::Or(hn::And(word, low2),
                    hn::ShiftLeft<32>(hn::And(hn::ShiftRightSame(word, 2 * w), low2)));
      word = hn::Or(hn::And(word, low1),
                    hn::ShiftLeft<16>(hn::And(hn::ShiftRightSame(word, w), low1)));
      const auto symbols = hn::BitCast(du16, word);
      most = hn::Max(most, symbols);
      put_levels_of(symbols, levels, done * kGroup + i);
    }
  }
  raise(largest, most);
  return groups * kGroup;
}

// Both return how many were done, and raise `largest` to the largest symbol.
std::size_t split_run(LevelView levels, std::size_t count, std::uint8_t* low, std::uint8_t* high,
                      std::uint32_t& largest) {
  const Symbols d;
  const hn::Rebind<std::uint8_t, Symbols> bytes;
  auto most = hn::Zero(d);
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) {
    fetch_ahead(levels.wide + i + kReadAhead);
    const auto v = hn::Combine(d, symbols_at(levels, i + hn::Lanes(Ints())), symbols_at(levels, i));
    most = hn::Max(most, v);
    hn::StoreU(hn::TruncateTo(bytes, v), bytes, low + i);
    hn::StoreU(hn::TruncateTo(bytes, hn::ShiftRight<8>(v)), bytes, high + i);
  }
  raise(largest, most);
  return i;
}

std::size_t join_run(const std::uint8_t* low, const std::uint8_t* high, std::size_t count,
                     LevelSpan levels, std::uint32_t& largest) {
  const Symbols d;
  const hn::Rebind<std::uint8_t, Symbols> bytes;
  auto most = hn::Zero(d);
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) {
    const auto v = hn::Or(hn::PromoteTo(d, hn::LoadU(bytes, low + i)),
                          hn::ShiftLeft<8>(hn::PromoteTo(d, hn::LoadU(bytes, high + i))));
    most = hn::Max(most, v);
    put_levels_of(v, levels, i);
  }
  raise(largest, most);
  return i;
}

#endif

}  // namespace laconic::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace laconic::kernels {
namespace {

HWY_EXPORT(put_wide_run);
HWY_EXPORT(take_wide_run);
HWY_EXPORT(split_run);
HWY_EXPORT(join_run);

}  // namespace

std::size_t put_wide_levels(LevelView levels, std::size_t count, unsigned width,
                            std::uint8_t* packed, std::size_t size) {
  return HWY_DYNAMIC_DISPATCH(put_wide_run)(levels, count, width, packed, size);
}

std::size_t take_wide_levels(const std::uint8_t* packed, std::size_t size, std::size_t count,
                             unsigned width, LevelSpan levels, std::uint32_t& largest) {
  return HWY_DYNAMIC_DISPATCH(take_wide_run)(packed, size, count, width, levels, largest);
}

std::uint32_t split_wide_levels(LevelView levels, std::size_t count, std::uint8_t* low,
                                std::uint8_t* high) {
  std::uint32_t largest = 0;
  std::size_t i = HWY_DYNAMIC_DISPATCH(split_run)(levels, count, low, high, largest);
  for (; i < count; ++i) {
    const auto level = static_cast<std::uint32_t>(levels[i]);
    const std::uint32_t symbol = std::min<std::uint32_t>(level << 1 ^ (0U - (level >> 31)), 65535);
    largest = std::max(largest, symbol);
    low[i] = static_cast<std::uint8_t>(symbol);
    high[i] = static_cast<std::uint8_t>(symbol >> 8);
  }
  return largest;
}

std::uint32_t join_wide_levels(const std::uint8_t* low, const std::uint8_t* high, std::size_t count,
                               LevelSpan levels) {
  std::uint32_t largest = 0;
  std::size_t i = HWY_DYNAMIC_DISPATCH(join_run)(low, high, count, levels, largest);
  for (; i < count; ++i) {
    const std::uint32_t symbol = low[i] | static_cast<std::uint32_t>(high[i]) << 8;
    largest = std::max(largest, symbol);
    levels.wide[i] = static_cast<std::int32_t>(symbol >> 1 ^ (0U - (symbol & 1)));
    levels.set(i, levels.wide[i]);
  }
  return largest;
}

}  // namespace laconic::kernels
#endif  // HWY_ONCE

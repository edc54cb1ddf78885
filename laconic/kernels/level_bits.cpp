// Eight symbols, a byte each in a word, are closed up to `width` bytes, or opened: halves of 16, 32
// and 64 bits in turn, for as many words as a vector has.
#include "laconic/kernels/level_bits.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "laconic/kernels/level_bits.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "laconic/kernels/closing-inl.h"

HWY_BEFORE_NAMESPACE();
namespace laconic::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR

std::size_t put_levels_run(const std::int8_t*, std::size_t, unsigned, std::uint8_t*) { return 0; }
std::size_t take_levels_run(const std::uint8_t*, std::size_t, unsigned, std::int8_t*,
                            std::uint8_t&) {
  return 0;
}

#else

template <class Put>
HWY_INLINE std::size_t put_by(const std::int8_t* levels, std::size_t count, unsigned width,
                              std::uint8_t* packed, Put put) {
  const hn::RebindToSigned<Octets> di;
  constexpr std::size_t kStep = hn::MaxLanes(Octets());
  std::size_t i = 0;
  for (; i + kStep <= count; i += kStep) {
    const auto level = hn::LoadU(di, levels + i);
    const auto zigzag = hn::Xor(hn::Add(level, level), hn::BroadcastSignBit(level));
    put(hn::BitCast(Octets(), zigzag), packed + i / 8 * width);
  }
  return i;
}
template <class Take>
HWY_INLINE std::size_t take_by(const std::uint8_t* packed, std::size_t count, unsigned width,
                               std::int8_t* levels, std::uint8_t& largest, Take take) {
  const Octets d;
  constexpr std::size_t kStep = hn::MaxLanes(Octets());
  alignas(16) static constexpr std::uint8_t kLevels[16] = {0, 0xff, 1, 0xfe, 2, 0xfd, 3, 0xfc,
                                                           4, 0xfb, 5, 0xfa, 6, 0xf9, 7, 0xf8};
  const auto table = hn::LoadDup128(d, kLevels);
  auto most = hn::Zero(d);
  std::size_t i = 0;
  for (; i + kStep <= count; i += kStep) {
    const auto symbol = take(packed + i / 8 * width);
    most = hn::Max(most, symbol);
    hn::StoreU(hn::TableLookupBytes(table, symbol), d, reinterpret_cast<std::uint8_t*>(levels) + i);
  }
  std::uint8_t lanes[kStep];
  hn::StoreU(most, d, lanes);
  largest = std::max(largest, *std::max_element(lanes, lanes + kStep));
  return i;
}

// Both return how many were done: the rest is fewer than what could be written, or read, at once.
std::size_t put_levels_run(const std::int8_t* levels, std::size_t count, unsigned width,
                           std::uint8_t* packed) {
  if (width == 4)
    return put_by(levels, count, 4, packed,
                  [](auto v, std::uint8_t* to) HWY_ATTR { put_four_bits(v, to); });
  if (width == 2)
    return put_by(levels, count, 2, packed,
                  [](auto v, std::uint8_t* to) HWY_ATTR { put_two_bits(v, to); });
  const Octets d;
  const hn::RebindToSigned<Octets> di;
  constexpr std::size_t kStep = hn::MaxLanes(Octets());
  const std::size_t size = count / 8 * width;
  const auto order = hn::LoadDup128(d, closing(width).bytes);
  const int w = static_cast<int>(width);
  std::size_t i = 0;
  for (; i + kStep <= count && i / 8 * width + (kStep / 16 - 1) * 2 * width + 16 <= size;
       i += kStep) {
    const auto level = hn::LoadU(di, levels + i);
    const auto zigzag = hn::Xor(hn::Add(level, level), hn::BroadcastSignBit(level));
    auto word = hn::BitCast(Words(), zigzag);
    word = closer<8>(word, 0x00ff00ff00ff00ffULL, w);
    word = closer<16>(word, 0x0000ffff0000ffffULL, 2 * w);
    word = closer<32>(word, 0x00000000ffffffffULL, 4 * w);
    store_blocks(d, hn::TableLookupBytesOr0(hn::BitCast(d, word), order), packed + i / 8 * width,
                 2 * width);
  }
  return i;
}

std::size_t take_levels_run(const std::uint8_t* packed, std::size_t count, unsigned width,
                            std::int8_t* levels, std::uint8_t& largest) {
  if (width == 4)
    return take_by(packed, count, 4, levels, largest,
                   [](const std::uint8_t* from) HWY_ATTR { return take_four_bits(from); });
  if (width == 2)
    return take_by(packed, count, 2, levels, largest,
                   [](const std::uint8_t* from) HWY_ATTR { return take_two_bits(from); });
  const Octets d;
  constexpr std::size_t kStep = hn::MaxLanes(Octets());
  const std::size_t size = count / 8 * width;
  const auto order = hn::LoadDup128(d, opening(width).bytes);
  const int w = static_cast<int>(width);
  const std::uint64_t m4 = (1ULL << (4 * width)) - 1;
  const std::uint64_t m2 = ((1ULL << (2 * width)) - 1) * 0x0000000100000001ULL;
  const std::uint64_t m1 = ((1ULL << width) - 1) * 0x0001000100010001ULL;
  const auto low7 = hn::Set(d, 127), one = hn::Set(d, 1);
  auto most = hn::Zero(d);
  std::size_t i = 0;
  for (; i + kStep <= count && i / 8 * width + (kStep / 16 - 1) * 2 * width + 16 <= size;
       i += kStep) {
    const auto blocks = load_blocks(d, packed + i / 8 * width, 2 * width);
    auto word = hn::BitCast(Words(), hn::TableLookupBytesOr0(blocks, order));
    word = apart<32>(word, m4, 4 * w);
    word = apart<16>(word, m2, 2 * w);
    word = apart<8>(word, m1, w);
    const auto symbol = hn::BitCast(d, word);
    most = hn::Max(most, symbol);
    const auto half = hn::And(hn::BitCast(d, hn::ShiftRight<1>(word)), low7);
    const auto sign = hn::Sub(hn::Zero(d), hn::And(symbol, one));
    hn::StoreU(hn::Xor(half, sign), d, reinterpret_cast<std::uint8_t*>(levels) + i);
  }
  std::uint8_t lanes[kStep];
  hn::StoreU(most, d, lanes);
  largest = std::max(largest, *std::max_element(lanes, lanes + kStep));
  return i;
}

#endif

}  // namespace laconic::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace laconic::kernels {
namespace {

HWY_EXPORT(put_levels_run);
HWY_EXPORT(take_levels_run);

// Bytes that up to eight symbols take.
std::size_t bytes_of(std::size_t symbols, unsigned width) { return (symbols * width + 7) / 8; }

}  // namespace

void put_levels(const std::int8_t* levels, std::size_t count, unsigned width,
                std::uint8_t* packed) {
  std::size_t i = HWY_DYNAMIC_DISPATCH(put_levels_run)(levels, count, width, packed);
  for (; i < count; i += 8) {
    const std::size_t part = std::min<std::size_t>(8, count - i);
    std::uint64_t word = 0;
    for (std::size_t j = 0; j < part; ++j)
      word |= static_cast<std::uint64_t>(
                  static_cast<std::uint8_t>(levels[i + j] << 1 ^ levels[i + j] >> 7))
              << (j * width);
    std::memcpy(packed + i / 8 * width, &word, bytes_of(part, width));
  }
}

std::uint8_t take_levels(const std::uint8_t* packed, std::size_t count, unsigned width,
                         std::int8_t* levels) {
  std::uint8_t largest = 0;
  std::size_t i = HWY_DYNAMIC_DISPATCH(take_levels_run)(packed, count, width, levels, largest);
  for (; i < count; i += 8) {
    const std::size_t part = std::min<std::size_t>(8, count - i);
    std::uint64_t word = 0;
    std::memcpy(&word, packed + i / 8 * width, bytes_of(part, width));
    for (std::size_t j = 0; j < part; ++j) {
      const auto symbol = static_cast<std::uint8_t>(word >> (j * width) & ((1U << width) - 1));
      largest = std::max(largest, symbol);
      levels[i + j] = static_cast<std::int8_t>(symbol >> 1 ^ -(symbol & 1));
    }
  }
  return largest;
}

}  // namespace laconic::kernels
#endif  // HWY_ONCE

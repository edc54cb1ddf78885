// Low bits are closed up, or opened, as those of level_bits.cpp, while what is above them is in a
// register too.
#include "laconic/kernels/split_bytes.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "laconic/kernels/split_bytes.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "laconic/kernels/closing-inl.h"

HWY_BEFORE_NAMESPACE();
namespace laconic::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR

std::size_t split_run(const std::uint8_t*, std::size_t, Split, std::uint8_t*, std::uint8_t*,
                      std::uint8_t&) {
  return 0;
}
std::size_t join_run(const std::uint8_t*, const std::uint8_t*, std::size_t, Split, std::uint8_t*,
                     std::uint8_t&) {
  return 0;
}

#else

constexpr std::size_t kStep = hn::MaxLanes(Octets());

// Whether a vector's low bits may be loaded, or stored, as whole blocks from byte i on.
HWY_INLINE bool whole_blocks(std::size_t i, std::size_t count, unsigned low) {
  return i + kStep <= count &&
         (low == 0 || i / 8 * low + (kStep / 16 - 1) * 2 * low + 16 <= count / 8 * low);
}

HWY_INLINE std::uint8_t largest_of(hn::Vec<Octets> most) {
  std::uint8_t lanes[kStep];
  hn::StoreU(most, Octets(), lanes);
  return *std::max_element(lanes, lanes + kStep);
}

template <bool kPaired>
HWY_INLINE std::size_t split_by(const std::uint8_t* bytes, std::size_t count, unsigned low_bits,
                                std::uint8_t* low, std::uint8_t* above, std::uint8_t& largest) {
  const Octets d;
  const int w = static_cast<int>(low_bits);
  const auto order = hn::LoadDup128(d, closing(low_bits).bytes);
  const auto low_mask = hn::Set(d, static_cast<std::uint8_t>((1U << low_bits) - 1));
  const auto high_mask = hn::Set(d, static_cast<std::uint8_t>(255U >> low_bits));
  auto most = hn::Zero(d);
  std::size_t i = 0;
  for (; whole_blocks(i, count, low_bits); i += kStep) {
    const auto v = hn::LoadU(d, bytes + i);
    const auto shifted = hn::ShiftRightSame(hn::BitCast(Pairs(), v), w);
    const auto high = hn::And(hn::BitCast(d, shifted), high_mask);
    most = hn::Max(most, high);
    if (kPaired)
      put_four_bits(high, above + i / 2);
    else
      hn::StoreU(high, d, above + i);
    if (low_bits == 0) continue;
    auto word = hn::BitCast(Words(), hn::And(v, low_mask));
    word = closer<8>(word, 0x00ff00ff00ff00ffULL, w);
    word = closer<16>(word, 0x0000ffff0000ffffULL, 2 * w);
    word = closer<32>(word, 0x00000000ffffffffULL, 4 * w);
    store_blocks(d, hn::TableLookupBytesOr0(hn::BitCast(d, word), order), low + i / 8 * low_bits,
                 2 * low_bits);
  }
  largest = largest_of(most);
  return i;
}

template <bool kPaired>
HWY_INLINE std::size_t join_by(const std::uint8_t* low, const std::uint8_t* above,
                               std::size_t count, unsigned low_bits, std::uint8_t* bytes,
                               std::uint8_t& largest) {
  const Octets d;
  const int w = static_cast<int>(low_bits);
  const auto order = hn::LoadDup128(d, opening(low_bits).bytes);
  const std::uint64_t m4 = (1ULL << (4 * low_bits)) - 1;
  const std::uint64_t m2 = ((1ULL << (2 * low_bits)) - 1) * 0x0000000100000001ULL;
  const std::uint64_t m1 = ((1ULL << low_bits) - 1) * 0x0001000100010001ULL;
  auto most = hn::Zero(d);
  std::size_t i = 0;
  for (; whole_blocks(i, count, low_bits); i += kStep) {
    const auto high = kPaired ? take_four_bits(above + i / 2) : hn::LoadU(d, above + i);
    most = hn::Max(most, high);
    auto v = hn::BitCast(d, hn::ShiftLeftSame(hn::BitCast(Pairs(), high), w));
    if (low_bits > 0) {
      const auto blocks = load_blocks(d, low + i / 8 * low_bits, 2 * low_bits);
      auto word = hn::BitCast(Words(), hn::TableLookupBytesOr0(blocks, order));
      word = apart<32>(word, m4, 4 * w);
      word = apart<16>(word, m2, 2 * w);
      v = hn::Or(v, hn::BitCast(d, apart<8>(word, m1, w)));
    }
    hn::StoreU(v, d, bytes + i);
  }
  largest = largest_of(most);
  return i;
}

// Both return how many were done, a multiple of 16, and set `largest` of these.
std::size_t split_run(const std::uint8_t* bytes, std::size_t count, Split cut, std::uint8_t* low,
                      std::uint8_t* above, std::uint8_t& largest) {
  return cut.paired ? split_by<true>(bytes, count, cut.low, low, above, largest)
                    : split_by<false>(bytes, count, cut.low, low, above, largest);
}
std::size_t join_run(const std::uint8_t* low, const std::uint8_t* above, std::size_t count,
                     Split cut, std::uint8_t* bytes, std::uint8_t& largest) {
  return cut.paired ? join_by<true>(low, above, count, cut.low, bytes, largest)
                    : join_by<false>(low, above, count, cut.low, bytes, largest);
}

#endif

}  // namespace laconic::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace laconic::kernels {
namespace {

HWY_EXPORT(split_run);
HWY_EXPORT(join_run);

constexpr std::size_t kPiece = 4096;  // bytes that nothing stands above, on the stack

// Bytes that up to eight fields take.
std::size_t bytes_of(std::size_t fields, unsigned width) { return (fields * width + 7) / 8; }

}  // namespace

std::uint8_t split_bytes(const std::uint8_t* bytes, std::size_t count, Split cut, std::uint8_t* low,
                         std::uint8_t* above) {
  std::uint8_t largest = 0;
  std::size_t i = HWY_DYNAMIC_DISPATCH(split_run)(bytes, count, cut, low, above, largest);
  for (; i < count; i += 8) {
    const std::size_t part = std::min<std::size_t>(8, count - i);
    std::uint64_t word = 0;
    if (cut.paired) std::memset(above + i / 2, 0, (part + 1) / 2);
    for (std::size_t j = 0; j < part; ++j) {
      const auto high = static_cast<std::uint8_t>(bytes[i + j] >> cut.low);
      largest = std::max(largest, high);
      word |= static_cast<std::uint64_t>(bytes[i + j] & ((1U << cut.low) - 1)) << (j * cut.low);
      if (cut.paired)
        above[(i + j) / 2] |= static_cast<std::uint8_t>((high & 15U) << (j % 2 * 4));
      else
        above[i + j] = high;
    }
    if (cut.low > 0) std::memcpy(low + i / 8 * cut.low, &word, bytes_of(part, cut.low));
  }
  return largest;
}

std::uint8_t join_bytes(const std::uint8_t* low, const std::uint8_t* above, std::size_t count,
                        Split cut, std::uint8_t* bytes) {
  std::uint8_t largest = 0;
  std::size_t i = HWY_DYNAMIC_DISPATCH(join_run)(low, above, count, cut, bytes, largest);
  for (; i < count; i += 8) {
    const std::size_t part = std::min<std::size_t>(8, count - i);
    std::uint64_t word = 0;
    if (cut.low > 0) std::memcpy(&word, low + i / 8 * cut.low, bytes_of(part, cut.low));
    for (std::size_t j = 0; j < part; ++j) {
      const auto high = static_cast<std::uint8_t>(
          cut.paired ? above[(i + j) / 2] >> (j % 2 * 4) & 15 : above[i + j]);
      largest = std::max(largest, high);
      bytes[i + j] = static_cast<std::uint8_t>(high << cut.low |
                                               (word >> (j * cut.low) & ((1U << cut.low) - 1)));
    }
  }
  return largest;
}

void close_bits(const std::uint8_t* bytes, std::size_t count, unsigned width,
                std::uint8_t* packed) {
  std::uint8_t nothing[kPiece];
  for (std::size_t at = 0; at < count; at += kPiece)
    split_bytes(bytes + at, std::min(kPiece, count - at), {.low = width}, packed + at / 8 * width,
                nothing);
}

void open_bits(const std::uint8_t* packed, std::size_t count, unsigned width, std::uint8_t* bytes) {
  static constexpr std::uint8_t kNothing[kPiece] = {};
  for (std::size_t at = 0; at < count; at += kPiece)
    join_bytes(packed + at / 8 * width, kNothing, std::min(kPiece, count - at), {.low = width},
               bytes + at);
}

}  // namespace laconic::kernels
#endif  // HWY_ONCE

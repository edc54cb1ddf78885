// Symbols of one width, packed without gaps: symbol i stands at bit i * width of a bit stream
// (codecs/bits.h).
#pragma once

#include <algorithm>
#include <cstring>

#include "laconic/codecs/bits.h"

namespace laconic {

// Bytes that `count` symbols of `width` bits take.
constexpr std::size_t packed_size(unsigned width, std::size_t count) {
  return count / 8 * width + (count % 8 * width + 7) / 8;
}

// Whether the bits after the last symbol are 0, as writers leave them.
inline bool padding_is_zero(ByteView packed, unsigned width, std::size_t count) {
  const unsigned used = static_cast<unsigned>(count % 8 * width % 8);
  return used == 0 || packed.back() >> used == 0;
}

inline void pack(std::span<const std::uint32_t> symbols, unsigned width, Buffer& out) {
  out.reserve(out.size() + packed_size(width, symbols.size()));
  BitWriter bits(out);
  for (const std::uint32_t symbol : symbols) bits.put(symbol, width);
  bits.finish();
}

// Throws DataError unless `packed` is exactly what `symbols.size()` symbols take.
inline void unpack(ByteView packed, unsigned width, std::span<std::uint32_t> symbols) {
  BitReader bits(packed);
  for (std::uint32_t& symbol : symbols) symbol = static_cast<std::uint32_t>(bits.get(width));
  bits.expect_end();
}

// Eight symbols of `width` (1 to 8) bits, a byte each in a word, next to each other, and back:
// halves of 16, 32 and 64 bits are closed up, or opened, in turn.
constexpr std::uint64_t closed_up(std::uint64_t word, unsigned width) {
  constexpr std::uint64_t k16 = 0x00ff00ff00ff00ffULL, k32 = 0x0000ffff0000ffffULL;
  word = (word & k16) | (word >> 8 & k16) << width;
  word = (word & k32) | (word >> 16 & k32) << (2 * width);
  return (word & 0xffffffffU) | (word >> 32) << (4 * width);
}
constexpr std::uint64_t opened(std::uint64_t word, unsigned width) {
  const std::uint64_t m4 = (1ULL << (4 * width)) - 1;
  const std::uint64_t m2 = ((1ULL << (2 * width)) - 1) * 0x0000000100000001ULL;
  const std::uint64_t m1 = ((1ULL << width) - 1) * 0x0001000100010001ULL;
  word = (word & m4) | (word >> (4 * width) & m4) << 32;
  word = (word & m2) | (word >> (2 * width) & m2) << 16;
  return (word & m1) | (word >> width & m1) << 8;
}

// out[i] = two neighbours of `width` bits, and back. Compilers make vector code of these loops.
inline void join_pairs(const std::uint8_t* __restrict in, std::size_t pairs, unsigned width,
                       std::uint8_t* __restrict out) {
  for (std::size_t i = 0; i < pairs; ++i)
    out[i] = static_cast<std::uint8_t>(in[2 * i] | in[2 * i + 1] << width);
}
inline void part_pairs(const std::uint8_t* __restrict in, std::size_t pairs, unsigned width,
                       std::uint8_t* __restrict out) {
  const auto mask = static_cast<std::uint8_t>((1U << width) - 1);
  for (std::size_t i = 0; i < pairs; ++i) {
    out[2 * i] = in[i] & mask;
    out[2 * i + 1] = static_cast<std::uint8_t>(in[i] >> width);
  }
}

// Symbols of 1 to 8 bits held a byte each, packed and unpacked: eight of them fill `width` bytes.
// `packed` has packed_size(width, count) bytes; symbols fit their width.
inline void pack_bytes(const std::uint8_t* symbols, std::size_t count, unsigned width,
                       std::uint8_t* packed) {
  constexpr std::size_t kPiece = 1024;
  std::size_t i = 0;
  if (width == 8) return void(std::memcpy(packed, symbols, count));
  if (width == 4) {
    i = count / 8 * 8;
    join_pairs(symbols, i / 2, 4, packed);
  } else if (width <= 2) {  // 2 bits twice, 1 bit three times
    std::uint8_t fours[kPiece / 2], twos[kPiece / 2];
    for (; i + 8 <= count;) {
      const std::size_t part = std::min(kPiece, (count - i) / 8 * 8);
      if (width == 1) join_pairs(symbols + i, part / 2, 1, twos);
      join_pairs(width == 1 ? twos : symbols + i, part * width / 4, 2, fours);
      join_pairs(fours, part * width / 8, 4, packed + i / 8 * width);
      i += part;
    }
  } else {
    const std::size_t size = packed_size(width, count);
    for (; i + 8 <= count && i / 8 * width + 8 <= size; i += 8)
      store(packed + i / 8 * width, closed_up(load<std::uint64_t>(symbols + i), width));
  }
  for (; i < count; i += 8) {
    const std::size_t part = std::min<std::size_t>(8, count - i);
    std::uint64_t word = 0;
    std::memcpy(&word, symbols + i, part);
    word = closed_up(word, width);
    std::memcpy(packed + i / 8 * width, &word, packed_size(width, part));
  }
}
inline void unpack_bytes(const std::uint8_t* packed, std::size_t count, unsigned width,
                         std::uint8_t* symbols) {
  constexpr std::size_t kPiece = 1024;
  std::size_t i = 0;
  if (width == 8) return void(std::memcpy(symbols, packed, count));
  if (width == 4) {
    i = count / 8 * 8;
    part_pairs(packed, i / 2, 4, symbols);
  } else if (width <= 2) {
    std::uint8_t fours[kPiece / 2], twos[kPiece / 2];
    for (; i + 8 <= count;) {
      const std::size_t part = std::min(kPiece, (count - i) / 8 * 8);
      part_pairs(packed + i / 8 * width, part * width / 8, 4, fours);
      part_pairs(fours, part * width / 4, 2, width == 1 ? twos : symbols + i);
      if (width == 1) part_pairs(twos, part / 2, 1, symbols + i);
      i += part;
    }
  } else {
    const std::size_t size = packed_size(width, count);
    for (; i + 8 <= count && i / 8 * width + 8 <= size; i += 8)
      store(symbols + i, opened(load<std::uint64_t>(packed + i / 8 * width), width));
  }
  for (; i < count; i += 8) {
    const std::size_t part = std::min<std::size_t>(8, count - i);
    std::uint64_t word = 0;
    std::memcpy(&word, packed + i / 8 * width, packed_size(width, part));
    word = opened(word, width);
    std::memcpy(symbols + i, &word, part);
  }
}

}  // namespace laconic

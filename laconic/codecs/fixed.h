// Symbols of one width, packed without gaps: symbol i stands at bit i * width of a bit stream
// (codecs/bits.h).
#pragma once

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

// Symbols of 1 to 8 bits held a byte each, packed and unpacked: eight of them fill `width` bytes.
// `packed` has packed_size(width, count) bytes; symbols fit their width.
inline void pack_bytes(const std::uint8_t* symbols, std::size_t count, unsigned width,
                       std::uint8_t* packed) {
  for (std::size_t i = 0; i < count; i += 8) {
    const std::size_t part = std::min<std::size_t>(8, count - i);
    std::uint64_t word = 0;
    for (std::size_t j = 0; j < part; ++j)
      word |= static_cast<std::uint64_t>(symbols[i + j]) << (j * width);
    const std::size_t bytes = packed_size(width, part);
    for (std::size_t j = 0; j < bytes; ++j) *packed++ = static_cast<std::uint8_t>(word >> (8 * j));
  }
}
inline void unpack_bytes(const std::uint8_t* packed, std::size_t count, unsigned width,
                         std::uint8_t* symbols) {
  const std::uint64_t mask = (1U << width) - 1;
  for (std::size_t i = 0; i < count; i += 8) {
    const std::size_t part = std::min<std::size_t>(8, count - i);
    const std::size_t bytes = packed_size(width, part);
    std::uint64_t word = 0;
    for (std::size_t j = 0; j < bytes; ++j)
      word |= static_cast<std::uint64_t>(*packed++) << (8 * j);
    for (std::size_t j = 0; j < part; ++j)
      symbols[i + j] = static_cast<std::uint8_t>(word >> (j * width) & mask);
  }
}

}  // namespace laconic

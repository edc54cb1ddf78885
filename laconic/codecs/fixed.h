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

}  // namespace laconic

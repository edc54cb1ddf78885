// What writing and reading Huffman codes have in common: their limits, how codes are numbered, and
// logarithms to guess sizes by.
#pragma once

#include <algorithm>
#include <array>
#include <bit>

#include "laconic/codecs/bits.h"
#include "laconic/codecs/huffman.h"

namespace laconic::huffman {

inline constexpr unsigned kMostBits = 11;
inline constexpr std::size_t kSymbols = 256, kStreams = 4;

// How many codes there are of each length.
using Numbers = std::array<std::uint32_t, kMostBits + 1>;

// The first code of each length: codes are numbered by length, then by symbol.
inline Numbers first_codes(const Numbers& of_length) {
  Numbers first{};
  for (unsigned bits = 2; bits <= kMostBits; ++bits)
    first[bits] = (first[bits - 1] + of_length[bits - 1]) << 1;
  return first;
}

inline std::size_t per_stream(std::size_t count) { return (count + kStreams - 1) / kStreams; }

// Symbols of stream k.
template <class Byte>
std::span<Byte> part_of(std::span<Byte> symbols, std::size_t k) {
  const std::size_t each = per_stream(symbols.size());
  const std::size_t from = std::min(symbols.size(), k * each);
  return symbols.subspan(from, std::min(each, symbols.size() - from));
}

// About log2(number) in parts of 2^16, and what is to be added for a bound above, or taken away for
// one below: within -0.0053 and 0.0098 of it, by a parabola between powers of two.
inline constexpr std::uint64_t kLogAbove = 650, kLogBelow = 350;
constexpr std::uint64_t about_log2(std::uint32_t number) {
  const auto whole = static_cast<unsigned>(std::bit_width(number)) - 1;
  const std::uint64_t part = (std::uint64_t{number} << 16 >> whole) - 65536;
  return (std::uint64_t{whole} << 16) + part + (part * (65536 - part) >> 16) / 3;
}

}  // namespace laconic::huffman

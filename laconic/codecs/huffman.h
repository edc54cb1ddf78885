// Canonical Huffman codes of bytes, of at most 11 bits, in four streams that are decoded side by
// side.
//
// The coded form of n symbols, in order: the lowest symbol there is, the highest, a byte each. If
// they are the same, nothing follows. Else, for each symbol from the lowest to the highest, four
// bits, lowest first: its code's length, 1 to 11, or 0 and then, in four bits, how many symbols
// without a code follow this one; filled with 0 to a byte. Then the lengths of the first three
// streams, varints, and the four streams: symbols q k to q (k + 1) - 1 are in stream k, with q =
// ceil(n / 4), each as a stream of bits (codecs/bits.h) in which codes stand highest bit first.
// Codes are numbered as in RFC 1951: by length, then by symbol, and use up all of the code space.
#pragma once

#include <array>
#include <span>

#include "laconic/base/bytes.h"

namespace laconic {

// Codes for symbols that occur so often.
struct HuffmanCode {
  std::array<std::uint8_t, 256> lengths{};  // of codes; 0: the symbol has none
  std::array<std::uint8_t, 256> symbols{};  // that occur, ascending: `distinct` of them
  std::size_t distinct = 0;
  std::uint64_t counted = 0, bits = 0;  // of all symbols that were counted: how many; their codes
  std::uint64_t size = 0;               // about the bytes of their coded form
};
HuffmanCode huffman_code(std::span<const std::uint32_t, 256> counts);

// Bytes that huffman_encode may write while it works, for up to 2^22 symbols, the most it takes.
constexpr std::size_t huffman_room(std::size_t count) { return count + count / 2 + 400; }

// Writes the coded form of `symbols` if it is shorter than they are, and returns its size; else 0.
// Which form is written depends on the symbols alone. Codes for many symbols are made from the
// counts of a quarter of them; for fewer than kHuffmanCounted they are those of all, which a caller
// who has counted them gives as `known`.
inline constexpr std::size_t kHuffmanCounted = 65536;
std::size_t huffman_encode(ByteView symbols, std::uint8_t* to, const HuffmanCode* known = nullptr);

// Adds to counts[b] how often byte b occurs.
void count_bytes(ByteView bytes, std::span<std::uint32_t, 256> counts);

// Fills `symbols` from their coded form, all of `coded`. Throws DataError when it is anything else.
void huffman_decode(ByteView coded, std::span<std::uint8_t> symbols);

}  // namespace laconic

// One chunk of bytes in Huffman codes: of the bytes, or of what is above a few low bits that are
// next to random and would only make codes longer. A code of fewer bits is read faster, several at
// a time.
//
// The coded form of n bytes: a byte f, then
//   0        their Huffman codes (codecs/huffman.h);
//   1 to 7   the f lowest bits of each, packed (codecs/fixed.h), then the Huffman codes of what is
//            above them, n symbols;
//   8 to 15  the same with f - 8 low bits where nothing above is beyond 15, two symbols to a byte
//            as in a packed plane of 4 bits: Huffman codes of ceil(n / 2) bytes.
#pragma once

#include "laconic/codecs/huffman.h"

namespace laconic {

// Bytes that encode_chunk may write to `to` while it works.
constexpr std::size_t chunk_room(std::size_t count) { return 1 + count + huffman_room(count); }

// Writes the coded form of `bytes` if it is shorter than they are, and returns its size; else 0.
// Low bits stay as they are where that costs about a hundredth at most. `known`, if given, is the
// code for these bytes, or for as many others. `above` has room for as many bytes as there are.
std::size_t encode_chunk(ByteView bytes, std::uint8_t* to, std::uint8_t* above,
                         const HuffmanCode* known = nullptr);

// Fills `bytes` from their coded form, all of `coded`. Throws DataError when it is anything else.
void decode_chunk(ByteView coded, std::span<std::uint8_t> bytes, std::uint8_t* above);

}  // namespace laconic

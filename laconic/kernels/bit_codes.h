// Codes of bytes, one after the other in streams of bits: the loop under Huffman codes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "laconic/base/bytes.h"

namespace laconic::kernels {

// What is put into a stream for each byte: the code, its first bit lowest, times 16, and its
// length, 0 to 11.
using BitCodes = std::array<std::uint16_t, 256>;

// A stream that is being written: whole bytes as they come, fewer than 8 bits wait in `word`. Up to
// 8 bytes from `to` on are overwritten at any time.
struct BitStream {
  std::uint8_t* to = nullptr;
  std::uint64_t word = 0;
  unsigned used = 0;

  // Appends `length` bits, at most 56.
  void put(std::uint64_t bits, unsigned length) {
    word |= bits << used;
    used += length;
    store(to, word);
    to += used / 8;
    word >>= used / 8 * 8;
    used %= 8;
  }
};

// Appends the codes of `count` symbols to each of two streams, which wait for their own last word
// alone.
void put_codes(const std::uint8_t* first, const std::uint8_t* second, std::size_t count,
               const BitCodes& codes, BitStream& a, BitStream& b);

}  // namespace laconic::kernels

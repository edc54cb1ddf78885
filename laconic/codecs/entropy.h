// Entropy coding of byte arrays: Huffman codes (codecs/huffman.h), chunk by chunk. No search for
// repetitions, which gains nothing on gradient symbols.
#pragma once

#include <vector>

#include "laconic/base/buffer.h"
#include "laconic/base/pool.h"

namespace laconic {

// Holds working memory, so that steady state allocates nothing.
//
// The coded form, in order: for each chunk of up to 262144 bytes, varint m and then m bytes. If m
// equals the chunk's length they are the chunk itself, else m is smaller and they are its Huffman
// codes.
class Entropy {
 public:
  // Bounds on the coded form of `count` bytes.
  static std::size_t min_size(std::size_t count);
  static std::size_t max_size(std::size_t count);
  void encode(ByteView bytes, Buffer& out, Pool& pool);

  // Reads the coded form of `bytes.size()` bytes off the front of `coded` and returns what is left
  // of it. Throws DataError when it is anything else.
  ByteView decode(ByteView coded, std::span<std::uint8_t> bytes, Pool& pool);

 private:
  std::vector<std::size_t> sizes_;
  std::vector<ByteView> coded_;
  Buffer staging_;
};

}  // namespace laconic

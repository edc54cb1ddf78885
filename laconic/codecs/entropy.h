// Entropy coding of byte arrays by zstd's literal (Huffman) mode: no match search, which gains
// nothing on gradient symbols and costs most of zstd's time.
#pragma once

#include <memory>

#include "laconic/base/buffer.h"
#include "laconic/base/pool.h"

namespace laconic {

// Holds zstd's contexts, one pair per thread, so that steady state allocates nothing.
//
// The coded form, in order: for each chunk of up to 262144 bytes, varint n and then n bytes. If n
// equals the chunk's length they are the chunk itself, else n is smaller and they are one zstd
// frame of it.
class Entropy {
 public:
  Entropy();
  ~Entropy();

  // Bounds on the coded form of `count` bytes.
  static std::size_t min_size(std::size_t count);
  static std::size_t max_size(std::size_t count);
  void encode(ByteView bytes, Buffer& out, Pool& pool);

  // Reads the coded form of `bytes.size()` bytes off the front of `coded` and returns what is left
  // of it. Throws DataError when it is anything else.
  ByteView decode(ByteView coded, std::span<std::uint8_t> bytes, Pool& pool);

 private:
  struct Contexts;
  std::unique_ptr<Contexts> contexts_;
};

}  // namespace laconic

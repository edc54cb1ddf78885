// Entropy coding of byte arrays: Huffman codes (codecs/huffman.h), chunk by chunk. No search for
// repetitions, which gains nothing on gradient symbols.
#pragma once

#include <algorithm>
#include <vector>

#include "laconic/base/buffer.h"
#include "laconic/base/pool.h"
#include "laconic/codecs/huffman.h"

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

  // The same for bytes that are made chunk by chunk, while they are in the cache:
  // make(from, bytes) fills those from `from` on, a multiple of kChunk. Threads make distinct
  // chunks. `known`, if given, is the code for all `count` bytes, fewer than kHuffmanCounted.
  template <class Make>
  void encode_made(std::size_t count, Make make, Buffer& out, Pool& pool,
                   const HuffmanCode* known = nullptr) {
    const auto room = made_.reset(waves(pool) * kChunk);
    encode_chunks(
        count,
        [&](std::size_t chunk, std::size_t slot) {
          const auto bytes = room.subspan(slot * kChunk, size_of(chunk, count));
          make(chunk * kChunk, bytes);
          return ByteView(bytes);
        },
        known, out, pool);
  }

  // Reads the coded form of `bytes.size()` bytes off the front of `coded` and returns what is left
  // of it. Throws DataError when it is anything else.
  ByteView decode(ByteView coded, std::span<std::uint8_t> bytes, Pool& pool);

  // The same for bytes that are used chunk by chunk: use(from, bytes).
  template <class Use>
  ByteView decode_used(ByteView coded, std::size_t count, Use use, Pool& pool) {
    coded = split(coded, count);
    const auto room = made_.reset(pool.threads() * kChunk);
    pool.each(coded_.size(), [&](std::size_t chunk, unsigned thread) {
      const auto bytes = room.subspan(thread * kChunk, size_of(chunk, count));
      decode_chunk(coded_[chunk], bytes);
      use(chunk * kChunk, ByteView(bytes));
    });
    return coded;
  }

  static constexpr std::size_t kChunk = 262144;

 private:
  static std::size_t size_of(std::size_t chunk, std::size_t count) {
    return std::min(kChunk, count - chunk * kChunk);
  }
  // Chunks that are encoded before any of them is appended.
  static std::size_t waves(const Pool& pool) {
    return pool.threads() == 1 ? 1 : 4 * std::size_t{pool.threads()};
  }

  // get(chunk, slot) returns a chunk's bytes; slots of a wave are distinct.
  template <class Get>
  void encode_chunks(std::size_t count, Get get, const HuffmanCode* known, Buffer& out,
                     Pool& pool) {
    const std::size_t chunks = (count + kChunk - 1) / kChunk, wave = waves(pool);
    begin_waves(wave);
    for (std::size_t first = 0; first < chunks; first += wave) {
      const std::size_t slots = std::min(wave, chunks - first);
      pool.each(slots, [&](std::size_t slot, unsigned) {
        raw_[slot] = get(first + slot, slot);
        encode_slot(slot, known);
      });
      for (std::size_t slot = 0; slot < slots; ++slot) append_slot(slot, out);
    }
  }
  void begin_waves(std::size_t slots);
  void encode_slot(std::size_t slot, const HuffmanCode* known);
  void append_slot(std::size_t slot, Buffer& out) const;
  // Makes coded_ the chunks of `count` bytes, and returns what follows.
  ByteView split(ByteView coded, std::size_t count);
  static void decode_chunk(ByteView coded, std::span<std::uint8_t> bytes);

  std::vector<std::size_t> sizes_;
  std::vector<ByteView> raw_, coded_;
  Buffer staging_, made_;
};

}  // namespace laconic

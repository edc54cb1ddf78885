// Entropy coding of byte arrays: Huffman codes, chunk by chunk (codecs/chunk.h). No search for
// repetitions, which gains nothing on gradient symbols.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "laconic/base/buffer.h"
#include "laconic/base/pool.h"
#include "laconic/codecs/huffman.h"

namespace laconic {

// Holds working memory, so that steady state allocates nothing.
//
// The coded form, in order: for each chunk of up to 262144 bytes, varint m and then m bytes. If m
// equals the chunk's length they are the chunk itself, else m is smaller and they are its coded
// form. Symbols of 2 or 4 bytes have as many lanes: for each chunk of up to 262144 symbols their
// lowest bytes, then their second ones and so on, each as a chunk of bytes.
class Entropy {
 public:
  static constexpr std::size_t kMostLanes = 4;
  using Lanes = std::array<std::uint8_t*, kMostLanes>;
  using LaneViews = std::array<const std::uint8_t*, kMostLanes>;

  // Bounds on the coded form of `count` symbols.
  static std::size_t min_size(std::size_t count, std::size_t lanes = 1);
  static std::size_t max_size(std::size_t count, std::size_t lanes = 1);
  void encode(ByteView bytes, Buffer& out, Pool& pool);

  // The same for bytes that are made chunk by chunk, while they are in the cache:
  // make(from, bytes) fills those from `from` on, a multiple of kChunk. Threads make distinct
  // chunks. `known`, if given, is the code for all `count` bytes, fewer than kHuffmanCounted.
  template <class Make>
  void encode_made(std::size_t count, Make make, Buffer& out, Pool& pool,
                   const HuffmanCode* known = nullptr) {
    const auto room = made_.reset(waves(pool) * kChunk);
    encode_chunks(
        count, 1,
        [&](std::size_t from, std::size_t slot) {
          const auto bytes = room.subspan(slot * kChunk, std::min(kChunk, count - from));
          make(from, bytes);
          raw_[slot] = bytes;
        },
        known, out, pool);
  }

  // The same for symbols of several bytes: make(from, number, lanes) fills the lanes of `number`.
  template <class Make>
  void encode_lanes(std::size_t count, std::size_t lanes, Make make, Buffer& out, Pool& pool) {
    const auto room = made_.reset(waves(pool) * lanes * kLaneChunk);
    encode_chunks(
        count, lanes,
        [&](std::size_t from, std::size_t slot) {
          const std::size_t number = std::min(kLaneChunk, count - from);
          Lanes to{};
          for (std::size_t lane = 0; lane < lanes; ++lane) {
            to[lane] = room.data() + (slot * lanes + lane) * kLaneChunk;
            raw_[slot * lanes + lane] = {to[lane], number};
          }
          make(from, number, to);
        },
        nullptr, out, pool);
  }

  // Reads the coded form of `bytes.size()` bytes off the front of `coded` and returns what is left
  // of it. Throws DataError when it is anything else.
  ByteView decode(ByteView coded, std::span<std::uint8_t> bytes, Pool& pool);

  // The same for bytes that are used chunk by chunk: use(from, bytes).
  template <class Use>
  ByteView decode_used(ByteView coded, std::size_t count, Use use, Pool& pool) {
    coded = split(coded, count, 1, pool);
    const auto room = made_.reset(pool.threads() * kChunk);
    pool.each(coded_.size(), [&](std::size_t chunk, unsigned thread) {
      const std::size_t from = chunk * kChunk, number = std::min(kChunk, count - from);
      const std::uint8_t* bytes = bytes_of(chunk, number, room.data() + thread * kChunk, thread);
      use(from, ByteView(bytes, number));
    });
    return coded;
  }

  // The same for symbols of several bytes: use(from, number, lanes).
  template <class Use>
  ByteView decode_lanes(ByteView coded, std::size_t count, std::size_t lanes, Use use, Pool& pool) {
    coded = split(coded, count, lanes, pool);
    const auto room = made_.reset(pool.threads() * lanes * kLaneChunk);
    pool.each(coded_.size() / lanes, [&](std::size_t chunk, unsigned thread) {
      const std::size_t from = chunk * kLaneChunk, number = std::min(kLaneChunk, count - from);
      LaneViews views{};
      for (std::size_t lane = 0; lane < lanes; ++lane)
        views[lane] = bytes_of(chunk * lanes + lane, number,
                               room.data() + (thread * lanes + lane) * kLaneChunk, thread);
      use(from, number, views);
    });
    return coded;
  }

  static constexpr std::size_t kChunk = 262144, kLaneChunk = kChunk;

 private:
  static constexpr std::size_t symbols_of_chunk(std::size_t lanes) {
    return lanes == 1 ? kChunk : kLaneChunk;
  }
  // Chunks that are encoded before any of them is appended.
  static std::size_t waves(const Pool& pool) {
    return pool.threads() == 1 ? 1 : 4 * std::size_t{pool.threads()};
  }

  // get(from, slot) sets raw_ of a slot's lanes; slots of a wave are distinct.
  template <class Get>
  void encode_chunks(std::size_t count, std::size_t lanes, Get get, const HuffmanCode* known,
                     Buffer& out, Pool& pool) {
    const std::size_t each = symbols_of_chunk(lanes), wave = waves(pool);
    const std::size_t chunks = (count + each - 1) / each;
    begin_waves(wave * lanes);
    for (std::size_t first = 0; first < chunks; first += wave) {
      const std::size_t slots = std::min(wave, chunks - first);
      pool.each(slots, [&](std::size_t slot, unsigned) {
        get((first + slot) * each, slot);
        for (std::size_t lane = 0; lane < lanes; ++lane) encode_slot(slot * lanes + lane, known);
      });
      for (std::size_t slot = 0; slot < slots * lanes; ++slot) append_slot(slot, out);
    }
  }
  void begin_waves(std::size_t slots);
  void encode_slot(std::size_t slot, const HuffmanCode* known);
  void append_slot(std::size_t slot, Buffer& out) const;
  // Makes coded_ the chunks of `count` symbols, and returns what follows.
  ByteView split(ByteView coded, std::size_t count, std::size_t lanes, const Pool& pool);
  // The bytes of coded_[chunk]: there, if they are not coded, else in `room`.
  const std::uint8_t* bytes_of(std::size_t chunk, std::size_t number, std::uint8_t* room,
                               unsigned thread);

  std::vector<std::size_t> sizes_;
  std::vector<ByteView> raw_, coded_;
  Buffer staging_, above_, made_;
};

}  // namespace laconic

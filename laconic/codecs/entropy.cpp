// The entropy codec: coded chunks, each kept as it is where coding would not shrink it.
#include "laconic/codecs/entropy.h"

#include "laconic/base/errors.h"
#include "laconic/codecs/chunk.h"
#include "laconic/codecs/varint.h"

namespace laconic {
namespace {

constexpr std::size_t kRoom = chunk_room(Entropy::kChunk);

}  // namespace

// A chunk takes its length and at least one byte.
std::size_t Entropy::min_size(std::size_t count, std::size_t lanes) {
  const std::size_t each = symbols_of_chunk(lanes);
  return 2 * lanes * (count / each + (count % each ? 1 : 0));
}

std::size_t Entropy::max_size(std::size_t count, std::size_t lanes) {
  const std::size_t each = symbols_of_chunk(lanes);
  return lanes * (count + (count / each + (count % each ? 1 : 0)) * varint_size(each));
}

void Entropy::begin_waves(std::size_t slots) {
  sizes_.resize(slots);
  raw_.resize(slots);
  staging_.reset(slots * kRoom);
  above_.reset(slots * kChunk);
}

void Entropy::encode_slot(std::size_t slot, const HuffmanCode* known) {
  sizes_[slot] = encode_chunk(raw_[slot], staging_.data() + slot * kRoom,
                              above_.data() + slot * kChunk, known);
}

void Entropy::append_slot(std::size_t slot, Buffer& out) const {
  const ByteView raw = raw_[slot], coded = staging_.view(slot * kRoom).first(sizes_[slot]);
  put_varint(coded.empty() ? raw.size() : coded.size(), out);
  out.append(coded.empty() ? raw : coded);
}

void Entropy::encode(ByteView bytes, Buffer& out, Pool& pool) {
  encode_chunks(
      bytes.size(), 1,
      [&](std::size_t from, std::size_t slot) {
        raw_[slot] = bytes.subspan(from, std::min(kChunk, bytes.size() - from));
      },
      nullptr, out, pool);
}

ByteView Entropy::split(ByteView coded, std::size_t count, std::size_t lanes, const Pool& pool) {
  above_.reset(pool.threads() * kChunk);
  ByteReader in(coded);
  coded_.clear();
  const std::size_t each = symbols_of_chunk(lanes);
  for (std::size_t from = 0; from < count; from += each) {
    const std::size_t raw = std::min(each, count - from);
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      const std::uint64_t size = in.varint("an entropy-coded chunk's length");
      if (size > raw)
        throw DataError("an entropy-coded chunk of " + std::to_string(raw) + " symbols claims " +
                        std::to_string(size) + " bytes");
      coded_.push_back(in.take(size, "an entropy-coded chunk"));
    }
  }
  return in.rest();
}

const std::uint8_t* Entropy::bytes_of(std::size_t chunk, std::size_t number, std::uint8_t* room,
                                      unsigned thread) {
  const ByteView coded = coded_[chunk];
  if (coded.size() == number) return coded.data();
  decode_chunk(coded, {room, number}, above_.data() + thread * kChunk);
  return room;
}

ByteView Entropy::decode(ByteView coded, std::span<std::uint8_t> bytes, Pool& pool) {
  const ByteView rest = split(coded, bytes.size(), 1, pool);
  pool.each(coded_.size(), [&](std::size_t chunk, unsigned thread) {
    const std::size_t from = chunk * kChunk, number = std::min(kChunk, bytes.size() - from);
    std::uint8_t* const to = bytes.data() + from;
    const std::uint8_t* at = bytes_of(chunk, number, to, thread);
    if (at != to) std::memcpy(to, at, number);
  });
  return rest;
}

}  // namespace laconic

// The entropy codec: chunks in Huffman codes, each kept raw where coding would not shrink it.
#include "laconic/codecs/entropy.h"

#include "laconic/base/errors.h"
#include "laconic/codecs/varint.h"

namespace laconic {
namespace {

constexpr std::size_t kRoom = huffman_room(Entropy::kChunk);

std::size_t chunks_of(std::size_t count) { return (count + Entropy::kChunk - 1) / Entropy::kChunk; }

}  // namespace

// A chunk takes its length and at least one byte.
std::size_t Entropy::min_size(std::size_t count) {
  return 2 * (count / kChunk) + (count % kChunk ? 2 : 0);
}

std::size_t Entropy::max_size(std::size_t count) {
  return count + chunks_of(count) * varint_size(kChunk);
}

void Entropy::begin_waves(std::size_t slots) {
  sizes_.resize(slots);
  raw_.resize(slots);
  staging_.reset(slots * kRoom);
}

void Entropy::encode_slot(std::size_t slot, const HuffmanCode* known) {
  sizes_[slot] = huffman_encode(raw_[slot], staging_.data() + slot * kRoom, known);
}

void Entropy::append_slot(std::size_t slot, Buffer& out) const {
  const ByteView raw = raw_[slot], coded = staging_.view(slot * kRoom).first(sizes_[slot]);
  put_varint(coded.empty() ? raw.size() : coded.size(), out);
  out.append(coded.empty() ? raw : coded);
}

void Entropy::encode(ByteView bytes, Buffer& out, Pool& pool) {
  encode_chunks(
      bytes.size(),
      [&](std::size_t chunk, std::size_t) {
        return bytes.subspan(chunk * kChunk, size_of(chunk, bytes.size()));
      },
      nullptr, out, pool);
}

ByteView Entropy::split(ByteView coded, std::size_t count) {
  ByteReader in(coded);
  coded_.clear();
  for (std::size_t chunk = 0; chunk < chunks_of(count); ++chunk) {
    const std::size_t raw = size_of(chunk, count);
    const std::uint64_t size = in.varint("an entropy-coded chunk's length");
    if (size > raw)
      throw DataError("an entropy-coded chunk of " + std::to_string(raw) + " symbols claims " +
                      std::to_string(size) + " bytes");
    coded_.push_back(in.take(size, "an entropy-coded chunk"));
  }
  return in.rest();
}

void Entropy::decode_chunk(ByteView coded, std::span<std::uint8_t> bytes) {
  if (coded.size() == bytes.size())
    std::memcpy(bytes.data(), coded.data(), bytes.size());
  else
    huffman_decode(coded, bytes);
}

ByteView Entropy::decode(ByteView coded, std::span<std::uint8_t> bytes, Pool& pool) {
  const ByteView rest = split(coded, bytes.size());
  pool.each(coded_.size(), [&](std::size_t chunk, unsigned) {
    decode_chunk(coded_[chunk], bytes.subspan(chunk * kChunk, size_of(chunk, bytes.size())));
  });
  return rest;
}

}  // namespace laconic

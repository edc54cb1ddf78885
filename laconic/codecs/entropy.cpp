// The entropy codec: chunks in Huffman codes, each kept raw where coding would not shrink it.
#include "laconic/codecs/entropy.h"

#include "laconic/base/errors.h"
#include "laconic/codecs/huffman.h"
#include "laconic/codecs/varint.h"

namespace laconic {
namespace {

constexpr std::size_t kChunk = 262144;

std::size_t chunks_of(std::size_t count) { return (count + kChunk - 1) / kChunk; }

template <class Byte>
std::span<Byte> chunk_of(std::span<Byte> bytes, std::size_t chunk) {
  return bytes.subspan(chunk * kChunk, std::min(kChunk, bytes.size() - chunk * kChunk));
}

}  // namespace

// A chunk takes its length and at least one byte.
std::size_t Entropy::min_size(std::size_t count) {
  return 2 * (count / kChunk) + (count % kChunk ? 2 : 0);
}

std::size_t Entropy::max_size(std::size_t count) {
  return count + chunks_of(count) * varint_size(kChunk);
}

void Entropy::encode(ByteView bytes, Buffer& out, Pool& pool) {
  constexpr std::size_t kRoom = huffman_room(kChunk);
  sizes_.resize(chunks_of(bytes.size()));
  const auto staging = staging_.reset(sizes_.size() * kRoom);
  pool.each(sizes_.size(), [&](std::size_t chunk, unsigned) {
    sizes_[chunk] = huffman_encode(chunk_of(bytes, chunk), staging.data() + chunk * kRoom);
  });
  for (std::size_t chunk = 0; chunk < sizes_.size(); ++chunk) {
    const ByteView raw = chunk_of(bytes, chunk),
                   coded(staging.data() + chunk * kRoom, sizes_[chunk]);
    put_varint(coded.empty() ? raw.size() : coded.size(), out);
    out.append(coded.empty() ? raw : coded);
  }
}

ByteView Entropy::decode(ByteView coded, std::span<std::uint8_t> bytes, Pool& pool) {
  ByteReader in(coded);
  coded_.clear();
  for (std::size_t chunk = 0; chunk < chunks_of(bytes.size()); ++chunk) {
    const std::size_t raw = chunk_of(bytes, chunk).size();
    const std::uint64_t size = in.varint("an entropy-coded chunk's length");
    if (size > raw)
      throw DataError("an entropy-coded chunk of " + std::to_string(raw) + " symbols claims " +
                      std::to_string(size) + " bytes");
    coded_.push_back(in.take(size, "an entropy-coded chunk"));
  }
  pool.each(coded_.size(), [&](std::size_t chunk, unsigned) {
    const auto to = chunk_of(bytes, chunk);
    if (coded_[chunk].size() == to.size())
      std::memcpy(to.data(), coded_[chunk].data(), to.size());
    else
      huffman_decode(coded_[chunk], to);
  });
  return in.rest();
}

}  // namespace laconic

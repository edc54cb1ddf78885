// fano: low bits of each position packed, high parts as ones in a bit array (Elias-Fano).
#include "laconic/codecs/fixed.h"
#include "laconic/codecs/ones.h"
#include "laconic/codecs/positions.h"
#include "laconic/codecs/varint.h"

namespace laconic {
namespace {

unsigned low_width(std::size_t kept, const IndexSpace& space) {
  return static_cast<unsigned>(std::bit_width(space.count / kept)) - 1;
}

// The high part of position j sets bit (high + j); the highest there can be is the last.
std::size_t high_bits(std::size_t kept, const IndexSpace& space) {
  return kept + ((space.count - 1) >> low_width(kept, space));
}

std::size_t max_size(std::size_t kept, const IndexSpace& space) {
  return packed_size(low_width(kept, space), kept) + packed_size(1, high_bits(kept, space));
}

std::size_t size(std::span<const std::uint32_t> positions, const IndexSpace& space) {
  return max_size(positions.size(), space);
}

void write(std::span<const std::uint32_t> positions, const IndexSpace& space, Buffer& out) {
  const unsigned width = low_width(positions.size(), space);
  const std::uint64_t mask = (1ULL << width) - 1;
  BitWriter lows(out);
  for (const std::uint32_t position : positions) lows.put(position & mask, width);
  lows.finish();
  OnesWriter highs(high_bits(positions.size(), space), out);
  std::uint64_t j = 0;
  for (const std::uint64_t position : positions) highs.put((position >> width) + j++);
  highs.finish();
}

ByteView read(ByteView bytes, const IndexSpace& space, std::span<std::uint32_t> positions) {
  const std::size_t kept = positions.size(), bits = high_bits(kept, space);
  const unsigned width = low_width(kept, space);
  ByteReader in(bytes);
  const ByteView lows = in.take(packed_size(width, kept), "the low bits of positions");
  const ByteView highs = in.take(packed_size(1, bits), "the high bits of positions");
  if (!padding_is_zero(highs, 1, bits))
    throw DataError("the padding after the high bits of positions is not zero");
  unpack(lows, width, positions);
  std::uint64_t j = 0;
  for_ones(highs, kept, "the high bits of positions", [&](std::uint64_t at) {
    positions[j] |= static_cast<std::uint32_t>((at - j) << width);
    ++j;
  });
  expect_ascending(positions, space.count);
  return in.rest();
}

const RegisterIndexCodec fano{{
    .name = "fano",
    .tag = 1,
    .summary = "Elias-Fano: at most 2 bits and log2(count / kept) per position, wherever they are.",
    .paper = "Elias (1974), Fano (1971)",
    .bits = "k l + k + floor((n - 1) / 2^l), l = floor(log2(n / k))",
    .size = size,
    .max_size = max_size,
    .write = write,
    .read = read,
}};

}  // namespace
}  // namespace laconic

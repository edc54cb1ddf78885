// bitmap: one bit per entry, best when many are kept.
#include "laconic/codecs/fixed.h"
#include "laconic/codecs/ones.h"
#include "laconic/codecs/positions.h"
#include "laconic/codecs/varint.h"

namespace laconic {
namespace {

std::size_t max_size(std::size_t, const IndexSpace& space) { return packed_size(1, space.count); }

std::size_t size(std::span<const std::uint32_t>, const IndexSpace& space) {
  return packed_size(1, space.count);
}

void write(std::span<const std::uint32_t> positions, const IndexSpace& space, Buffer& out) {
  OnesWriter bits(space.count, out);
  for (const std::uint32_t position : positions) bits.put(position);
  bits.finish();
}

ByteView read(ByteView bytes, const IndexSpace& space, std::span<std::uint32_t> positions) {
  ByteReader in(bytes);
  const ByteView bits = in.take(packed_size(1, space.count), "a bitmap of positions");
  if (!padding_is_zero(bits, 1, space.count))
    throw DataError("the padding after a bitmap of positions is not zero");
  std::uint32_t* to = positions.data();
  for_ones(bits, positions.size(), "a bitmap of positions",
           [&](std::uint64_t at) { *to++ = static_cast<std::uint32_t>(at); });
  return in.rest();
}

const RegisterIndexCodec bitmap{{
    .name = "bitmap",
    .tag = 2,
    .summary = "One bit per entry.",
    .paper = "folklore",
    .bits = "n",
    .size = size,
    .max_size = max_size,
    .write = write,
    .read = read,
}};

}  // namespace
}  // namespace laconic

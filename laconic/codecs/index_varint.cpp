// varint: the gaps between positions in whole bytes.
#include "laconic/codecs/positions.h"
#include "laconic/codecs/varint.h"
#include "laconic/kernels/gaps.h"

namespace laconic {
namespace {

std::size_t size(std::span<const std::uint32_t> positions, const IndexSpace&) {
  if (kernels::sum_of_gaps(positions, 0).largest < 128) return positions.size();
  return positions.size() + sum_over_gaps(positions, [](std::uint32_t gap) -> std::uint64_t {
           // a byte more for every 7 bits
           return (gap >> 7 != 0) + (gap >> 14 != 0) + (gap >> 21 != 0) + (gap >> 28 != 0);
         });
}

// A gap of more than n bytes leaves out at least 2^7n entries, so there are only so many of them.
std::size_t max_size(std::size_t kept, const IndexSpace& space) {
  std::size_t bytes = kept;
  for (unsigned shift = 7; shift <= 28; shift += 7) bytes += std::min(kept, space.count >> shift);
  return bytes;
}

void write(std::span<const std::uint32_t> positions, const IndexSpace&, Buffer& out) {
  for_gaps(positions, [&](std::uint32_t gap) { put_varint(gap, out); });
}

// The 7-bit groups of up to 4 bytes side by side.
std::uint32_t joined(std::uint32_t bytes) {
  return (bytes & 0x7fU) | (bytes >> 1 & 0x3f80U) | (bytes >> 2 & 0x1fc000U) |
         (bytes >> 3 & 0xfe00000U);
}

// A gap of up to 4 bytes by one load: no branch depends on how many there are. `bytes` are moved on
// past it.
std::uint64_t next_gap(ByteView& bytes) {
  if (bytes.size() >= 4) {
    const auto word = load<std::uint32_t>(bytes.data());
    const std::uint32_t ends = ~word & 0x80808080U;  // the top bit of each byte that ends a number
    const std::uint32_t number = word & (ends ^ (ends - 1));  // the bits up to the first of them
    const auto top = static_cast<unsigned>(std::countr_zero(ends));
    if (ends != 0 && (top == 7 || number >> (top - 7) != 0)) {
      bytes = bytes.subspan(top / 8 + 1);
      return joined(number);
    }
  }
  ByteReader in(bytes);  // longer numbers, the last few, and what must be refused
  const std::uint64_t gap = in.varint("a gap between positions");
  bytes = in.rest();
  return gap;
}

ByteView read(ByteView bytes, const IndexSpace& space, std::span<std::uint32_t> positions) {
  const std::uint64_t most = space.count;  // so that adding a gap cannot wrap around
  fill_from_gaps(positions, space.count, [&] { return std::min(next_gap(bytes), most); });
  return bytes;
}

const RegisterIndexCodec varint{{
    .name = "varint",
    .tag = 3,
    .summary = "Gaps in whole bytes: a little larger, easy to read elsewhere.",
    .paper = "LEB128",
    .bits = "8 k where gaps are at most 128, 8 more for every 7 bits beyond",
    .size = size,
    .max_size = max_size,
    .write = write,
    .read = read,
}};

}  // namespace
}  // namespace laconic

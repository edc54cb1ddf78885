// bitmap: one bit per entry, best when many are kept.
#include "laconic/codecs/fixed.h"
#include "laconic/codecs/ones.h"
#include "laconic/codecs/positions.h"
#include "laconic/codecs/varint.h"
#include "laconic/kernels/marks.h"
#include "laconic/kernels/ones.h"

namespace laconic {
namespace {

std::size_t max_size(std::size_t, const IndexSpace& space) { return packed_size(1, space.count); }

std::size_t size(std::span<const std::uint32_t>, const IndexSpace& space) {
  return packed_size(1, space.count);
}

void write(std::span<const std::uint32_t> positions, const IndexSpace& space, Buffer& out) {
  // Where every fourth entry or more is kept, that takes a third of the time of bits one by one.
  if (positions.size() >= space.count / 4) return put_marks(positions, space.count, true, out);
  OnesWriter bits(space.count, out);
  for (const std::uint32_t position : positions) bits.put(position);
  bits.finish();
}

ByteView read(ByteView bytes, const IndexSpace& space, std::span<std::uint32_t> positions) {
  ByteReader in(bytes);
  const ByteView bits = in.take(packed_size(1, space.count), "a bitmap of positions");
  if (!padding_is_zero(bits, 1, space.count))
    throw DataError("the padding after a bitmap of positions is not zero");
  expect_ones(bits, positions.size(), "a bitmap of positions");
  constexpr std::size_t kPiece = 4096;  // entries whose positions pass through memory on the stack
  std::uint32_t* to = positions.data();
  for (std::size_t from = 0; from < bits.size(); from += kPiece / 8) {
    const std::size_t part = std::min(kPiece / 8, bits.size() - from);
    std::uint64_t words[kPiece / 64];
    words[(part - 1) / 8] = 0;  // the last one may be filled in part
    std::memcpy(words, bits.data() + from, part);
    std::uint32_t some[kPiece + kernels::kSpareOnes];
    const std::size_t number = kernels::positions_of({words, (part + 7) / 8}, some);
    const auto first = static_cast<std::uint32_t>(from * 8);
    for (std::size_t i = 0; i < number; ++i) to[i] = first + some[i];
    to += number;
  }
  return in.rest();
}

std::optional<ByteView> read_marks(ByteView bytes, const IndexSpace& space, std::size_t kept,
                                   std::uint64_t* marks) {
  const std::size_t size = packed_size(1, space.count), words = (space.count + 63) / 64;
  if (bytes.size() < size || !padding_is_zero(bytes.first(size), 1, space.count)) return {};
  marks[words - 1] = 0;
  std::memcpy(marks, bytes.data(), size);
  if (kernels::count_marks({marks, words}) != kept) return {};
  return bytes.subspan(size);
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
    .read_marks = read_marks,
}};

}  // namespace
}  // namespace laconic

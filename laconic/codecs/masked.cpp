// Compacting and expanding of bit planes: long runs in which no entry is zero are found by vectors
// and copied 32 bits at a time, others eight.
#include "laconic/codecs/masked.h"

#include <algorithm>
#include <cstring>

#include "laconic/codecs/fixed.h"

namespace laconic {
namespace {

// Bit i says whether byte i of the word is not zero.
unsigned nonzero_mask(std::uint64_t word) {
  constexpr std::uint64_t kLow = 0x7f7f7f7f7f7f7f7fULL;
  const std::uint64_t top = (((word & kLow) + kLow) | word) & ~kLow;
  return static_cast<unsigned>(((top >> 7) * 0x0102040810204080ULL) >> 56);
}

constexpr std::size_t kPiece = 128;  // entries, so that a byte counts the zeros among them

// Compilers make vector code of it.
std::size_t zeros_in_piece(const std::uint8_t* bytes) {
  std::uint8_t zeros = 0;
  for (std::size_t j = 0; j < kPiece; ++j) zeros += bytes[j] == 0;
  return zeros;
}

// Walks the entries: full(byte index in the bit plane) for 32 entries of which none is zero,
// some(mask, byte index) for eight others; the last may be fewer.
template <class Full, class Some>
void for_masks(ByteView bytes, Full full, Some some) {
  std::size_t i = 0;
  for (; i + kPiece <= bytes.size(); i += kPiece) {
    const bool all = zeros_in_piece(bytes.data() + i) == 0;
    for (std::size_t from = i; from < i + kPiece; from += 32) {
      unsigned masks[4] = {255, 255, 255, 255};
      for (std::size_t j = 0; j < 4 && !all; ++j)
        masks[j] = nonzero_mask(load<std::uint64_t>(bytes.data() + from + 8 * j));
      if ((masks[0] & masks[1] & masks[2] & masks[3]) == 255) {
        full(from / 8);
      } else {
        for (std::size_t j = 0; j < 4; ++j) some(masks[j], from / 8 + j);
      }
    }
  }
  for (; i < bytes.size(); i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i, std::min<std::size_t>(8, bytes.size() - i));
    some(nonzero_mask(word), i / 8);
  }
}

// The usual case, found at memory speed.
bool none_is_zero(ByteView bytes) {
  return bytes.empty() || std::memchr(bytes.data(), 0, bytes.size()) == nullptr;
}

unsigned gather(unsigned bits, unsigned mask) {
  unsigned result = 0;
  for (unsigned at = 0; mask != 0; mask &= mask - 1, ++at)
    result |= (bits >> std::countr_zero(mask) & 1U) << at;
  return result;
}

unsigned scatter(unsigned bits, unsigned mask) {
  unsigned result = 0;
  for (; mask != 0; mask &= mask - 1, bits >>= 1) result |= (bits & 1U) << std::countr_zero(mask);
  return result;
}

}  // namespace

std::size_t count_nonzero(ByteView bytes) {
  std::size_t zeros = 0, i = 0;
  for (; i + kPiece <= bytes.size(); i += kPiece) zeros += zeros_in_piece(bytes.data() + i);
  zeros += static_cast<std::size_t>(std::ranges::count(bytes.subspan(i), std::uint8_t{0}));
  return bytes.size() - zeros;
}

void compact_bits(ByteView bits, ByteView bytes, Buffer& out) {
  if (none_is_zero(bytes)) {
    out.append(bits);
    if (const std::size_t used = bytes.size() % 8; used > 0)  // bits after the last mean nothing
      out.data()[out.size() - 1] &= static_cast<std::uint8_t>((1U << used) - 1);
    return;
  }
  out.reserve(out.size() + bits.size() + 8);
  BitWriter writer(out);
  for_masks(
      bytes, [&](std::size_t at) { writer.put(load<std::uint32_t>(bits.data() + at), 32); },
      [&](unsigned mask, std::size_t at) {
        writer.put(gather(bits[at], mask), static_cast<unsigned>(std::popcount(mask)));
      });
  writer.finish();
}

void expand_bits(ByteView compacted, ByteView bytes, std::span<std::uint8_t> bits) {
  if (none_is_zero(bytes) && compacted.size() == bits.size() &&
      padding_is_zero(compacted, 1, bytes.size()))
    return void(std::ranges::copy(compacted, bits.begin()));
  BitReader reader(compacted);
  for_masks(
      bytes,
      [&](std::size_t at) { store(bits.data() + at, static_cast<std::uint32_t>(reader.get(32))); },
      [&](unsigned mask, std::size_t at) {
        const auto next =
            static_cast<unsigned>(reader.get(static_cast<unsigned>(std::popcount(mask))));
        bits[at] = static_cast<std::uint8_t>(scatter(next, mask));
      });
  reader.expect_end();
}

}  // namespace laconic

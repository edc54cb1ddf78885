// Rice codes as marks. Without low bits every bit is an entry. With one, bits are read a byte at a
// time: what a byte adds depends on whether the bit before it was the end of a run of ones.
#include "laconic/codecs/marks.h"

#include <algorithm>
#include <array>

#include "laconic/codecs/fixed.h"
#include "laconic/codecs/rice.h"
#include "laconic/kernels/bit_codes.h"
#include "laconic/kernels/marks.h"

namespace laconic {
namespace {

// What eight bits add, in either state: in a run of ones, each of which leaves out two entries, or
// before the low bit, which says whether one more is left out before the next is kept.
struct Added {
  std::uint16_t marks = 0;
  std::uint8_t entries = 0, kept = 0;
  bool low = false;  // the state afterwards

  constexpr void take(bool bit) {
    if (!low) {
      entries = static_cast<std::uint8_t>(entries + 2 * bit);
      low = !bit;
    } else {
      entries = static_cast<std::uint8_t>(entries + bit);
      marks = static_cast<std::uint16_t>(marks | 1U << entries++);
      ++kept;
      low = false;
    }
  }
};

constexpr auto kAdded = [] {
  std::array<std::array<Added, 256>, 2> all{};
  for (unsigned state = 0; state < 2; ++state)
    for (unsigned byte = 0; byte < 256; ++byte) {
      Added& added = all[state][byte];
      added.low = state == 1;
      for (unsigned i = 0; i < 8; ++i) added.take((byte >> i & 1) != 0);
    }
  return all;
}();

bool escapes(std::uint64_t word, std::uint64_t before) {
  const auto has_run = [](std::uint64_t ones) {
    for (const unsigned length : {1, 2, 4, 8, 8}) ones &= ones >> length;
    return ones != 0;
  };
  static_assert(Rice::kEscape == 24);
  return has_run(word) || has_run(before >> 40 | word << 24);
}

// Returns how many bits the codes have; 0 where they escape, end early or go beyond the entries.
std::size_t marks_of_one_low_bit(ByteView bytes, std::size_t count, std::size_t kept,
                                 std::uint64_t* marks) {
  constexpr std::size_t kMostKept = 4 * 8, kMostEntries = 16 * 8;  // of eight bytes
  kernels::BitStream out{reinterpret_cast<std::uint8_t*>(marks)};
  std::uint64_t before = 0;
  std::size_t at = 0, entries = 0;
  bool low = false;
  for (; at + 8 <= bytes.size() && kept > kMostKept && entries + kMostEntries <= count; at += 8) {
    const auto word = load<std::uint64_t>(bytes.data() + at);
    if (escapes(word, before)) return 0;
    before = word;
    for (unsigned i = 0; i < 64; i += 8) {
      const Added& added = kAdded[low][word >> i & 255];
      out.put(added.marks, added.entries);
      entries += added.entries;
      kept -= added.kept;
      low = added.low;
    }
  }
  // The last ones, bit by bit.
  auto ones = static_cast<unsigned>(std::countl_one(before));
  std::size_t bit = 8 * at;
  for (; kept > 0; ++bit) {
    if (bit / 8 >= bytes.size()) return 0;
    const bool one = (bytes[bit / 8] >> bit % 8 & 1) != 0;
    ones = one ? ones + 1 : 0;
    if (ones >= Rice::kEscape) return 0;
    Added added{.low = low};
    added.take(one);
    entries += added.entries;
    if (entries > count) return 0;
    out.put(added.marks, added.entries);
    kept -= added.kept;
    low = added.low;
  }
  store(out.to, out.word);
  const auto end = reinterpret_cast<std::uint8_t*>(marks + (count + 63) / 64);
  if (out.to + 8 < end) std::fill(out.to + 8, end, std::uint8_t{0});
  return bit;
}

}  // namespace

std::optional<ByteView> marks_of_rice(ByteView bytes, unsigned low_bits, std::size_t count,
                                      std::size_t kept, std::uint64_t* marks) {
  const std::size_t bits = low_bits == 0
                               ? kernels::marks_of_zeros(bytes, count, kept, Rice::kEscape, marks)
                               : marks_of_one_low_bit(bytes, count, kept, marks);
  const std::size_t size = packed_size(1, bits);
  if (bits == 0 || !padding_is_zero(bytes.first(size), 1, bits)) return {};
  return bytes.subspan(size);
}

}  // namespace laconic

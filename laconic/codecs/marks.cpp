// Rice codes as marks. Without low bits every bit is an entry. With one, bits are read a byte at a
// time: what a byte adds depends on whether the bit before it was the end of a run of ones.
#include "laconic/codecs/marks.h"

#include <algorithm>
#include <array>

#include "laconic/codecs/fixed.h"
#include "laconic/codecs/index.h"
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

// The other way: what eight marks add to codes with one low bit, when one entry, or none, is left
// over from before that no one stands for yet.
struct Codes {
  std::uint16_t bits = 0;
  std::uint8_t length = 0;
  bool left = false;  // over for the next

  constexpr void put(bool bit) { bits = static_cast<std::uint16_t>(bits | bit << length++); }
  constexpr void take(bool mark) {
    if (mark) {
      put(false);
      put(left);
    } else if (left) {
      put(true);
    }
    left = !mark && !left;
  }
};

constexpr auto kCodes = [] {
  std::array<std::array<Codes, 256>, 2> all{};
  for (unsigned state = 0; state < 2; ++state)
    for (unsigned byte = 0; byte < 256; ++byte) {
      Codes& codes = all[state][byte];
      codes.left = state == 1;
      for (unsigned i = 0; i < 8; ++i) codes.take((byte >> i & 1) != 0);
    }
  return all;
}();

// Marks from `at` on, at least 32 of them; 0 beyond the last.
std::uint64_t marks_at(std::span<const std::uint64_t> marks, std::size_t at) {
  const std::size_t i = at / 64, shift = at % 64;
  const std::uint64_t low = marks[i] >> shift;
  return shift <= 32 || i + 1 == marks.size() ? low : low | marks[i + 1] << (64 - shift);
}

// Codes of the entries from `from` up to `to`, that before either of which is marked.
void put_without(std::span<const std::uint64_t> marks, std::size_t from, std::size_t to,
                 kernels::BitStream& out) {
  for (; from < to; from += 32) {
    const auto number = static_cast<unsigned>(std::min<std::size_t>(32, to - from));
    out.put(~marks_at(marks, from) & ((1ULL << number) - 1), number);
  }
}

void put_one_low_bit(std::span<const std::uint64_t> marks, std::size_t from, std::size_t to,
                     kernels::BitStream& out) {
  bool left = false;
  for (; from + 16 <= to; from += 16) {
    const std::uint64_t word = marks_at(marks, from);
    const auto a = static_cast<std::uint8_t>(word), b = static_cast<std::uint8_t>(word >> 8);
    // Eight entries that are all left out leave over what they found.
    const bool between = a == 0 ? left : kCodes[0][a].left;
    const Codes one = kCodes[left][a], other = kCodes[between][b];
    left = b == 0 ? between : kCodes[0][b].left;
    out.put(one.bits | std::uint64_t{other.bits} << one.length, one.length + other.length);
  }
  Codes last{.left = left};
  for (std::uint64_t word = from < to ? marks_at(marks, from) : 0; from < to; ++from, word >>= 1) {
    last.take((word & 1) != 0);
    out.put(last.bits, last.length);
    last = {.left = last.left};
  }
}

Rice rice_of(const MarkedCode& code) {
  return {code.low_bits, static_cast<std::uint32_t>(code.count - 1)};
}

}  // namespace

std::optional<MarkedCode> smallest_of_marks(std::span<const std::uint64_t> marks, std::size_t kept,
                                            std::size_t count) {
  constexpr std::size_t kFewest = 4096;
  if (count < kFewest || kept == 0) return {};
  const unsigned low_bits = rice_bits(kept, count);
  if (low_bits > 1) return {};
  const auto gaps = kernels::gaps_of_marks(marks, Rice::kEscape << low_bits);
  if (gaps.more) return {};
  const std::uint64_t ones = low_bits == 0 ? gaps.end - kept : (gaps.end - kept - gaps.odd) / 2;
  std::uint64_t bits = kept * (1ULL + low_bits) + ones;
  const Rice code(low_bits, static_cast<std::uint32_t>(count - 1));
  for (std::size_t i = 0; i < gaps.number; ++i)
    bits += code.length(gaps.longs[i].gap) - (1ULL + low_bits + (gaps.longs[i].gap >> low_bits));
  const std::size_t rice = packed_size(1, bits), bitmap = packed_size(1, count);
  const std::size_t least = std::min(rice, bitmap);
  // With a fourth or so of all, a byte for each is more than a bitmap, and so is a fixed width.
  const std::size_t fano = index_codec("fano").max_size(kept, {.count = count});
  const std::uint64_t omega = kept + 2 * gaps.some + 3 * gaps.three;  // or more
  if (fano <= least || packed_size(1, omega) < least) return {};
  const bool is_rice = rice <= bitmap;
  return MarkedCode{.tag = index_codec(is_rice ? "rice" : "bitmap").tag,
                    .rice = is_rice,
                    .low_bits = low_bits,
                    .bits = is_rice ? bits : count,
                    .count = count,
                    .gaps = gaps};
}

void put_marked(const MarkedCode& code, std::span<const std::uint64_t> marks, Buffer& out) {
  const std::size_t size = packed_size(1, code.bits), start = out.size();
  std::uint8_t* const to = out.grow(size + sizeof(std::uint64_t));
  out.truncate(start + size);
  if (!code.rice) {
    std::memcpy(to, marks.data(), size);
    return;
  }
  kernels::BitStream stream{to};
  std::size_t from = 0;
  const auto put_up_to = [&](std::size_t end) {
    if (code.low_bits == 0)
      put_without(marks, from, end, stream);
    else
      put_one_low_bit(marks, from, end, stream);
  };
  for (std::size_t i = 0; i < code.gaps.number; ++i) {
    const auto [mark, gap] = code.gaps.longs[i];
    put_up_to(mark - gap);
    const Rice::Code escape = rice_of(code).code(gap);
    stream.put(escape.bits, escape.length);
    from = std::size_t{mark} + 1;
  }
  put_up_to(code.gaps.end);
}

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

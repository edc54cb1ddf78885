// sparse: positions of the levels that are not zero by the smallest index codec, their signs, and
// their magnitudes less one as Rice codes. Close to the entropy of levels that are mostly 0 and
// +-1.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "laconic/codecs/fixed.h"
#include "laconic/codecs/levels.h"
#include "laconic/codecs/rice.h"
#include "laconic/codecs/varint.h"

namespace laconic {
namespace {

constexpr unsigned kMostRiceBits = 30;

std::uint32_t above_one(std::int32_t level) { return magnitude_of(level) - 1; }

Rice code_of(unsigned bits, std::int32_t most) {
  return {bits, static_cast<std::uint32_t>(most) - 1};
}

struct Magnitudes {
  unsigned bits = 0;         // of the Rice code
  std::uint64_t length = 0;  // of all codes, in bits
};

using Counts = std::array<std::uint32_t, 256>;

// The levels that are not zero, piece by piece, where they lie next to each other.
struct Piece {
  std::uint8_t above[kLevelPiece];     // magnitudes less one, or kBeyond
  std::uint8_t negative[kLevelPiece];  // 0 or 1
  bool has_wide = false;               // whether any is beyond; only then are there
  std::uint32_t all[kLevelPiece];      // magnitudes less one, of whatever size
};
constexpr std::uint8_t kBeyond = kernels::kMostSmall;

// Calls use(positions, piece) for each.
template <class Use>
void for_pieces(const Levels& levels, std::span<const std::uint32_t> nonzero, Use use) {
  Piece piece;
  std::int8_t small[kLevelPiece];
  for (; !nonzero.empty(); nonzero = nonzero.subspan(std::min(kLevelPiece, nonzero.size()))) {
    const auto some = nonzero.first(std::min(kLevelPiece, nonzero.size()));
    for (std::size_t j = 0; j < some.size(); ++j) small[j] = levels.at.small[some[j]];
    for (std::size_t j = 0; j < some.size(); ++j) {
      const auto sign = static_cast<std::int8_t>(small[j] >> 7);
      piece.negative[j] = static_cast<std::uint8_t>(-sign);
      piece.above[j] = static_cast<std::uint8_t>((small[j] ^ sign) - sign - 1);
    }
    piece.has_wide = levels.at.wide && std::memchr(small, kernels::kWide, some.size()) != nullptr;
    for (std::size_t j = 0; piece.has_wide && j < some.size(); ++j) {
      // About half may be wide: no branch asks which.
      const std::int32_t wide = levels.at.wide[some[j]];
      const std::int32_t beyond = -static_cast<std::int32_t>(small[j] == kernels::kWide);
      const std::int32_t level = (small[j] & ~beyond) | (wide & beyond);
      piece.negative[j] = level < 0;
      piece.all[j] = above_one(level);
    }
    use(some, piece);
  }
}

// Appends signs, and returns how often each number in Piece::above occurs.
Counts put_signs(const Levels& levels, std::span<const std::uint32_t> nonzero, Buffer& out) {
  Counts counts{};
  std::uint8_t* to = out.grow(packed_size(1, nonzero.size()));
  for_pieces(levels, nonzero, [&](std::span<const std::uint32_t> some, const Piece& piece) {
    pack_bytes(piece.negative, some.size(), 1, to);
    to += some.size() / 8;
    count_bytes({piece.above, some.size()}, counts);
  });
  return counts;
}

constexpr unsigned kTried = kMostRiceBits + 1;
using Lengths = std::array<std::uint64_t, kTried>;  // of all codes, by their low bits

// Adds those of a piece that has wide levels; returns the largest magnitude.
std::uint32_t add_lengths(std::span<const std::uint32_t> above, std::int32_t most,
                          Lengths& lengths) {
  const std::uint32_t largest = *std::ranges::max_element(above);
  for (unsigned bits = 0; bits < kTried; ++bits) {
    const Rice code = code_of(bits, most);
    if (largest >> bits == 0) {  // a bit and the low bits each
      lengths[bits] += above.size() * code.length(0);
      continue;
    }
    std::uint32_t sum = 0;
    for (const std::uint32_t value : above) sum += code.length(value);
    lengths[bits] += sum;
  }
  return largest + 1;
}

// Every number of low bits that any magnitude can make use of is tried.
Magnitudes shortest(const Levels& levels, std::span<const std::uint32_t> nonzero,
                    const Counts& counts) {
  Lengths lengths{};
  std::uint32_t largest = 0;
  if (counts[kBeyond] == 0) {
    for (std::uint32_t i = 0; i < kBeyond; ++i)
      if (counts[i] > 0) largest = i + 1;
    for (unsigned bits = 0; bits == 0 || largest >> (bits - 1) > 1; ++bits)
      for (std::uint32_t i = 0; i < largest; ++i)
        lengths[bits] += std::uint64_t{counts[i]} * code_of(bits, levels.most).length(i);
  } else {
    for_pieces(levels, nonzero, [&](std::span<const std::uint32_t> some, Piece& piece) {
      if (!piece.has_wide) std::copy_n(piece.above, some.size(), piece.all);
      largest = std::max(largest, add_lengths({piece.all, some.size()}, levels.most, lengths));
    });
  }
  Magnitudes best{.bits = 0, .length = ~std::uint64_t{0}};
  for (unsigned bits = 0; bits < kTried; ++bits) {
    if (lengths[bits] < best.length) best = {bits, lengths[bits]};
    if (largest >> bits <= 1) break;
  }
  return best;
}

// Four codes at a time where they fit a word, which all but a few do.
void put_magnitudes(const Levels& levels, std::span<const std::uint32_t> nonzero, const Rice& code,
                    Buffer& out) {
  Rice::Code codes[kBeyond + 1];
  for (std::uint32_t i = 0; i < kBeyond; ++i) codes[i] = code.code(i);
  codes[kBeyond] = {0, Rice::kLongest + 1};
  BitWriter bits(out);
  for_pieces(levels, nonzero, [&](std::span<const std::uint32_t> some, const Piece& piece) {
    const auto one = [&](std::size_t j) {
      const Rice::Code next = code.code(piece.has_wide ? piece.all[j] : piece.above[j]);
      bits.put(next.bits, next.length);
    };
    std::size_t j = 0;
    for (; j + 4 <= some.size(); j += 4) {
      const Rice::Code &a = codes[piece.above[j]], &b = codes[piece.above[j + 1]],
                       &c = codes[piece.above[j + 2]], &d = codes[piece.above[j + 3]];
      const unsigned two = a.length + b.length, length = two + c.length + d.length;
      if (length <= Rice::kLongest)
        bits.put(a.bits | b.bits << a.length | (c.bits | d.bits << c.length) << two, length);
      else
        for (std::size_t i = j; i < j + 4; ++i) one(i);
    }
    for (; j < some.size(); ++j) one(j);
  });
  bits.finish();
}

// What the next bits of a stream stand for: whole codes, none of `most` or above, or of a level
// beyond a byte.
struct Short {
  static constexpr std::size_t kMost = 6;
  std::uint8_t above[kMost] = {};
  std::uint8_t number = 0, length = 0;
};
constexpr unsigned kShortBits = 10;
using Shorts = std::array<Short, 1U << kShortBits>;

Shorts shorts_of(const Rice& code, std::int32_t most) {
  Shorts all;
  const auto end = static_cast<std::uint64_t>(std::min<std::int32_t>(most, kBeyond));
  for (std::uint64_t word = 0; word < all.size(); ++word) {
    Short& some = all[word];
    while (some.number < Short::kMost) {
      const Rice::Short next = code.peek(word >> some.length);
      if (some.length + next.length > kShortBits || next.value >= end) break;
      some.above[some.number++] = static_cast<std::uint8_t>(next.value);
      some.length = static_cast<std::uint8_t>(some.length + next.length);
    }
  }
  return all;
}

// Reads codes by table into `above`, which has room for one Short more, until `least` are read or
// one is not in the table. Returns how many.
std::size_t take_shorts(BitReader& bits, const Shorts& shorts, std::size_t least,
                        std::uint8_t* above) {
  std::size_t number = 0;
  while (number < least) {
    const std::uint64_t word = bits.peek();
    unsigned taken = 0;
    bool known = true;
    while (known && number < least && taken + kShortBits <= 56) {
      const Short& next = shorts[word >> taken & (shorts.size() - 1)];
      std::memcpy(above + number, next.above, Short::kMost);
      number += next.number;
      taken += next.length;
      known = next.number > 0;
    }
    bits.skip(taken);
    if (!known) break;
  }
  return number;
}

// What is left of the stream.
ByteView take_magnitudes(ByteView bytes, const Rice& code, std::int32_t most,
                         std::span<const std::uint32_t> positions, const LevelsTo& levels) {
  constexpr std::size_t kMany = 16384;  // positions that are worth a table
  constexpr unsigned kLong = 5;         // bits of codes of which a table has one at a time
  BitReader bits(bytes);
  Shorts shorts;
  if (positions.size() >= kMany && code.length(0) <= kLong) shorts = shorts_of(code, most);
  while (!positions.empty()) {
    std::uint8_t above[kLevelPiece + Short::kMost];
    std::size_t number = 0;
    if (positions.size() > Short::kMost && shorts[0].number > 0)
      number =
          take_shorts(bits, shorts, std::min(kLevelPiece, positions.size() - Short::kMost), above);
    for (std::size_t j = 0; j < number; ++j) {
      std::int8_t& level = levels.at.small[positions[j]];
      level = static_cast<std::int8_t>(level * (above[j] + 1));
    }
    positions = positions.subspan(number);
    if (positions.empty()) break;
    const std::uint32_t position = positions[0];  // the last, escapes, and what is refused
    const auto magnitude = static_cast<std::int32_t>(code.get(bits) + 1);
    levels.at.set(position, levels.at.small[position] * magnitude);
    positions = positions.subspan(1);
  }
  return bits.rest();
}

bool has_magnitudes(std::size_t nonzero, std::int32_t most) { return nonzero > 0 && most > 1; }

// Rice codes of gaps, a bit for each sign, and Rice codes of magnitudes with as many low bits as
// their mean has.
std::uint64_t guess(const LevelCounts& counts) {
  const std::uint64_t number = counts.of_all(counts.nonzero);
  std::uint64_t bits = 8 * 5 + number;
  if (number > 0) {
    const unsigned low = rice_bits(number, counts.count);
    bits += number * (low + 1) + ((counts.count - number) >> low) - (low > 0 ? number / 3 : 0);
  }
  if (counts.most > 1 && counts.nonzero > 0) {
    const auto low = static_cast<unsigned>(std::bit_width(counts.magnitudes / counts.nonzero)) - 1;
    bits += 8 + number * low + (counts.of_all(counts.magnitudes) >> low);
  }
  return bits / 8 + bits / 48;  // walks positions: not for a sixth
}

// The smallest index codec needs at most a bit per entry; the Rice code is no longer than with the
// best number of bits for the largest level, and no code is longer than 56 bits.
std::size_t max_size(std::size_t count, std::int32_t most) {
  const std::size_t magnitudes = most > 1 ? 1 + count * 7 : 0;
  return varint_size(static_cast<std::uint64_t>(count) << kIndexTagBits) +
         2 * packed_size(1, count) + magnitudes;
}

// The smallest. Of many, every second entry or more, that is a bit for each or next to it, and
// asking all takes a pass over positions for each.
const IndexCodec& index_for(std::span<const std::uint32_t> nonzero, const IndexSpace& space) {
  constexpr std::size_t kMany = 65536;
  static const IndexCodec& bitmap = index_codec("bitmap");
  return nonzero.size() >= std::max(kMany, space.count / 2) ? bitmap
                                                            : smallest_index(nonzero, space);
}

void write(const Levels& levels, Buffer& out, const LevelWork& work) {
  const auto nonzero = nonzero_of(levels, work.positions);
  const IndexSpace space{.count = levels.count};
  const IndexCodec& index = index_for(nonzero, space);
  put_varint(static_cast<std::uint64_t>(nonzero.size()) << kIndexTagBits | index.tag, out);
  index.write(nonzero, space, out);
  const Counts counts = put_signs(levels, nonzero, out);
  if (!has_magnitudes(nonzero.size(), levels.most)) return;
  const unsigned bits = shortest(levels, nonzero, counts).bits;
  out.append_number(static_cast<std::uint8_t>(bits));
  put_magnitudes(levels, nonzero, code_of(bits, levels.most), out);
}

ByteView read(ByteView bytes, const LevelsTo& levels, const LevelWork& work) {
  const std::int32_t most = levels.most;
  ByteReader in(bytes);
  const std::uint64_t head = in.varint("the number of levels that are not zero");
  const std::uint64_t number = head >> kIndexTagBits;
  if (number > levels.count || number / 8 > in.left())
    throw DataError("levels by position: " + std::to_string(number) + " of " +
                    std::to_string(levels.count) + " levels in " + std::to_string(in.left()) +
                    " bytes");
  const auto positions = work.positions.reset(static_cast<std::size_t>(number));
  in = ByteReader(index_codec_in(head).read(in.rest(), {.count = levels.count}, positions));
  std::ranges::fill(levels.small(), std::int8_t{0});
  BitReader signs(in.take(packed_size(1, positions.size()), "the signs of levels"));
  for (std::size_t i = 0; i < positions.size(); i += 32) {
    const auto some = positions.subspan(i, std::min<std::size_t>(32, positions.size() - i));
    const std::uint64_t word = signs.get(static_cast<unsigned>(some.size()));
    for (std::size_t j = 0; j < some.size(); ++j)
      levels.at.small[some[j]] = static_cast<std::int8_t>(1 - 2 * static_cast<int>(word >> j & 1));
  }
  signs.expect_end();
  if (!has_magnitudes(positions.size(), most)) return in.rest();
  const unsigned rice_bits = in.take(1, "the width of magnitudes")[0];
  if (rice_bits > kMostRiceBits)
    throw DataError("levels by position: Rice codes with " + std::to_string(rice_bits) +
                    " low bits; allowed: up to " + std::to_string(kMostRiceBits));
  return take_magnitudes(in.rest(), code_of(rice_bits, most), most, positions, levels);
}

const RegisterLevelCodec sparse{{
    .name = "sparse",
    .tag = 3,
    .summary = "Positions of levels that are not zero by an index codec, signs, Rice magnitudes.",
    .paper = "Laconic's own, of Golomb's and Rice's codes",
    .bits = "varint(8 z + codec) + P with k = z, z signs, Rice magnitudes",
    .takes = [](std::int32_t) { return true; },
    .guess = guess,
    .min_size = [](std::size_t, std::int32_t) -> std::size_t { return 1; },
    .max_size = max_size,
    .write = write,
    .read = read,
}};

}  // namespace
}  // namespace laconic

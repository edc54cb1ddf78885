// sparse: positions of the levels that are not zero by the smallest index codec, their signs, and
// their magnitudes less one as Rice codes. Close to the entropy of levels that are mostly 0 and
// +-1.
#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>

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

// How often each magnitude occurs, less one, among levels that are a byte; the last are those
// beyond. Four tables take turns, so that equal ones do not wait for each other.
std::array<std::uint32_t, 128> magnitudes_of(const Levels& levels,
                                             std::span<const std::uint32_t> nonzero) {
  std::array<std::uint32_t, 128> part[4] = {};
  std::size_t turn = 0;
  for (const std::uint32_t position : nonzero)
    ++part[turn++ % 4][static_cast<std::size_t>(std::abs(levels.at.small[position]) - 1)];
  for (std::size_t i = 0; i < part[0].size(); ++i)
    part[0][i] += part[1][i] + part[2][i] + part[3][i];
  return part[0];
}

// Every number of low bits that any magnitude can make use of is tried.
Magnitudes shortest(const Levels& levels, std::span<const std::uint32_t> nonzero) {
  const auto counts = magnitudes_of(levels, nonzero);
  const bool few = counts.back() == 0;
  std::uint32_t largest = 0;
  for (std::uint32_t i = 0; few && i < counts.size(); ++i)
    if (counts[i] > 0) largest = i + 1;
  for (std::size_t j = 0; !few && j < nonzero.size(); ++j)
    largest = std::max(largest, magnitude_of(levels[nonzero[j]]));
  Magnitudes best{.bits = 0, .length = ~std::uint64_t{0}};
  for (unsigned bits = 0; bits <= kMostRiceBits; ++bits) {
    const Rice code = code_of(bits, levels.most);
    std::uint64_t length = 0;
    for (std::uint32_t i = 0; few && i < largest; ++i)
      length += std::uint64_t{counts[i]} * code.length(i);
    for (std::size_t j = 0; !few && j < nonzero.size(); ++j)
      length += code.length(above_one(levels[nonzero[j]]));
    if (length < best.length) best = {bits, length};
    if (largest >> bits <= 1) break;
  }
  return best;
}

// As many codes as fit go into the stream at once.
void put_magnitudes(const Levels& levels, std::span<const std::uint32_t> nonzero, const Rice& code,
                    Buffer& out) {
  BitWriter bits(out);
  Rice::Code some{0, 0};
  for (const std::uint32_t position : nonzero) {
    const Rice::Code next = code.code(above_one(levels[position]));
    if (some.length + next.length > Rice::kLongest) {
      bits.put(some.bits, some.length);
      some = {0, 0};
    }
    some.bits |= next.bits << some.length;
    some.length += next.length;
  }
  bits.put(some.bits, some.length);
  bits.finish();
}

// What is left of the stream.
ByteView take_magnitudes(ByteView bytes, const Rice& code, std::int32_t most,
                         std::span<const std::uint32_t> positions, const LevelsTo& levels) {
  BitReader bits(bytes);
  const auto multiply = [&](std::uint32_t position, std::uint32_t above) {
    levels.at.set(position, levels.at.small[position] * static_cast<std::int32_t>(above + 1));
  };
  for (std::size_t i = 0; i < positions.size();) {
    const std::uint64_t word = bits.peek();
    unsigned taken = 0;
    for (; i < positions.size(); ++i) {
      const Rice::Short next = code.peek(word >> taken);
      if (taken + next.length > 56 || next.value >= static_cast<std::uint64_t>(most)) break;
      taken += next.length;
      multiply(positions[i], static_cast<std::uint32_t>(next.value));
    }
    bits.skip(taken);
    if (taken == 0) multiply(positions[i], code.get(bits)), ++i;  // escapes, and what is refused
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
  return bits / 8 + bits / 64;  // walks positions: not for an eighth
}

// The smallest index codec needs at most a bit per entry; the Rice code is no longer than with the
// best number of bits for the largest level, and no code is longer than 56 bits.
std::size_t max_size(std::size_t count, std::int32_t most) {
  const std::size_t magnitudes = most > 1 ? 1 + count * 7 : 0;
  return varint_size(static_cast<std::uint64_t>(count) << kIndexTagBits) +
         2 * packed_size(1, count) + magnitudes;
}

void write(const Levels& levels, Buffer& out, const LevelWork& work) {
  const auto nonzero = nonzero_of(levels, work.positions);
  const IndexSpace space{.count = levels.count};
  const IndexCodec& index = smallest_index(nonzero, space);
  put_varint(static_cast<std::uint64_t>(nonzero.size()) << kIndexTagBits | index.tag, out);
  index.write(nonzero, space, out);
  BitWriter signs(out);
  for (std::size_t i = 0; i < nonzero.size(); i += 32) {
    const auto some = nonzero.subspan(i, std::min<std::size_t>(32, nonzero.size() - i));
    std::uint64_t word = 0;
    for (std::size_t j = 0; j < some.size(); ++j)
      word |= static_cast<std::uint64_t>(levels[some[j]] < 0) << j;
    signs.put(word, static_cast<unsigned>(some.size()));
  }
  signs.finish();
  if (!has_magnitudes(nonzero.size(), levels.most)) return;
  const unsigned bits = shortest(levels, nonzero).bits;
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

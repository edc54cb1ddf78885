// fixed: every level in as many bits as the largest possible one needs, in zigzag order. When
// levels may be large, a byte in front says how many bits the largest of them really needs.
#include <algorithm>
#include <bit>

#include "laconic/codecs/fixed.h"
#include "laconic/codecs/levels.h"
#include "laconic/kernels/wide_bits.h"

namespace laconic {
namespace {

unsigned width_of(std::uint32_t magnitude) {
  return static_cast<unsigned>(std::bit_width(std::uint64_t{magnitude} * 2));
}

bool says_width(std::int32_t most) { return most > kMostWithoutWidth; }

std::size_t size_at(unsigned width, std::size_t count, std::int32_t most) {
  return (says_width(most) ? 1 : 0) + packed_size(width, count);
}

unsigned width_for(std::uint32_t largest, std::int32_t most) {
  return width_of(says_width(most) ? largest : static_cast<std::uint32_t>(most));
}

std::uint64_t guess(const LevelCounts& counts) {
  return size_at(width_for(counts.largest, counts.most), counts.count, counts.most);
}

std::size_t min_size(std::size_t count, std::int32_t most) {
  return size_at(says_width(most) ? 0 : width_of(static_cast<std::uint32_t>(most)), count, most);
}

std::size_t max_size(std::size_t count, std::int32_t most) {
  return size_at(width_of(static_cast<std::uint32_t>(most)), count, most);
}

// Where `most` is beyond a byte about half of all levels may be, too: no branch asks which. What is
// not wide is set in both planes.
void set_both(const kernels::LevelSpan& at, std::size_t i, std::int32_t level) {
  const std::int32_t beyond =
      -static_cast<std::int32_t>(magnitude_of(level) > std::uint32_t{kernels::kMostSmall});
  at.small[i] = static_cast<std::int8_t>((level & ~beyond) | (kernels::kWide & beyond));
  at.wide[i] = level;
}
std::uint32_t symbol_at(const kernels::LevelView& at, std::size_t i) {
  const std::int32_t small = at.small[i], wide = at.wide[i];
  const std::int32_t beyond = -static_cast<std::int32_t>(small == kernels::kWide);
  return zigzag((small & ~beyond) | (wide & beyond));
}

// So many symbols of this width go through a stream of bits at once.
constexpr unsigned at_once(unsigned width) { return 56 / width; }

bool by_vectors(const kernels::LevelView& at, unsigned width) { return at.wide && width <= 16; }

// Symbols of more than a byte.
void pack_wide(const Levels& levels, unsigned width, Buffer& out) {
  const std::size_t start = out.size(), size = packed_size(width, levels.count);
  std::uint8_t* const to = out.grow(size);
  std::size_t i = by_vectors(levels.at, width)
                      ? kernels::put_wide_levels(levels.at, levels.count, width, to, size)
                      : 0;
  out.truncate(start + packed_size(width, i));
  BitWriter bits(out);
  const unsigned number = at_once(width);
  for (; levels.at.wide && i + number <= levels.count; i += number) {
    std::uint64_t word = 0;
    for (unsigned j = 0; j < number; ++j)
      word |= std::uint64_t{symbol_at(levels.at, i + j)} << (j * width);
    bits.put(word, number * width);
  }
  for (; i < levels.count; ++i) bits.put(zigzag(levels[i]), width);
  bits.finish();
}

std::uint32_t unpack_wide(ByteView packed, unsigned width, const LevelsTo& levels) {
  std::uint32_t largest = 0;
  std::size_t i = by_vectors(levels.at, width)
                      ? kernels::take_wide_levels(packed.data(), packed.size(), levels.count, width,
                                                  levels.at, largest)
                      : 0;
  BitReader bits(packed.subspan(packed_size(width, i)));
  const unsigned number = at_once(width);
  const std::uint64_t mask = (std::uint64_t{1} << width) - 1;
  while (i < levels.count) {
    const std::size_t end = std::min<std::size_t>(levels.count, i + number);
    std::uint64_t word = bits.get(static_cast<unsigned>(end - i) * width);
    for (; i < end; ++i, word >>= width) {
      const auto symbol = static_cast<std::uint32_t>(word & mask);
      largest = std::max(largest, symbol);
      set_both(levels.at, i, unzigzag(symbol));
    }
  }
  bits.expect_end();
  return largest;
}

void write(const Levels& levels, Buffer& out, const LevelWork& work) {
  const std::uint32_t largest =
      says_width(levels.most) ? kernels::largest_level(levels.at, levels.count) : 0;
  const unsigned width = width_for(largest, levels.most);
  if (says_width(levels.most)) out.append_number(static_cast<std::uint8_t>(width));
  const std::size_t size = packed_size(width, levels.count);
  if (width == 0) return;
  if (width <= 8) return pack_levels(levels, width, out.grow(size), work.pool);
  pack_wide(levels, width, out);
}

ByteView read(ByteView bytes, const LevelsTo& levels, const LevelWork&) {
  const auto refuse = [](const std::string& why) {
    throw DataError("levels of fixed width: " + why);
  };
  const auto most = static_cast<std::uint32_t>(levels.most);
  const bool says = says_width(levels.most);
  unsigned width = width_of(most);
  if (says) {
    if (bytes.empty()) refuse("the width is missing");
    if (bytes[0] > width) refuse("a width of " + std::to_string(bytes[0]) + " bits");
    width = bytes[0];
    bytes = bytes.subspan(1);
  }
  const std::size_t size = packed_size(width, levels.count);
  if (bytes.size() < size) refuse("the section ends early");
  std::uint32_t largest = 0;
  if (width == 0)
    std::ranges::fill(levels.small(), std::int8_t{0});
  else
    largest = (width <= 8 ? unpack_levels : unpack_wide)(bytes.first(size), width, levels);
  require_within(largest, levels.most);
  if (says && width != width_of(largest / 2 + largest % 2))
    refuse("a width of " + std::to_string(width) + " bits where fewer would do");
  return bytes.subspan(size);
}

const RegisterLevelCodec fixed{{
    .name = "fixed",
    .tag = 0,
    .summary = "Every level in the same number of bits.",
    .paper = "two's complement by zigzag",
    .bits = "n ceil(log2(2 s + 1))",
    .takes = [](std::int32_t) { return true; },
    .packed =
        [](std::int32_t most) {
          return most > kernels::kMostSmall ? 0 : width_of(magnitude_of(most));
        },
    .guess = guess,
    .min_size = min_size,
    .max_size = max_size,
    .write = write,
    .read = read,
}};

}  // namespace
}  // namespace laconic

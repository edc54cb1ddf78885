// fixed: every level in as many bits as the largest possible one needs, in zigzag order. When
// levels may be large, a byte in front says how many bits the largest of them really needs.
#include <algorithm>
#include <bit>

#include "laconic/codecs/fixed.h"
#include "laconic/codecs/levels.h"

namespace laconic {
namespace {

constexpr std::int32_t kMostWithoutWidth = 32767;

unsigned width_of(std::uint32_t magnitude) {
  return static_cast<unsigned>(std::bit_width(std::uint64_t{magnitude} * 2));
}

bool says_width(std::int32_t most) { return most > kMostWithoutWidth; }

std::size_t size_at(unsigned width, std::size_t count, std::int32_t most) {
  return (says_width(most) ? 1 : 0) + packed_size(width, count);
}

std::size_t size(const Levels& levels) {
  const auto largest =
      says_width(levels.most) ? levels.largest : static_cast<std::uint32_t>(levels.most);
  return size_at(width_of(largest), levels.all.size(), levels.most);
}

std::size_t min_size(std::size_t count, std::int32_t most) {
  return size_at(says_width(most) ? 0 : width_of(static_cast<std::uint32_t>(most)), count, most);
}

std::size_t max_size(std::size_t count, std::int32_t most) {
  return size_at(width_of(static_cast<std::uint32_t>(most)), count, most);
}

void write(const Levels& levels, Buffer& out) {
  unsigned width = width_of(static_cast<std::uint32_t>(levels.most));
  if (says_width(levels.most)) {
    width = width_of(levels.largest);
    out.append_number(static_cast<std::uint8_t>(width));
  }
  out.reserve(out.size() + packed_size(width, levels.all.size()));
  BitWriter bits(out);
  for (const std::int32_t level : levels.all) bits.put(zigzag(level), width);
  bits.finish();
}

ByteView read(ByteView bytes, std::int32_t most, std::span<std::int32_t> levels, Positions&) {
  const auto refuse = [](const std::string& why) {
    throw DataError("levels of fixed width: " + why);
  };
  const unsigned widest = width_of(static_cast<std::uint32_t>(most));
  unsigned width = widest;
  if (says_width(most)) {
    if (bytes.empty()) refuse("the width is missing");
    width = bytes[0];
    bytes = bytes.subspan(1);
    if (width > widest) refuse("a width of " + std::to_string(width) + " bits");
  }
  const std::size_t size = packed_size(width, levels.size());
  if (bytes.size() < size) refuse("the section ends early");
  BitReader bits(bytes.first(size));
  std::uint32_t largest = 0;
  for (std::int32_t& level : levels) {
    const auto symbol = static_cast<std::uint32_t>(bits.get(width));
    level = unzigzag(symbol);
    largest = std::max(largest, symbol);
  }
  bits.expect_end();
  const std::uint32_t magnitude = largest / 2 + largest % 2;
  if (magnitude > static_cast<std::uint32_t>(most))
    refuse("a level of " + std::to_string(magnitude) + "; allowed: up to " + std::to_string(most));
  if (says_width(most) && width != width_of(magnitude))
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
    .size = size,
    .min_size = min_size,
    .max_size = max_size,
    .write = write,
    .read = read,
}};

}  // namespace
}  // namespace laconic

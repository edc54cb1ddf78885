// elias: QSGD's code. For each level that is not zero: the gap to it, its sign, its magnitude, gap
// and magnitude as Elias omega codes. Short where zeros and ones are many.
#include "laconic/codecs/elias.h"

#include "laconic/codecs/levels.h"
#include "laconic/codecs/varint.h"

namespace laconic {
namespace {

// Gaps add up to the count at most, so their codes are longest when they are all 1 or one is long.
std::size_t max_size(std::size_t count, std::int32_t most) {
  const std::size_t level = most > 1 ? omega_length(static_cast<std::uint32_t>(most)) : 0;
  return varint_size(count) + (count * (2 + 1 + level) + omega_length(~std::uint32_t{0})) / 8 + 1;
}

void write(const Levels& levels, Buffer& out, const LevelWork& work) {
  const auto nonzero = nonzero_of(levels, work.positions);
  put_varint(nonzero.size(), out);
  BitWriter bits(out);
  std::int64_t before = -1;
  for (const std::uint32_t position : nonzero) {
    const std::int32_t level = levels[position];
    put_omega(static_cast<std::uint32_t>(position - before), bits);
    bits.put(level < 0, 1);
    if (levels.most > 1) put_omega(magnitude_of(level), bits);
    before = position;
  }
  bits.finish();
}

ByteView read(ByteView bytes, const LevelsTo& levels, const LevelWork&) {
  ByteReader in(bytes);
  const std::uint64_t number = in.varint("the number of levels that are not zero");
  if (number > levels.count || number / 4 > in.left())  // each takes at least two bits
    throw DataError("levels in Elias codes: " + std::to_string(number) + " of " +
                    std::to_string(levels.count) + " levels in " + std::to_string(in.left()) +
                    " bytes");
  std::ranges::fill(levels.small(), std::int8_t{0});
  BitReader bits(in.rest());
  std::uint64_t next = 0;  // the least position that may follow
  for (std::uint64_t i = 0; i < number; ++i) {
    next += get_omega(bits);
    if (next > levels.count) throw DataError("levels in Elias codes: a gap beyond the last entry");
    const bool negative = bits.get(1) != 0;
    const std::uint32_t magnitude = levels.most > 1 ? get_omega(bits) : 1;
    if (magnitude > static_cast<std::uint32_t>(levels.most))
      throw DataError("levels in Elias codes: a level of " + std::to_string(magnitude) +
                      "; allowed: up to " + std::to_string(levels.most));
    const auto level = static_cast<std::int32_t>(magnitude);
    levels.at.set(static_cast<std::size_t>(next - 1), negative ? -level : level);
  }
  return bits.rest();
}

const RegisterLevelCodec elias{{
    .name = "elias",
    .tag = 2,
    .summary = "Gap, sign and magnitude of each level that is not zero, in Elias omega codes.",
    .paper = "Alistarh et al., QSGD (arXiv 1610.02132), section 3.2",
    .bits = "varint(z) + sum of omega(gap) + 1 + omega(magnitude)",
    .takes = [](std::int32_t) { return true; },
    .min_size = [](std::size_t, std::int32_t) -> std::size_t { return 1; },
    .max_size = max_size,
    .write = write,
    .read = read,
}};

}  // namespace
}  // namespace laconic

// The table of level codecs.
#include "laconic/codecs/levels.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "laconic/codecs/fixed.h"
#include "laconic/codecs/huffman.h"
#include "laconic/kernels/level_bits.h"
#include "laconic/kernels/ones.h"
#include "laconic/kernels/wide_bits.h"

namespace laconic {
namespace {

std::vector<LevelCodec>& codecs() {
  static std::vector<LevelCodec> all;
  return all;
}

constexpr std::uint8_t kEscape = 15;

// The sum of the magnitudes of wide levels: no branch asks which are.
std::uint64_t sum_of_wide(std::span<const std::uint8_t> symbols, const std::int32_t* wide) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < symbols.size(); ++i)
    sum += magnitude_of(wide[i]) & (0U - static_cast<std::uint32_t>(symbols[i] == 255));
  return sum;
}

// What symbols have above a byte, of 65535 at most.
void count_above(const Levels& levels, std::size_t from, std::size_t count,
                 std::array<std::uint32_t, 256>& above) {
  std::uint8_t low[kLevelPiece], high[kLevelPiece];
  kernels::split_wide_levels(levels.at.from(from), count, low, high);
  count_bytes({high, count}, above);
}

// Counts symbols from kEscape on, and makes all of them that.
void count_beyond(const Levels& levels, std::size_t from, std::span<std::uint8_t> symbols,
                  LevelCounts& counts, std::array<std::uint32_t, 256>& above) {
  std::array<std::uint32_t, 256> here{};
  count_bytes(symbols, here);
  for (std::size_t s = kEscape; s < 256; ++s) counts.bytes[s] += here[s];
  if (here[255] > 0 && levels.at.wide) {
    counts.magnitudes += sum_of_wide(symbols, levels.at.wide + from);
    count_above(levels, from, symbols.size(), above);
  }
  for (std::uint8_t& symbol : symbols) symbol = std::min(symbol, kEscape);
}

// Counts symbols two by two, in a byte: what single ones are follows from that, but for those from
// kEscape on. Returns whether there are any.
bool count_pairs(const Levels& levels, LevelCounts& counts, std::array<std::uint32_t, 256>& pairs) {
  constexpr std::size_t kAll = 65536, kMany = std::size_t{1} << 20, kStretch = 4096;
  const std::size_t stride = kStretch * (levels.count <= kAll ? 1 : levels.count <= kMany ? 8 : 32);
  bool beyond = false;
  std::array<std::uint32_t, 256> above{};
  std::uint8_t packed[kAll / 2];
  std::size_t size = 0;
  for (std::size_t from = 0; from < levels.count; from += stride) {
    const std::size_t part = std::min(kStretch, levels.count - from);
    std::uint8_t symbols[kStretch];
    if (zigzag(levels.at.small + from, part, symbols) >= kEscape) {
      count_beyond(levels, from, {symbols, part}, counts, above);
      beyond = true;
    }
    pack_bytes(symbols, part, 4, packed + size);
    counts.seen += part;
    size += (part + 1) / 2;
    if (size == sizeof packed) count_bytes({packed, std::exchange(size, 0)}, pairs);
  }
  count_bytes({packed, size}, pairs);
  above[0] += static_cast<std::uint32_t>(
      counts.seen - std::accumulate(above.begin(), above.end(), std::size_t{0}));
  counts.size_of_lanes = counts.seen + huffman_code(above).size;
  return beyond;
}

}  // namespace

const std::vector<LevelCodec>& level_codecs() { return codecs(); }

RegisterLevelCodec::RegisterLevelCodec(LevelCodec codec) {
  const auto at = std::ranges::lower_bound(codecs(), codec.tag, {}, &LevelCodec::tag);
  codecs().insert(at, std::move(codec));
}

const LevelCodec& choose_levels(const LevelCounts& counts) {
  const LevelCodec* best = nullptr;
  std::uint64_t least = 0;
  for (const LevelCodec& codec : codecs()) {
    if (!codec.guess || !codec.takes(counts.most)) continue;
    const std::uint64_t size = codec.guess(counts);
    if (!best || size < least) best = &codec, least = size;
  }
  return *best;
}

LevelCounts count_levels(const Levels& levels) {
  LevelCounts counts{.count = levels.count, .most = levels.most};
  std::array<std::uint32_t, 256> pairs{};
  const bool beyond = count_pairs(levels, counts, pairs);
  std::uint32_t halves[kEscape + 1] = {};
  for (std::size_t high = 0; high < 16; ++high)
    for (std::size_t low = 0; low < 16; ++low) {
      halves[low] += pairs[16 * high + low];
      halves[high] += pairs[16 * high + low];
    }
  halves[0] -= counts.seen % 2;  // what the last is filled up with
  std::copy_n(halves, kEscape, counts.bytes.begin());
  counts.code_of_bytes = huffman_code(counts.bytes);
  counts.code_of_pairs = huffman_code(pairs);
  for (std::uint32_t s = 1; s < (beyond ? 256U : kEscape); ++s) {
    const std::uint32_t magnitude = (s + 1) / 2;
    if (counts.bytes[s] > 0) counts.largest = magnitude;
    if (s < 255) counts.magnitudes += std::uint64_t{counts.bytes[s]} * magnitude;
    if (s >= kEscape) counts.beyond_pairs += counts.bytes[s];
  }
  counts.nonzero = counts.seen - counts.bytes[0];
  counts.beyond_bytes = counts.bytes[255];
  // One large level that no stretch has would make `fixed` look small.
  if (levels.most > kMostWithoutWidth)
    counts.largest = kernels::largest_level(levels.at, levels.count);
  return counts;
}

std::span<const std::uint32_t> nonzero_of(const Levels& levels, Positions& positions) {
  std::uint32_t* to = positions.reset(levels.count + kernels::kSpareOnes).data();
  positions.truncate(kernels::nonzero_levels(levels.at.small, levels.count, to));
  return positions.view();
}

void pack_levels(const std::int8_t* levels, std::size_t count, unsigned width,
                 std::uint8_t* packed) {
  kernels::put_levels(levels, count, width, packed);
}

void pack_levels(const Levels& levels, unsigned width, std::uint8_t* packed, Pool& pool) {
  pool.each((levels.count + kLevelPiece - 1) / kLevelPiece, [&](std::size_t piece, unsigned) {
    const std::size_t from = piece * kLevelPiece;
    pack_levels(levels.at.small + from, std::min(kLevelPiece, levels.count - from), width,
                packed + from / 8 * width);
  });
}

std::uint32_t unpack_levels(ByteView packed, unsigned width, const LevelsTo& levels) {
  if (!padding_is_zero(packed, width, levels.count))
    throw DataError("levels have bits set after the last");
  const std::uint8_t largest =
      kernels::take_levels(packed.data(), levels.count, width, levels.at.small);
  for (std::size_t i = 0; largest == 255 && levels.at.wide && i < levels.count; ++i)
    if (packed[i] == 255) levels.at.set(i, unzigzag(std::uint32_t{255}));
  return largest;
}

void require_within(std::uint32_t largest, std::int32_t most) {
  const std::uint32_t magnitude = largest / 2 + largest % 2;
  if (magnitude > magnitude_of(most))
    throw DataError("levels of fixed width: a level of " + std::to_string(magnitude) +
                    "; allowed: up to " + std::to_string(most));
}

}  // namespace laconic

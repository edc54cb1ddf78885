// Levels: whole numbers from -most to most, one per entry, in as few bytes as can be. How many
// there are and `most` are known to both ends. Each codec is one file and registers itself.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "laconic/codecs/entropy.h"
#include "laconic/codecs/index.h"
#include "laconic/kernels/levels.h"

namespace laconic {

// Levels about to be written, or to be read. Those of up to +-127 are a byte each.
struct Levels {
  kernels::LevelView at;
  std::size_t count = 0;
  std::int32_t most = 0;

  std::int32_t operator[](std::size_t i) const { return at[i]; }
  std::span<const std::int8_t> small() const { return {at.small, count}; }
};
struct LevelsTo {
  kernels::LevelSpan at;
  std::size_t count = 0;
  std::int32_t most = 0;

  std::span<std::int8_t> small() const { return {at.small, count}; }
};

// Up to this most `fixed` has the width that `most` needs, else that of the largest level there is.
inline constexpr std::int32_t kMostWithoutWidth = 32767;

// What codes are chosen by: counts of all levels or, of many, of every eighth or 32nd stretch.
struct LevelCounts {
  std::size_t count = 0;  // of all levels
  std::int32_t most = 0;
  std::size_t seen = 0, nonzero = 0;       // looked at, and not zero among them
  std::uint64_t magnitudes = 0;            // their sum
  std::uint32_t largest = 0;               // of all, where `most` is beyond kMostWithoutWidth
  std::array<std::uint32_t, 256> bytes{};  // as codes by symbol see them: levels_pairs.cpp
  HuffmanCode code_of_bytes = {}, code_of_pairs = {};  // for levels one by one, and two by two
  std::size_t beyond_bytes = 0, beyond_pairs = 0;
  std::uint64_t size_of_lanes = 0;  // about the bytes of those seen as two lanes of bytes

  // What a number counted among those seen is among all.
  std::uint64_t of_all(std::uint64_t number) const {
    return seen == 0 ? 0
                     : static_cast<std::uint64_t>(
                           static_cast<double>(number) *
                           (static_cast<double>(count) / static_cast<double>(seen)));
  }
};
LevelCounts count_levels(const Levels& levels);

// Working memory, kept between calls.
struct LevelWork {
  Positions& positions;
  Entropy& entropy;
  Pool& pool;
  const LevelCounts* counts = nullptr;  // of the levels to be written, if known
};

struct LevelCodec {
  std::string name;  // as in "qsgd:4+levels:elias"
  unsigned tag;      // what stands for it on the wire: 0 to 255
  std::string summary, paper;
  std::string bits = {};  // what it writes, in one line

  bool (*takes)(std::int32_t most);  // whether it can write such levels
  // The bits that each level takes, whatever it is, where all that write appends is what
  // pack_levels makes of them; 0 else. None: never.
  unsigned (*packed)(std::int32_t most) = nullptr;
  // About the bytes that write appends. None: the codec is for those who name it.
  std::uint64_t (*guess)(const LevelCounts&) = nullptr;
  // Bounds on that for `count` levels.
  std::size_t (*min_size)(std::size_t count, std::int32_t most);
  std::size_t (*max_size)(std::size_t count, std::int32_t most);
  void (*write)(const Levels&, Buffer& out, const LevelWork& work);
  // Reads levels off the front and returns what follows. Throws DataError unless the bytes are what
  // write makes of levels within -most..most.
  ByteView (*read)(ByteView bytes, const LevelsTo& levels, const LevelWork& work);
};

// In the order of their tags.
const std::vector<LevelCodec>& level_codecs();

struct RegisterLevelCodec {
  explicit RegisterLevelCodec(LevelCodec codec);
};

// The codec that the counts promise the fewest bytes, the lowest tag among equals. Nothing is
// encoded to find out.
const LevelCodec& choose_levels(const LevelCounts& counts);

// Makes `positions` those of levels that are not zero.
std::span<const std::uint32_t> nonzero_of(const Levels& levels, Positions& positions);

inline std::uint32_t magnitude_of(std::int32_t level) {
  return level < 0 ? 0U - static_cast<std::uint32_t>(level) : static_cast<std::uint32_t>(level);
}

// 0, -1, 1, -2, 2 ... as 0, 1, 2, 3, 4 ...
inline std::uint32_t zigzag(std::int32_t level) {
  return static_cast<std::uint32_t>(level) << 1 ^ static_cast<std::uint32_t>(level >> 31);
}
inline std::int32_t unzigzag(std::uint32_t symbol) {
  return static_cast<std::int32_t>(symbol >> 1 ^ (0U - (symbol & 1)));
}

// The same for levels that are a byte: kWide becomes 255. Returns the largest symbol.
inline std::uint8_t zigzag(const std::int8_t* levels, std::size_t count, std::uint8_t* symbols) {
  std::uint8_t largest = 0;
  for (std::size_t i = 0; i < count; ++i) {
    symbols[i] = static_cast<std::uint8_t>(levels[i] << 1 ^ levels[i] >> 7);
    largest = std::max(largest, symbols[i]);
  }
  return largest;
}
inline std::uint8_t unzigzag(const std::uint8_t* symbols, std::size_t count, std::int8_t* levels) {
  std::uint8_t largest = 0;
  for (std::size_t i = 0; i < count; ++i) {
    largest = std::max(largest, symbols[i]);
    levels[i] = static_cast<std::int8_t>(symbols[i] >> 1 ^ -(symbols[i] & 1));
  }
  return largest;
}

// Levels of which none is beyond a byte as symbols of `width` (1 to 8) bits, and back; packed on
// all threads if there is a pool. Unpacking throws DataError when bits are set after the last, and
// returns the largest symbol.
void pack_levels(const std::int8_t* levels, std::size_t count, unsigned width,
                 std::uint8_t* packed);
void pack_levels(const Levels& levels, unsigned width, std::uint8_t* packed, Pool& pool);
std::uint32_t unpack_levels(ByteView packed, unsigned width, const LevelsTo& levels);
// Throws DataError when the largest symbol of levels in fixed width stands for more than `most`.
void require_within(std::uint32_t largest, std::int32_t most);

// How many levels pass through a buffer on the stack at a time.
inline constexpr std::size_t kLevelPiece = 4096;

}  // namespace laconic

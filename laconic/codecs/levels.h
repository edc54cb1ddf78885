// Levels: whole numbers from -most to most, one per entry, in as few bytes as can be. How many
// there are and `most` are known to both ends. Each codec is one file and registers itself.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "laconic/codecs/index.h"

namespace laconic {

// Levels about to be written, and what every codec asks of them.
struct Levels {
  std::span<const std::int32_t> all;
  std::int32_t most = 0;
  std::span<const std::uint32_t> nonzero;  // positions
  std::uint32_t largest = 0;               // magnitude
};

struct LevelCodec {
  std::string name;  // as in "qsgd:4+levels:elias"
  unsigned tag;      // what stands for it on the wire: 0 to 255
  std::string summary, paper;
  std::string bits = {};  // what it writes, in one line

  bool (*takes)(std::int32_t most);  // whether it can write such levels
  // Exactly the bytes that write appends.
  std::size_t (*size)(const Levels&);
  // Bounds on that for `count` levels.
  std::size_t (*min_size)(std::size_t count, std::int32_t most);
  std::size_t (*max_size)(std::size_t count, std::int32_t most);
  void (*write)(const Levels&, Buffer& out);
  // Reads levels.size() levels off the front and returns what follows. Throws DataError unless the
  // bytes are what write makes of levels within -most..most. `work` is working memory.
  ByteView (*read)(ByteView bytes, std::int32_t most, std::span<std::int32_t> levels,
                   Positions& work);
};

// In the order of their tags.
const std::vector<LevelCodec>& level_codecs();

struct RegisterLevelCodec {
  explicit RegisterLevelCodec(LevelCodec codec);
};

// The codec whose size is smallest, the lowest tag among equals.
const LevelCodec& smallest_levels(const Levels& levels);

// Finds the non-zero ones; `work` holds their positions as long as the result is used.
Levels survey(std::span<const std::int32_t> levels, std::int32_t most, Positions& work);

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

}  // namespace laconic

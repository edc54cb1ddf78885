// The table of level codecs.
#include "laconic/codecs/levels.h"

#include <algorithm>

namespace laconic {
namespace {

std::vector<LevelCodec>& codecs() {
  static std::vector<LevelCodec> all;
  return all;
}

}  // namespace

const std::vector<LevelCodec>& level_codecs() { return codecs(); }

RegisterLevelCodec::RegisterLevelCodec(LevelCodec codec) {
  const auto at = std::ranges::lower_bound(codecs(), codec.tag, {}, &LevelCodec::tag);
  codecs().insert(at, std::move(codec));
}

const LevelCodec& smallest_levels(const Levels& levels) {
  const LevelCodec* best = nullptr;
  std::size_t least = 0;
  for (const LevelCodec& codec : codecs()) {
    if (!codec.takes(levels.most)) continue;
    const std::size_t size = codec.size(levels);
    if (!best || size < least) best = &codec, least = size;
  }
  return *best;
}

Levels survey(std::span<const std::int32_t> levels, std::int32_t most, Positions& work) {
  std::uint32_t* positions = work.reset(levels.size()).data();
  std::size_t number = 0;
  std::uint32_t largest = 0;
  for (std::size_t i = 0; i < levels.size(); ++i) {
    positions[number] = static_cast<std::uint32_t>(i);
    number += levels[i] != 0;
    largest = std::max(largest, magnitude_of(levels[i]));
  }
  work.truncate(number);
  return {levels, most, work.view(), largest};
}

}  // namespace laconic

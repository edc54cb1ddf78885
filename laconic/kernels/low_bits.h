// The lowest bits of levels, as many as the class of each says (kernels/dither.h), side by side in
// a stream: of levels whose symbol says only what is above them.
#pragma once

#include <span>

#include "laconic/kernels/levels.h"

namespace laconic::kernels {

inline constexpr std::size_t kLowRoom = 16;  // bytes behind the last that may be written

// Writes the lowest bits of level + 2^(low - 1) for every level whose class has any; symbols[i] =
// context * 8 + symbol. The first is the lowest bit of to[0], and those left over in the last byte
// are 0. Returns how many bytes there are, at most one for each level.
std::size_t put_low_bits(std::span<const std::uint16_t> symbols, LevelView levels,
                         std::uint8_t* to);

// Where a reader is in such a stream.
struct LowBits {
  const std::uint8_t *at, *end;
  unsigned used = 0;  // bits of *at

  // Whether fewer bits than a byte has are left, all 0.
  bool at_end() const { return used == 0 ? at == end : end - at == 1 && *at >> used == 0; }
};

// Makes levels of symbols, of which the first stands for `least`, and what `bits` has of those
// whose class has any. Where the symbol is 7, small[i] becomes these bits. Groups of 64 of which no
// class has any may be left as they are: as their symbols say. Returns false when bits are missing.
bool take_low_bits(std::span<const std::uint8_t> symbols, const std::uint8_t* contexts,
                   std::int32_t least, LowBits& bits, LevelSpan levels);

}  // namespace laconic::kernels

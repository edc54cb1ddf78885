// Subtractive dither on vector lanes: entries to whole numbers of steps of their own, and back. The
// receiver draws what the sender drew, and takes it off again.
//
// With h = Key::bits32 of the entry's position, m = 2 (h >> 8) + 1 - 2^24 is odd, and u = m / 2^25
// is the dither, uniform in (-1/2, 1/2) and never 0. All is mirrored where u is below 0, so that
// only |u| is left to look at: a mirrored level is sign(u) times the level.
#pragma once

#include <span>

#include "laconic/base/key.h"
#include "laconic/kernels/levels.h"

namespace laconic::kernels {

inline constexpr std::size_t kDitherScales = 128;    // that entries may have
inline constexpr std::uint8_t kDitherNowhere = 127;  // the scale of entries that are not sent
inline constexpr std::size_t kDitherClasses = 32;    // of scales, by which levels are coded
inline constexpr std::size_t kDitherBins = 8;        // of |u|
inline constexpr std::size_t kDitherSymbols = 8;
inline constexpr std::int32_t kLeastSymbol = -2;  // what symbol 0 stands for; the last: all others

// Of levels of a class, so many lowest bits go apart; what is left is a symbol.
constexpr std::uint32_t dither_low(std::uint32_t cls) { return cls < 16 ? 0 : (cls - 14) / 2; }

// What belongs to each scale.
struct DitherSteps {
  float step[kDitherScales];          // 0: entries are 0 and not sent
  float inverse[kDitherScales];       // 1 / step; 0: the same
  std::uint32_t code[kDitherScales];  // class * kDitherBins; 0: not sent
};

// Which scale an entry has: scales[i], or scales[i / 64].
struct DitherScales {
  const std::uint8_t* scales;
  bool by_group;  // of 64 entries
};

// levels[i] = the mirrored floor(x[i] / step + u + 1/2), in float and in this order, within +-2^30;
// 0 where nothing is sent. symbols[i] = (class and bin of |u|) * kDitherSymbols + symbol. With
// `low` bits apart, the bin is of (|u| + 1/2) / 2^low and the symbol of (level + 2^(low - 1)) >>
// low.
void dither(std::span<const float> x, const DitherSteps& steps, DitherScales scales, Key own,
            std::uint64_t first, LevelSpan levels, std::uint16_t* symbols);

// The same contexts, without a symbol: contexts[i] = class and bin of |u|.
void dither_contexts(std::size_t count, const DitherSteps& steps, DitherScales scales, Key own,
                     std::uint64_t first, std::uint8_t* contexts);

// y[i] += weight * the value of levels[i]: (level - |u|) * step, mirrored, plus base[i] if there is
// any, in float; finite.
void add_dithered(LevelView levels, const DitherSteps& steps, DitherScales scales, Key own,
                  std::uint64_t first, const float* base, float weight, std::span<float> y);

// The same for levels that no dither moves and whose bin is 0: their symbols, with `least` in place
// of kLeastSymbol, and their contexts.
void levels_in_classes(LevelView levels, std::size_t count, const DitherSteps& steps,
                       DitherScales scales, std::int32_t least, std::uint16_t* symbols);
void class_contexts(std::size_t count, const DitherSteps& steps, DitherScales scales,
                    std::uint8_t* contexts);

}  // namespace laconic::kernels

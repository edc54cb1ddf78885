// The 8-bit form of natural compression where entries lie below the window of their block.
#pragma once

#include <span>

#include "laconic/base/key.h"
#include "laconic/kernels/natural.h"

namespace laconic::kernels {

// Makes codes[i] zero or the lowest level, whose field is base + 1, for every entry below it that
// is not zero; others stay. To the nearest it is the level for what is above half of it. At random
// it is so with probability |x| / level, decided on integers: with m the significand and s the
// distance in binades this is m / 2^24 by the draw, and s - 1 fair coins, coin j being up where bit
// 0 of draws.own().fork(first + i).bits(j) is 0; of what is subnormal, where base is 0, m / 2^23.
void natural8_below(std::span<const float> x, Rounding rounding, const Draws& draws,
                    std::uint64_t first, std::uint32_t base, std::uint8_t* codes);

}  // namespace laconic::kernels

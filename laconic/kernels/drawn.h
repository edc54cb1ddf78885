// Draws of numbers below growing limits, a vector at a time: the positions that Floyd's choice asks
// for.
#pragma once

#include <span>

#include "laconic/base/key.h"

namespace laconic::kernels {

// out[i] = floor(key.bits(j) * (j + 1) / 2^64) with j = first + i: one of 0..j. first + out.size()
// is below 2^32.
void draw_below(Key key, std::uint32_t first, std::span<std::uint32_t> out);

}  // namespace laconic::kernels

// How likely levels of subtractive dither are: laws of entries in units of their step, from a
// family so small that a byte names one.
//
// P(|entry| > t) is one of eight functions G of t / b, from a bell curve to tails that fall like
// t^(-1/2). Only + - * / and square roots make the shares of symbols, so every machine makes the
// same.
#pragma once

#include <array>
#include <span>

#include "laconic/codecs/contexts.h"
#include "laconic/kernels/dither.h"

namespace laconic {

using DitherShares = std::array<ContextShares, kernels::kDitherBins>;

// Shares of the symbols in each bin of |u|, for entries of class 1 to 31 that have law `law`: shape
// law >> 5, and b = 2^(i / 4) with i = 2 (class - 14) + (law & 31) - 16; of classes with low bits
// apart, in units of 2^low steps.
DitherShares dither_shares(std::size_t cls, std::uint8_t law);

// The same for levels of a grid, -3 to 3 and all others, rounded at random: those of round(entry +
// u) for u uniform in (-1/2, 1/2).
ContextShares grid_shares(std::size_t cls, std::uint8_t law);

// The class of entries whose variance is so many squared steps.
std::size_t dither_class(double ratio);

// The law by which symbols that occur so often, bin by bin, take the fewest bits, or nearly so.
std::uint8_t fitted_law(std::size_t cls, std::span<const std::uint32_t, 64> counts);
std::uint8_t fitted_grid_law(std::size_t cls, std::span<const std::uint32_t, 8> counts);

}  // namespace laconic

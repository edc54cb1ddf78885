// The entries above 0 and those below, each with a bracket of magnitudes: one pass tells what is
// above it, and moves aside what is in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace laconic::kernels {

struct SideBracket {
  std::uint32_t low = 1, high = 0x7fffffffU;  // magnitudes, low at least 1
  std::uint32_t* inside = nullptr;            // room for all entries and kSpareInside more
  std::size_t number = 0;                     // that were moved there
  std::size_t above = 0;                      // the bracket
  double sum = 0;                             // of those magnitudes, within 2^-20 of itself
};
inline constexpr std::size_t kSpareInside = 16;

// Fills in both brackets. Returns the largest magnitude; NaN counts as larger than Inf.
std::uint32_t bracket_sides(std::span<const float> x, SideBracket& positive, SideBracket& negative);

}  // namespace laconic::kernels

// Gaps between ascending positions, which are the entries left out before each: before the first as
// many as its position says.
#pragma once

#include <cstdint>
#include <span>

namespace laconic::kernels {

// The largest, and how many are at least 2^1 - 1, 2^2 - 1 and so on. There is a position.
struct Gaps {
  static constexpr unsigned kDigits = 5;
  std::uint32_t largest = 0;
  std::uint64_t from[kDigits] = {};
};
Gaps gaps_of(std::span<const std::uint32_t> positions);

// The largest, and the sum of gap >> bits, for bits up to 31: half the work of counting.
struct GapSum {
  std::uint32_t largest = 0;
  std::uint64_t sum = 0;
};
GapSum sum_of_gaps(std::span<const std::uint32_t> positions, unsigned bits);

}  // namespace laconic::kernels

// Positions as words of bits.
#pragma once

#include <cstdint>
#include <span>

namespace laconic::kernels {

// Numbers after the last position that are overwritten.
inline constexpr std::size_t kSpareOnes = 4;

// Writes the positions of the ones, bit i of word w being 64 w + i, and returns how many there are.
std::size_t positions_of(std::span<const std::uint64_t> words, std::uint32_t* to);

}  // namespace laconic::kernels

// Levels beyond a byte as symbols of 9 to 16 bits in zigzag order, next to each other as those of
// level_bits.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "laconic/kernels/levels.h"

namespace laconic::kernels {

// Both work on as many levels from the first on as vectors can, a multiple of 8, and return how
// many. `packed` has the `size` bytes that all of them take. Symbols fit `width`.
std::size_t put_wide_levels(LevelView levels, std::size_t count, unsigned width,
                            std::uint8_t* packed, std::size_t size);

// Also raises `largest` to the largest symbol. Every level is set in `wide` too.
std::size_t take_wide_levels(const std::uint8_t* packed, std::size_t size, std::size_t count,
                             unsigned width, LevelSpan levels, std::uint32_t& largest);

// The symbols of all levels in two arrays of bytes, the lower ones and the higher; those of 65535
// and above are 65535. Returns the largest. And back: that one becomes -32768.
std::uint32_t split_wide_levels(LevelView levels, std::size_t count, std::uint8_t* low,
                                std::uint8_t* high);
std::uint32_t join_wide_levels(const std::uint8_t* low, const std::uint8_t* high, std::size_t count,
                               LevelSpan levels);

}  // namespace laconic::kernels

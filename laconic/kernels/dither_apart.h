// Which levels of subtractive dither are more than their symbols say, found on vector lanes.
#pragma once

#include <cstdint>
#include <span>

namespace laconic::kernels {

// From this context on levels have lowest bits that go apart.
inline constexpr std::size_t kLowContexts = 128;

// Bit i % 8 of bits[i / 8]: whether symbols[i] = context * 8 + symbol is of such a context, or a 7.
void find_apart(std::span<const std::uint16_t> symbols, std::uint8_t* bits);

// The same for symbols and contexts in bytes, and levels[i] = symbols[i] + least.
void to_levels_apart(std::span<const std::uint8_t> symbols, const std::uint8_t* contexts,
                     std::int32_t least, std::int8_t* levels, std::uint8_t* bits);

}  // namespace laconic::kernels

// Which levels are beyond their symbols.
#pragma once

#include <cstdint>
#include <span>

namespace laconic::kernels {

// Bit i % 8 of bits[i / 8]: whether symbols[i] = context * 8 + symbol has a symbol of 7.
void find_escapes(std::span<const std::uint16_t> symbols, std::uint8_t* bits);

// The same for symbols in bytes, and levels[i] = symbols[i] + least.
void to_levels_and_escapes(std::span<const std::uint8_t> symbols, std::int32_t least,
                           std::int8_t* levels, std::uint8_t* bits);

}  // namespace laconic::kernels

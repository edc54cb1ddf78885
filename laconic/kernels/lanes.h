// Symbols of 2 or 4 bytes, any address, as lanes: an array of bytes for each byte position. Symbols
// are turned left by a bit first, so that of floats the sign is lowest and the exponent next to
// the highest: of bfloat16 and of binary32 it is the last lane, of binary16 that begins with it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace laconic::kernels {

// `width` is 2 or 4 bytes; lanes[0] has the lowest ones.
void take_lanes(const std::uint8_t* symbols, std::size_t count, std::size_t width,
                std::uint8_t* const* lanes);
void put_lanes(const std::uint8_t* const* lanes, std::size_t count, std::size_t width,
               std::uint8_t* symbols);

}  // namespace laconic::kernels

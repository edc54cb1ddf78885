// Levels that are a byte each as symbols of a few bits in zigzag order (0, -1, 1, -2, 2 ... are 0,
// 1, 2, 3, 4 ...), next to each other: symbol i stands at bit i * width of a bit stream.
#pragma once

#include <cstddef>
#include <cstdint>

namespace laconic::kernels {

// `width` is 1 to 8, and symbols fit it. What remains of the last byte is 0.
void put_levels(const std::int8_t* levels, std::size_t count, unsigned width, std::uint8_t* packed);

// Returns the largest symbol.
std::uint8_t take_levels(const std::uint8_t* packed, std::size_t count, unsigned width,
                         std::int8_t* levels);

}  // namespace laconic::kernels

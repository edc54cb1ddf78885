// Bytes cut in two: a few low bits, next to each other, and what is above, a byte each or two.
#pragma once

#include <cstddef>
#include <cstdint>

namespace laconic::kernels {

// How bytes are cut: `low` bits (0 to 7) stand at bit i * low of a bit stream; what is above is a
// byte each or, where `paired`, half a byte: that of byte 2 i lower, that of byte 2 i + 1 above it.
struct Split {
  unsigned low = 0;
  bool paired = false;
};

// Returns the largest part above. Where that is beyond 15 and `paired`, `above` means nothing. What
// remains of the last byte of each is 0.
std::uint8_t split_bytes(const std::uint8_t* bytes, std::size_t count, Split cut, std::uint8_t* low,
                         std::uint8_t* above);

// Back; where what is returned is beyond 255 >> cut.low, bytes mean nothing.
std::uint8_t join_bytes(const std::uint8_t* low, const std::uint8_t* above, std::size_t count,
                        Split cut, std::uint8_t* bytes);

// Bytes below 2^width next to each other, as all of them were low bits, and back; `width` is 1
// to 7.
void close_bits(const std::uint8_t* bytes, std::size_t count, unsigned width, std::uint8_t* packed);
void open_bits(const std::uint8_t* packed, std::size_t count, unsigned width, std::uint8_t* bytes);

}  // namespace laconic::kernels

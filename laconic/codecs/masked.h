// Bits that mean something only where a byte is not zero: the others are left out. Signs beside
// exponents, say.
#pragma once

#include "laconic/base/buffer.h"

namespace laconic {

std::size_t count_nonzero(ByteView bytes);

// Appends the bits i of `bits` for which bytes[i] != 0, packed, the last byte filled with 0.
void compact_bits(ByteView bits, ByteView bytes, Buffer& out);

// The way back: bits of zero bytes become 0. `compacted` holds count_nonzero(bytes) bits.
void expand_bits(ByteView compacted, ByteView bytes, std::span<std::uint8_t> bits);

}  // namespace laconic

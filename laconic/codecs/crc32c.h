// CRC-32C (Castagnoli, reflected, polynomial 0x82f63b78): the checksum at the end of a frame.
#pragma once

#include "laconic/base/bytes.h"

namespace laconic {

// Continues a checksum: crc32c(b, crc32c(a)) is that of a followed by b. Uses the CPU's instruction
// where there is one.
std::uint32_t crc32c(ByteView bytes, std::uint32_t before = 0);

// The same by table, on any CPU.
std::uint32_t crc32c_portable(ByteView bytes, std::uint32_t before = 0);

}  // namespace laconic

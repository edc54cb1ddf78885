// Positions as marks, a bit for each entry (kernels/marks.h): what those who want every entry in
// turn read sooner than positions, where many are kept.
#pragma once

#include <optional>

#include "laconic/base/bytes.h"

namespace laconic {

// Reads the marks of `kept` > 0 entries of `count` off the front of `bytes`, where gaps are Rice
// codes with so many low bits (codecs/rice.h), 0 or 1. There is a word for every 64 entries and
// kSpareMarks more, which may be overwritten. Returns what follows; nothing where there is an
// escape or anything wrong.
inline constexpr std::size_t kSpareMarks = 2;
std::optional<ByteView> marks_of_rice(ByteView bytes, unsigned low_bits, std::size_t count,
                                      std::size_t kept, std::uint64_t* marks);

}  // namespace laconic

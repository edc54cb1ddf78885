// Positions as marks, a bit for each entry (kernels/marks.h): what those who want every entry in
// turn read sooner than positions, where many are kept.
#pragma once

#include <optional>

#include "laconic/base/buffer.h"
#include "laconic/kernels/marks.h"

namespace laconic {

// Reads the marks of `kept` > 0 entries of `count` off the front of `bytes`, where gaps are Rice
// codes with so many low bits (codecs/rice.h), 0 or 1. There is a word for every 64 entries and
// kSpareMarks more, which may be overwritten. Returns what follows; nothing where there is an
// escape or anything wrong.
inline constexpr std::size_t kSpareMarks = 2;
std::optional<ByteView> marks_of_rice(ByteView bytes, unsigned low_bits, std::size_t count,
                                      std::size_t kept, std::uint64_t* marks);

// The code of fewest bytes for entries that are marked, where that is told from their marks: it is
// then the one that smallest_index finds for their positions.
struct MarkedCode {
  unsigned tag;       // of a codec of positions (codecs/index.h)
  bool rice;          // or a bitmap
  unsigned low_bits;  // of Rice codes, 0 or 1
  std::size_t bits;
  std::size_t count;  // of entries
  kernels::MarkGaps gaps;
};
std::optional<MarkedCode> smallest_of_marks(std::span<const std::uint64_t> marks, std::size_t kept,
                                            std::size_t count);

// Appends their positions in it.
void put_marked(const MarkedCode& code, std::span<const std::uint64_t> marks, Buffer& out);

}  // namespace laconic

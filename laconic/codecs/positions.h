// What the codecs of positions share: widths, gaps, and what they refuse.
#pragma once

#include <algorithm>
#include <bit>
#include <string>

#include "laconic/base/errors.h"
#include "laconic/codecs/fixed.h"
#include "laconic/codecs/index.h"

namespace laconic {

// Bits that hold every number below `count`; 0 for a count of 1.
inline unsigned width_below(std::size_t count) {
  return static_cast<unsigned>(std::bit_width(count - 1));
}

// Calls visit(g) with the number of entries left out before each position.
template <class Visit>
void for_gaps(std::span<const std::uint32_t> positions, Visit visit) {
  if (!positions.empty()) visit(positions[0]);
  for (std::size_t j = 1; j < positions.size(); ++j) visit(positions[j] - positions[j - 1] - 1);
}

// The sum of length(g) over all gaps; of neighbours without a gap, which are told by their ends, at
// once.
template <class Length>
std::uint64_t sum_over_gaps(std::span<const std::uint32_t> positions, Length length) {
  if (positions.empty()) return 0;
  const std::size_t more = positions.size() - 1;
  if (positions.back() - positions.front() == more)
    return length(positions.front()) + more * std::uint64_t{length(0U)};
  std::uint64_t sum = 0;
  for_gaps(positions, [&](std::uint32_t gap) { sum += length(gap); });
  return sum;
}

// Whether the first `count` are the entries from `from` on, none left out.
inline bool all_from(std::span<const std::uint32_t> positions, std::size_t from,
                     std::size_t count) {
  return positions.size() >= count && positions[0] == from &&
         positions[count - 1] == from + count - 1;
}

// Appends a bit for each of `count` entries, `mark` at positions and its opposite elsewhere: made
// of a byte each, eight at a time.
inline void put_marks(std::span<const std::uint32_t> positions, std::size_t count, bool mark,
                      Buffer& out) {
  constexpr std::size_t kPiece = 4096;
  std::uint8_t* const to = out.grow(packed_size(1, count));
  auto next = positions.begin();
  for (std::size_t from = 0; from < count; from += kPiece) {
    const std::size_t part = std::min(kPiece, count - from);
    if (part == kPiece && all_from({next, positions.end()}, from, part)) {
      std::fill_n(to + from / 8, part / 8, static_cast<std::uint8_t>(mark ? 255 : 0));
      next += static_cast<std::ptrdiff_t>(part);
      continue;
    }
    std::uint8_t bits[kPiece];
    std::fill_n(bits, part, static_cast<std::uint8_t>(!mark));
    for (; next != positions.end() && *next < from + part; ++next) bits[*next - from] = mark;
    pack_bytes(bits, part, 1, to + from / 8);
  }
}

[[noreturn]] inline void refuse_beyond(std::uint64_t position, std::size_t count) {
  throw DataError("position " + std::to_string(position) + " is not among " +
                  std::to_string(count) + " entries");
}

// The way back: read() gives the number of entries left out before the next position.
template <class Read>
void fill_from_gaps(std::span<std::uint32_t> positions, std::size_t count, Read read) {
  std::uint64_t next = 0;
  for (std::uint32_t& position : positions) {
    next += read();
    if (next >= count) refuse_beyond(next, count);
    position = static_cast<std::uint32_t>(next++);
  }
}

// Throws DataError unless the positions ascend and stay below `count`.
inline void expect_ascending(std::span<const std::uint32_t> positions, std::size_t count) {
  for (std::size_t j = 1; j < positions.size(); ++j)
    if (positions[j] <= positions[j - 1])
      throw DataError("position " + std::to_string(positions[j]) + " comes after position " +
                      std::to_string(positions[j - 1]));
  if (!positions.empty() && positions.back() >= count) refuse_beyond(positions.back(), count);
}

}  // namespace laconic

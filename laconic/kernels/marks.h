// Entries that are marked by a bit each: that of entry i is bit i % 64 of word i / 64.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace laconic::kernels {

// How many are marked.
std::size_t count_marks(std::span<const std::uint64_t> marks);

// y[i] += weight * the next of `values`, for each i that is marked; marks beyond y's end mean
// nothing. Up to kSpareValues values after the last are read.
inline constexpr std::size_t kSpareValues = 16;
void add_marked(const std::uint64_t* marks, const float* values, float weight, std::span<float> y);

// Makes marks of bits of which each stands for an entry, 0 if it is marked, up to the last of
// `kept` > 0 marks. Returns how many bits that are; 0 where there are fewer marks, where they go
// beyond `count` entries, or where `run` (1 to 63) ones stand next to each other before the last.
// There is a word for every 64 entries; bits beyond the last mark are 0.
std::size_t marks_of_zeros(std::span<const std::uint8_t> bits, std::size_t count, std::size_t kept,
                           unsigned run, std::uint64_t* marks);

// The gaps before marks (kernels/gaps.h): how many are of an odd number of entries, of one or more
// and of three or more; one above the last mark; and the long ones, of at least `run` (2 to 63)
// entries, in order. `more` than can be told.
struct MarkGaps {
  static constexpr std::size_t kLong = 64;
  struct Long {
    std::uint32_t mark, gap;  // the position of the mark after it, and its entries
  };
  std::size_t odd = 0, some = 0, three = 0, end = 0;
  Long longs[kLong];
  std::size_t number = 0;  // of them
  bool more = false;

  void take(std::size_t mark, std::size_t gap) {
    more |= number == kLong;
    if (!more)
      longs[number++] = {static_cast<std::uint32_t>(mark), static_cast<std::uint32_t>(gap)};
  }
};
MarkGaps gaps_of_marks(std::span<const std::uint64_t> marks, unsigned run);

}  // namespace laconic::kernels

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

}  // namespace laconic::kernels

// Floats to bins between cuts, and back to what a bin is worth.
#pragma once

#include <cstdint>
#include <span>

namespace laconic::kernels {

inline constexpr unsigned kMostBinBits = 4;
inline constexpr std::size_t kMostBins = std::size_t{1} << kMostBinBits;

// 2^bits bins, half of them for entries from zero on: an entry is in the bin after as many cuts as
// it is above, or below if it is negative. Cuts ascend, those of negative entries descend.
struct BinCuts {
  unsigned bits = 1;
  float above[kMostBins / 2], below[kMostBins / 2];

  std::size_t cuts() const { return (std::size_t{1} << (bits - 1)) - 1; }
  std::uint8_t negative() const { return static_cast<std::uint8_t>(1U << (bits - 1)); }
};

void to_bins(std::span<const float> x, const BinCuts& cuts, std::uint8_t* bins);

// The magnitudes of each bin's entries, in their order; a vector more may be overwritten.
inline constexpr std::size_t kBinPiece = 1024;
struct Binned {
  float magnitudes[kMostBins][kBinPiece + 64];
  std::uint32_t sizes[kMostBins];
};
// Of at most kBinPiece entries. Returns the largest magnitude, as bits.
std::uint32_t part_in_bins(std::span<const float> x, const BinCuts& cuts, Binned& to);

// y[i] += worth[bins[i]]; all kMostBins are read.
void add_bins(const std::uint8_t* bins, const float* worth, std::span<float> y);

}  // namespace laconic::kernels

// Floats as 8 bits each and a power of two for every 64 of them, rounded at random without bias:
// how a residual may be kept.
#pragma once

#include <cstdint>
#include <span>

#include "laconic/base/key.h"

namespace laconic::kernels {

inline constexpr std::size_t kRounded = 64;  // entries that share a step

// Entry i is codes[i] * 2^(e - 127), where e = exponents[i / 64] is the exponent field of a float
// and 0 stands for zeros. The step is the least power of two, from 2^-126 on, of which no entry is
// more than 127: between 1/127 and 1/63.5 of the largest. An entry goes up or down to a multiple of
// it so that the mean is the entry, to 2^-23 of a step; one that is such a multiple stays. Beyond
// 63 times 2^122, near the largest float, entries stay at that. What is not finite becomes
// anything.
//
// `first` is the position of x[0] in the model, which draws are made at: the 64 entries from
// position p on draw from own.fork(p).
void round_to_bytes(std::span<const float> x, Key own, std::uint64_t first, std::int8_t* codes,
                    std::uint8_t* exponents);

// The entries from the one with number `from`, at most 63, of those 64 on.
void bytes_to_floats(const std::int8_t* codes, const std::uint8_t* exponents, std::size_t from,
                     std::span<float> y);

}  // namespace laconic::kernels

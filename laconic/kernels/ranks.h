// The largest of a few candidates by their ranks: how many come before each. No branch depends on
// one.
#pragma once

#include <cstddef>
#include <cstdint>

namespace laconic::kernels {

// Of the first kRanked candidates, positions ascending, those below `end` are one run. Writes
// positions and values of the `kept` of largest magnitude of it, the first among equals, in their
// order; none of them is 0. kRanked candidates are read and overwritten.
inline constexpr std::size_t kRanked = 64;
struct Ranked {
  std::size_t run, number;  // in the run: at least so many where it is kRanked; and written
};
Ranked keep_by_rank(const std::uint32_t* positions, const float* values, std::uint32_t end,
                    std::size_t kept, std::uint32_t* to, float* to_value);

}  // namespace laconic::kernels

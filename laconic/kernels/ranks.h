// The largest of a few candidates by their ranks: how many are larger. No branch depends on one.
#pragma once

#include <cstddef>
#include <cstdint>

namespace laconic::kernels {

// Of the first kRanked candidates, positions ascending, those below `end` are one run. Writes its
// positions and values of which fewer than `kept` are larger by magnitude, in their order: more
// than `kept` where some are equal. kRanked candidates are read and overwritten.
inline constexpr std::size_t kRanked = 32;
struct Ranked {
  std::size_t run, number;  // in the run: at least so many where it is kRanked; and written
};
Ranked keep_by_rank(const std::uint32_t* positions, const float* values, std::uint32_t end,
                    std::size_t kept, std::uint32_t* to, float* to_value);

}  // namespace laconic::kernels

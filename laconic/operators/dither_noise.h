// How much noise entries of each scale get: steps in closed form.
#pragma once

#include <array>
#include <cstdint>

#include "laconic/kernels/dither.h"

namespace laconic {

inline constexpr std::uint8_t kMostSteps = 62;  // that a row or column is below the largest
inline constexpr std::uint8_t kNowhere = 127;   // the scale of entries that are not sent

// What stands on the wire of all scales.
struct Loudness {
  std::int16_t exponent = 0;  // s^2 = 4^exponent 2^-k for an entry of scale k
  float c = 0;                // in units of 4^exponent
};

using ScaleCounts = std::array<std::uint64_t, kernels::kDitherScales>;  // entries of each scale

// The float c whose noise adds up to `target`, in units of 4^exponent, or a little less.
float solved_noise(const ScaleCounts& entries, double target);

// Steps, classes and low bits of every scale.
kernels::DitherSteps dither_steps(const Loudness& loudness);

}  // namespace laconic

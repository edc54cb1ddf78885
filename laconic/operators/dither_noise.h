// How much noise entries of each scale get: steps in closed form.
#pragma once

#include <array>
#include <cstdint>

#include "laconic/kernels/dither.h"

namespace laconic {

inline constexpr std::uint8_t kMostSteps = 62;  // that a row or column is below the largest
inline constexpr std::uint8_t kNowhere = kernels::kDitherNowhere;

// What stands on the wire of all scales.
struct Loudness {
  std::int16_t exponent = 0;  // s^2 = 4^exponent 2^-k for an entry of scale k
  float c = 0;                // in units of 4^exponent
};

using ScaleCounts = std::array<std::uint64_t, kernels::kDitherScales>;  // entries of each scale

// The float c whose noise adds up to `target`, or a little less. Of `loudness` the exponent counts.
float solved_noise(const ScaleCounts& entries, const Loudness& loudness, double target);

// About how many bits the level of an entry takes whose variance is `ratio` of its noise, and those
// of entries of all scales take together. Made of + - * / and square roots: it decides bytes.
double dither_bits(double ratio);
double dither_bits(const ScaleCounts& entries, const Loudness& loudness);

// Steps, classes and low bits of every scale.
kernels::DitherSteps dither_steps(const Loudness& loudness);

}  // namespace laconic

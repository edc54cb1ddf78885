// Noise by scale.
#include "laconic/operators/dither_noise.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "laconic/operators/dither_model.h"

namespace laconic {
namespace {

// 2^-k, of a scale.
double variance_of(int k) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(1023 - k) << 52);
}

// N in units of 4^exponent, of scale k.
double noise_of(double c, int k) {
  const double s = variance_of(k);
  return 2 * c * s / (std::sqrt(s * s + 4 * c * s) + s);
}

double log2_of(double v) {
  int exponent = 0;
  double m = std::frexp(v, &exponent);
  if (m < 0x1.6a09e667f3bcdp-1) m *= 2, --exponent;
  const double t = (m - 1) / (m + 1), t2 = t * t;
  constexpr double kTwice = 2.8853900817779268;  // 2 / ln 2
  return exponent + kTwice * t * (1 + t2 * (1.0 / 3 + t2 * (0.2 + t2 * (1.0 / 7 + t2 / 9))));
}

}  // namespace

// 1/2 log2(2 pi e / 12 ratio) where it is large; where it is small, the square root is what
// rounding with a dither adds to 1/2 log2(1 + ratio).
double dither_bits(double ratio) { return log2_of(1 + 1.42 * ratio + 0.7 * std::sqrt(ratio)) / 2; }

double dither_bits(const ScaleCounts& entries, const Loudness& loudness) {
  double sum = 0;
  for (int k = 0; k < kNowhere; ++k) {
    const auto some = static_cast<double>(entries[static_cast<std::size_t>(k)]);
    if (some > 0) sum += some * dither_bits(variance_of(k) / noise_of(loudness.c, k));
  }
  return sum;
}

// N is concave in c and at most c: from target / entries on, Newton's steps come near from below.
float solved_noise(const ScaleCounts& entries, const Loudness& loudness, double target) {
  target = std::ldexp(target, -2 * loudness.exponent);
  std::uint64_t all = 0;
  for (const std::uint64_t some : entries) all += some;
  double c = target / static_cast<double>(all);
  const auto sum_at = [&](double c, double& slope) {
    double sum = 0;
    slope = 0;
    for (std::size_t k = 0; k < kNowhere; ++k) {
      if (entries[k] == 0) continue;
      const double s = variance_of(static_cast<int>(k));
      const double root = std::sqrt(s * s + 4 * c * s), n = static_cast<double>(entries[k]);
      sum += n * (2 * c * s / (root + s));
      slope += n * (s / root);
    }
    return sum;
  };
  for (int i = 0; i < 60; ++i) {
    double slope = 0;
    const double step = (target - sum_at(c, slope)) / slope;
    c += step;
    if (step <= c * 1e-9) break;
  }
  auto result = static_cast<float>(c);
  double slope = 0;
  while (sum_at(result, slope) > target) result = std::nextafter(result, 0.0F);
  return result;
}

kernels::DitherSteps dither_steps(const Loudness& loudness) {
  kernels::DitherSteps steps{};
  for (int k = 0; k <= 2 * kMostSteps; ++k) {
    const double noise = noise_of(loudness.c, k);
    const double exact = std::min(std::ldexp(std::sqrt(12 * noise), loudness.exponent), 0x1p126);
    auto step = static_cast<float>(exact);
    if (step > exact) step = std::nextafter(step, 0.0F);
    if (!(step >= std::numeric_limits<float>::min())) continue;
    const std::size_t cls = dither_class(variance_of(k) / (12 * noise));
    steps.step[k] = step;
    steps.inverse[k] = 1 / step;
    steps.code[k] = static_cast<std::uint32_t>(cls * kernels::kDitherBins);
  }
  return steps;
}

}  // namespace laconic

// Noise by scale.
#include "laconic/operators/dither_noise.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "laconic/operators/dither_model.h"

namespace laconic {
namespace {

// N in units of 4^exponent, of scale k.
double noise_of(double c, int k) {
  const double s = std::ldexp(1.0, -k);
  return 2 * c * s / (std::sqrt(s * s + 4 * c * s) + s);
}

}  // namespace

// N is concave in c and at most c: from target / entries on, Newton's steps come near from below.
float solved_noise(const ScaleCounts& entries, double target) {
  std::uint64_t all = 0;
  for (const std::uint64_t some : entries) all += some;
  double c = target / static_cast<double>(all);
  const auto sum_at = [&](double c, double& slope) {
    double sum = 0;
    slope = 0;
    for (std::size_t k = 0; k < kNowhere; ++k) {
      if (entries[k] == 0) continue;
      const double s = std::ldexp(1.0, -static_cast<int>(k));
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
    const std::size_t cls = dither_class(std::ldexp(1.0, -k) / (12 * noise));
    steps.step[k] = step;
    steps.inverse[k] = 1 / step;
    steps.code[k] = static_cast<std::uint32_t>(cls * kernels::kDitherBins);
  }
  return steps;
}

}  // namespace laconic

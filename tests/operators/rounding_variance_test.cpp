// What is known of the variance of rounding without a pass is what exact sums say.
#include "laconic/operators/rounding_variance.h"

#include "tests/kernels/inputs.h"

namespace laconic::testing {
namespace {

bool exceeds(std::span<const float> x, float step, double target) {
  const auto at = static_cast<double>(step);
  return kernels::spread(x, step) * at * at > target;
}

// By halving, down to neighbouring floats, where no bound can tell; then at steps in no order, with
// all that was looked at on the way.
void expect_exact(std::span<const float> x, double share) {
  const double target = share * kernels::sum_of_squares(x);
  const auto count = static_cast<double>(x.size());
  RoundingVariance variance(x, target);
  float low = static_cast<float>(std::sqrt(4 * target / count) / 2), high = 16 * low;
  if (!(low > 0 && std::isfinite(high))) return;
  std::mt19937_64 random(x.size());
  std::vector<float> steps;
  while (std::nextafter(low, high) < high) {
    const float middle = low + (high - low) / 2;
    const bool above = exceeds(x, middle, target);
    ASSERT_EQ(variance.exceeds(middle), above) << middle << " " << share;
    (above ? high : low) = middle;
    steps.push_back(low + (high - low) * static_cast<float>(random() % 100) / 50);
    steps.push_back(low * static_cast<float>(1 + random() % 300) / 100);
  }
  for (const float step : steps) {
    if (!(step > 0 && std::isfinite(step))) continue;
    ASSERT_EQ(variance.exceeds(step), exceeds(x, step, target)) << step << " " << share;
  }
}

TEST(RoundingVariance, IsThatOfExactSums) {
  for (const std::size_t count : {1, 2, 3, 63, 64, 65, 1000, 5000, 20000})
    for (const Input& input : inputs(count)) {
      SCOPED_TRACE(std::string(input.name) + ", " + std::to_string(count));
      for (const double share : {0.001, 0.125, 0.5, 4.0}) expect_exact(input.values, share);
      if (::testing::Test::HasFailure()) return;
    }
}

// Steps above the target are all that was looked at: how much changes below them nobody knows.
TEST(RoundingVariance, IsThatOfExactSumsBelowAllThatWasLookedAt) {
  for (const std::size_t count : {127, 1000, 5000}) {
    const std::vector<float> x = gaussian(count);
    for (const double share : {0.001, 0.002, 0.125}) {
      const double target = share * kernels::sum_of_squares(x);
      const double met = std::sqrt(6 * target / static_cast<double>(count));
      RoundingVariance variance(x, target);
      for (int i = 0; i < 12; ++i) variance.look(met * (1 + 0.002 * i));
      for (double step = met; step > 0.99 * met; step -= 1e-5 * met) {
        const auto at = static_cast<float>(step);
        ASSERT_EQ(variance.exceeds(at), exceeds(x, at, target)) << at << " " << share;
      }
    }
  }
}

// Most steps of a search are answered by a few looks.
TEST(RoundingVariance, KnowsWhereTheTargetIsMet) {
  const std::vector<float> x = gaussian(10000);
  const double target = 0.125 * kernels::sum_of_squares(x);
  RoundingVariance variance(x, target);
  EXPECT_EQ(variance.crossing(), 0);
  const double start = 0.8 * std::sqrt(8 * target / 10000);
  for (double step = start; step < 1.2 * start; step += 0.02 * start)
    variance.exceeds(static_cast<float>(step));
  const auto crossing = static_cast<float>(variance.crossing());
  EXPECT_FALSE(exceeds(x, 0.999F * crossing, target));
  EXPECT_TRUE(exceeds(x, 1.001F * crossing, target));
}

}  // namespace
}  // namespace laconic::testing

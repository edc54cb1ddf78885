// What rounding to a step does to entries, against its plain twin on every instruction set.
#include "laconic/kernels/spread.h"

#include <cmath>

#include "tests/kernels/inputs.h"

namespace laconic::testing {
namespace {

// Four entries that are 16 apart are added first, then sums go to one of 16 lanes.
kernels::Spacing plain(std::span<const float> x, float step) {
  const float by = 1 / step;
  double variance[16] = {}, whole[16] = {};
  for (std::size_t from = 0; from < x.size(); from += 64)
    for (std::size_t lane = 0; lane < 16; ++lane) {
      float f = 0, k = 0;
      for (std::size_t i = from + lane; i < from + 64; i += 16) {
        const float y = i < x.size() ? std::abs(x[i]) * by : 0, floor = std::floor(y);
        const float rest = y - floor;
        f += rest - rest * rest;
        k += floor + floor * floor;
      }
      variance[lane] += static_cast<double>(f);
      whole[lane] += static_cast<double>(k);
    }
  kernels::Spacing sums;
  for (std::size_t lane = 0; lane < 16; ++lane) {
    sums.variance += variance[lane];
    sums.whole += whole[lane];
  }
  return sums;
}

TEST(Spread, EqualsItsPlainTwin) {
  for_inputs([](std::span<const float> x) {
    for (const float step : {0.004F, 0.7F, 3.0F, 0x1p-60F}) {
      const kernels::Spacing expected = plain(x, step);
      on_every_cpu([&](const std::string&) {
        const kernels::Spacing sums = kernels::about_spread(x, step);
        if (!std::isfinite(expected.variance) || !std::isfinite(expected.whole)) {
          EXPECT_FALSE(std::isfinite(sums.variance) && std::isfinite(sums.whole)) << step;
        } else {
          EXPECT_EQ(sums.variance, expected.variance) << step;
          EXPECT_EQ(sums.whole, expected.whole) << step;
        }
      });
    }
  });
}

}  // namespace
}  // namespace laconic::testing

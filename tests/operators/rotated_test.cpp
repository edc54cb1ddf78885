// drive and eden: closed forms of one bit after a rotation.
#include <numbers>

#include "tests/support.h"

namespace laconic::testing {
namespace {

double inner(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

// On a bell curve |Rx|_1 is sqrt(2 / pi) of sqrt(d) |x|.
TEST(Rotated, ErrorsOnABellCurveAreThePapers) {
  const auto x = gaussian(1 << 17, 1);
  const auto error = [&](const char* spec) {
    return squared_distance(through(parse_operator(spec), x), x) / squared(x);
  };
  EXPECT_NEAR(error("drive"), 1 - 2 / std::numbers::pi, 0.005);
  EXPECT_NEAR(error("eden"), std::numbers::pi / 2 - 1, 0.01);
  EXPECT_EQ(encode(parse_operator("eden"), x).size(), x.size() / 8 + 4 * x.size() / 4096);
}

// drive projects onto a direction that it drew; eden keeps the inner product with x.
TEST(Rotated, ScalesAreWhatTheyShouldBe) {
  for (const std::size_t count : {1, 2, 3, 100, 4096, 5000}) {
    SCOPED_TRACE(count);
    const auto x = made_up(count, 9);
    const auto y = through(parse_operator("drive"), x), z = through(parse_operator("eden"), x);
    if (std::has_single_bit(count)) {  // else some of it falls on what was filled up
      EXPECT_NEAR(inner(y, x), squared(y), 1e-5 * squared(x));
      EXPECT_NEAR(squared_distance(y, x), squared(x) - squared(y), 1e-5 * squared(x));
    }
    EXPECT_NEAR(inner(z, x), squared(x), 1e-5 * squared(x));
  }
}

// All of z are as large: nothing is lost.
TEST(Rotated, OneEntryAloneIsExact) {
  for (const char* spec : {"drive", "eden"}) {
    std::vector<float> x(4096);
    x[1234] = -3.25F;
    EXPECT_EQ(through(parse_operator(spec), x), x) << spec;
  }
}

TEST(Rotated, EdenIsUnbiasedForManyEntries) {
  const auto x = gaussian(4096, 1);
  constexpr std::uint64_t kDraws = 400;
  std::vector<float> mean(x.size());
  for (std::uint64_t draw = 0; draw < kDraws; ++draw) {
    const auto y = through(parse_operator("eden"), x, make_keys(5, draw, 0));
    for (std::size_t i = 0; i < x.size(); ++i) mean[i] += y[i] / kDraws;
  }
  const double of_mean = squared_distance(mean, x) / squared(x);
  EXPECT_NEAR(of_mean * kDraws, std::numbers::pi / 2 - 1, 0.08);
}

// A known limit: the sign of +-2 +- 1 is that of the 2, so the 1 is never seen.
TEST(Rotated, EdenIsBiasedForFewLargeEntries) {
  for (std::uint64_t draw = 0; draw < 20; ++draw)
    EXPECT_EQ(
        through(parse_operator("eden"), std::vector<float>{2, 1, 0, 0}, make_keys(draw, 0, 0)),
        (std::vector<float>{2.5F, 0, 0, 0}));
  EXPECT_FALSE(parse_operator("eden").traits(4).unbiased);
  EXPECT_EQ(parse_operator("drive").traits(4).delta, 0.25);
}

}  // namespace
}  // namespace laconic::testing

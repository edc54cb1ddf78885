// What operators say of themselves is what the papers prove, to the last digit.
#include <algorithm>

#include "tests/support.h"

namespace laconic::testing {
namespace {

double theorem7(double d, double p, int s) {
  const double t = std::pow(d, 1 / std::min(p, 2.0)) * std::exp2(1 - s);
  return 1.0 / 8 + t * std::min(1.0, t);
}

std::string dithering(int s, const std::string& p) {
  return "dithering:" + std::to_string(s) + "," + p;
}

TEST(Traits, OmegaIsThePapersFormula) {
  const auto omega = [](const std::string& spec, std::size_t d) {
    return parse_operator(spec).traits(d).omega.value();
  };
  for (const std::size_t d : {1, 2, 10, 100, 1000, 1000000}) {
    const auto n = static_cast<double>(d);
    for (int s = 1; s <= 12; ++s) {
      EXPECT_DOUBLE_EQ(omega(dithering(s, "1"), d), theorem7(n, 1, s));
      EXPECT_DOUBLE_EQ(omega(dithering(s, "2"), d), theorem7(n, 2, s));
      EXPECT_DOUBLE_EQ(omega(dithering(s, "inf"), d), theorem7(n, INFINITY, s));
      EXPECT_DOUBLE_EQ(omega("qsgd:" + std::to_string(s), d),
                       std::min(n / (s * s), std::sqrt(n) / s));
    }
    EXPECT_DOUBLE_EQ(omega("terngrad", d), (std::sqrt(n) - 1) / 2);
    EXPECT_DOUBLE_EQ(omega("natural", d), 1.0 / 8);
  }
  EXPECT_DOUBLE_EQ(omega("bucket:512+qsgd:16,max", 1 << 20), std::sqrt(512.0) / 16);
  EXPECT_DOUBLE_EQ(omega("randomk:0.1", 1000), 9);
  EXPECT_DOUBLE_EQ(omega("randomk:0.07", 100), 100.0 / 7 - 1);
  EXPECT_DOUBLE_EQ(1 + omega("randomk:0.1+natural", 1000), 9.0 / 8 * 10);
  const double a = 9, b = std::sqrt(100.0) / 4;  // qsgd sees the 100 that are kept
  EXPECT_DOUBLE_EQ(omega("randomk:0.1+qsgd:4", 1000), a * b + a + b);
}

TEST(Traits, ASelectorBeforeAnUnbiasedQuantiserContractsIfOmegaIsBelowOneOrShrunk) {
  const auto traits = [](const char* spec) { return parse_operator(spec).traits(1000); };
  EXPECT_DOUBLE_EQ(traits("topk:0.1+natural").delta.value(), 7.0 / 8 * 0.1);
  EXPECT_DOUBLE_EQ(traits("topk:0.1+qsgd:20").delta.value(), 0.1 * (1 - 0.25));
  EXPECT_DOUBLE_EQ(traits("chunk:100,kept=4+natural").delta.value(), 7.0 / 8 * 0.04);
  EXPECT_FALSE(traits("topk:0.1+natural").unbiased);
  for (const char* spec : {"topk:0.1+terngrad", "topk:0.1+qsgd:10", "randomk:0.1", "terngrad"})
    EXPECT_FALSE(traits(spec).delta) << spec;
  EXPECT_DOUBLE_EQ(traits("shrink+topk:0.1+terngrad").delta.value(), 0.1 / (1 + 4.5));
  EXPECT_DOUBLE_EQ(traits("shrink+topk:0.1+qsgd:1").delta.value(), 0.1 / (1 + 10));
  EXPECT_DOUBLE_EQ(traits("shrink+randomk:0.1").delta.value(), 0.1);
  EXPECT_DOUBLE_EQ(traits("shrink+qsgd:1").delta.value(), 1 / (1 + std::sqrt(1000.0)));
  EXPECT_FALSE(traits("shrink+qsgd:1").unbiased);
}

}  // namespace
}  // namespace laconic::testing

// On a real gradient: how small natural compression gets, against the entropy of what it sends.
#include <array>

#include "tests/recorded.h"

namespace laconic::testing {
namespace {

// Bits per entry that no coder of single symbols can go below: exponents, and signs of what is not
// zero.
double entropy_of(const std::vector<float>& powers) {
  std::array<double, 256> counts{};
  double signs = 0;
  for (const float y : powers) {
    ++counts[std::bit_cast<std::uint32_t>(y) >> 23 & 255];
    signs += y != 0;
  }
  const double n = static_cast<double>(powers.size());
  double bits = signs / n;
  for (const double count : counts)
    if (count > 0) bits -= count / n * std::log2(count / n);
  return bits;
}

TEST(Gradient, EntropyCodedNaturalIsCloseToItsEntropy) {
  const auto x = recorded_gradient();
  const Operator op = parse_operator("natural+entropy");
  const double bits =
      8.0 * static_cast<double>(encode(op, x).size()) / static_cast<double>(x.size());
  const double entropy = entropy_of(through(op, x));
  EXPECT_LT(bits, 1.02 * entropy) << entropy;
  EXPECT_LT(bits, 4.7);
}

TEST(Gradient, WhereCodingGainsNothingItCostsAFewBytes) {
  std::vector<float> x(100000);
  for (std::size_t i = 0; i < x.size(); ++i) {  // every exponent equally likely
    const std::uint64_t bits = Key(1).bits(i);
    x[i] = std::bit_cast<float>(
        static_cast<std::uint32_t>((bits & 0x807fffff) | (1 + (bits >> 32) % 253) << 23));
  }
  EXPECT_LE(encode(parse_operator("natural+entropy"), x).size(),
            encode(parse_operator("natural"), x).size() + 8);
}

TEST(Gradient, SecondMomentIsBelowNineEighths) {
  const auto x = recorded_gradient();
  for (const char* spec : {"natural", "natural:8"}) {
    double sum = 0;
    for (std::uint64_t step = 0; step < 50; ++step)
      sum += squared(through(parse_operator(spec), x, make_keys(1, step, 0))) / squared(x) / 50;
    EXPECT_LT(sum, 1.125) << spec;
    EXPECT_GT(sum, 1.05) << spec;
  }
}

// Buckets serve the worst case; where most entries are small, levels of the whole slice that are
// coded have less error in fewer bytes.
TEST(Gradient, WithoutBucketsThereIsLessErrorInFewerBytes) {
  const auto x = recorded_gradient();
  const double length = squared(x);
  const auto cost = [&](const char* spec) {
    const Operator op = parse_operator(spec);
    double error = 0, bytes = 0;
    for (std::uint64_t step = 0; step < 20; ++step) {
      const Keys keys = make_keys(1, step, 0);
      const auto y = through(op, x, keys);
      for (std::size_t i = 0; i < x.size(); ++i)
        error += std::pow(static_cast<double>(y[i]) - x[i], 2) / length / 20;
      bytes += static_cast<double>(encode(op, x, keys).size()) / 20;
    }
    return std::pair(error, bytes);
  };
  for (const auto& [bare, bucketed] : {std::pair{"dithering:8", "bucket:512+dithering:4"},
                                       {"qsgd:20,max", "bucket:512+qsgd:4,max"}}) {
    const auto [error, bytes] = cost(bare);
    const auto [more_error, more_bytes] = cost(bucketed);
    EXPECT_LT(error, more_error) << bare;
    EXPECT_LT(bytes, more_bytes) << bare;
  }
}

}  // namespace
}  // namespace laconic::testing

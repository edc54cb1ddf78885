// What traits claim holds for every operator there is: every example of every stage and their
// products (chain_specs), on bell curves, ties, spikes and worst cases, and beyond every block,
// sample, piece and chunk that some stage works in.
#include "tests/operators/claims.h"

namespace laconic::testing {
namespace {

class Claims : public ::testing::TestWithParam<std::string> {
 protected:
  static constexpr int kDraws = 24;

  void expect(const std::vector<float>& x, const std::string& what) const {
    expect_claims(op_, x, what, kDraws);
  }
  void expect_rare(const std::vector<float>& x, const std::string& what) const {
    expect_claims(op_, x, what, kDraws, true);
  }

  Operator op_ = parse_operator(GetParam());
};

INSTANTIATE_TEST_SUITE_P(Registry, Claims, ::testing::ValuesIn(example_specs()), name_of_spec);
INSTANTIATE_TEST_SUITE_P(Chains, Claims, ::testing::ValuesIn(chain_specs()), name_of_spec);

// What the laws below rest on: an operator that errs is found out.
TEST(Errors, ShowEveryKindOfBias) {
  const auto x = gaussian(3000);
  const auto as_is = [](double v) { return v; };
  const auto shrunk = parse_operator("shrink+natural"), nearest = parse_operator("natural:nearest");
  const auto fair = parse_operator("natural");
  EXPECT_GT(Errors(shrunk, x, 24).drift(as_is, 0), kSigmas);
  EXPECT_GT(Errors(nearest, x, 24).bias(0), kSigmas);
  EXPECT_LT(Errors(fair, x, 24).drift(as_is, 0), kSigmas);
  EXPECT_LT(Errors(fair, x, 24).bias(0), kSigmas);
}

TEST_P(Claims, HoldOnManyMagnitudes) {
  expect(gaussian(3000), "gaussian");
  expect(made_up(3000), "many magnitudes");
  std::vector<float> binade(4096);
  for (std::size_t i = 0; i < binade.size(); ++i) binade[i] = 1 + static_cast<float>(i) / 4096;
  expect(binade, "a binade");
}

TEST_P(Claims, HoldInWorstCases) {
  expect(std::vector<float>(3000, 4.0F / 3), "natural compression's worst mantissa");
  expect(std::vector<float>(3000, -1.5F), "nearest rounding's worst mantissa");
  expect_rare({1.0F}, "one entry");
  std::vector<float> spike(3000, 1e-9F);
  spike[1234] = -3;
  expect_rare(spike, "a spike");
  std::vector<float> worst(3000, 1 / (1 + std::sqrt(3000.0F)));
  worst[77] = 1;
  expect(worst, "ternary rounding's worst case");
}

// What breaks compressors: entries that are equal, of one sign, or nearly all zero.
TEST_P(Claims, HoldOnAwkwardInputs) {
  std::vector<float> negative = gaussian(3000);
  for (float& value : negative) value = -std::abs(value) - 1e-6F;
  expect(negative, "all negative");
  std::vector<float> tied(3000);
  for (std::size_t i = 0; i < tied.size(); ++i) tied[i] = i % 3 == 0 ? -0.75F : 0.25F;
  expect(tied, "ties");
  std::vector<float> zeros(3000);
  zeros[5] = 0.3F;
  zeros[2999] = -0.2F;
  expect_rare(zeros, "mostly zero");
  std::vector<float> alone(3000);
  alone[1500] = -7;
  expect_rare(alone, "a single spike");
}

// The first half positive, the second negative: an entry that is taken for another shows.
std::vector<float> two_halves(std::size_t count) {
  std::vector<float> x = gaussian(count);
  for (std::size_t i = 0; i < count; ++i) x[i] = std::copysign(x[i], i < count / 2 ? 1.0F : -1.0F);
  return x;
}

// Beyond a block of 4096, a sample of 16384 and a piece of 65536 entries.
TEST_P(Claims, HoldBeyondEveryPiece) { expect_claims(op_, two_halves(70'000), "two halves", 3); }

class LongClaims : public Claims {};
INSTANTIATE_TEST_SUITE_P(Registry, LongClaims, ::testing::ValuesIn(example_specs()), name_of_spec);

// Beyond a coder's chunk of 262144 bytes, too.
TEST_P(LongClaims, HoldBeyondEveryChunk) {
  expect_claims(op_, two_halves(300'000), "two halves", 2);
}

}  // namespace
}  // namespace laconic::testing

// What averaging over ranks makes of an unbiased operator's error: omega / n where each rank draws
// for itself, omega where they draw the same.
#include "tests/support.h"

namespace laconic::testing {
namespace {

constexpr std::size_t kRanks = 16;
constexpr std::uint64_t kDraws = 200;

// Mean square errors of one rank and of the mean over ranks, all of which hold x.
std::pair<double, double> errors_of(const Operator& op, const std::vector<float>& x) {
  double one = 0, of_mean = 0;
  for (std::uint64_t step = 0; step < kDraws; ++step) {
    std::vector<float> mean(x.size());
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      const auto y = through(op, x, make_keys(3, step, rank));
      one += squared_distance(y, x) / (kDraws * kRanks);
      for (std::size_t i = 0; i < x.size(); ++i) mean[i] += y[i] / kRanks;
    }
    of_mean += squared_distance(mean, x) / kDraws;
  }
  return {one, of_mean};
}

TEST(MeanOverRanks, HasTheErrorThatTraitsSay) {
  const auto x = gaussian(300);
  std::size_t own = 0, shared = 0;
  for (const std::string& spec : example_specs()) {
    const Operator op = parse_operator(spec);
    const Traits traits = op.traits(x.size());
    if (!traits.unbiased || *traits.omega == 0 || traits.random == traits.shared) continue;
    const auto [one, of_mean] = errors_of(op, x);
    if (one == 0) continue;  // exact here
    ++(traits.shared ? shared : own);
    EXPECT_NEAR(of_mean / one, traits.shared ? 1 : 1.0 / kRanks, traits.shared ? 1e-3 : 0.02)
        << spec;
  }
  EXPECT_GE(own, 12U);
  EXPECT_GE(shared, 1U) << "randomk";
}

// Both at random: what is left out is left out by all, what is rounded each rank rounds anew.
TEST(MeanOverRanks, OfASharedMaskKeepsItsErrorWhateverTheQuantiser) {
  const auto x = gaussian(300);
  const auto [one, of_mean] = errors_of(parse_operator("randomk:0.1+natural"), x);
  EXPECT_GT(kRanks * of_mean / one, 13);
  const auto [own, of_own] = errors_of(parse_operator("randomk:0.1,own+natural"), x);
  EXPECT_NEAR(kRanks * of_own / own, 1, 0.2);
}

}  // namespace
}  // namespace laconic::testing

// Whole numbers that add up: steps that all ranks share.
#include <bit>
#include <map>
#include <mutex>

#include "tests/exchange/support.h"

namespace laconic::testing {
namespace {

// One step of ranks with these gradients over one tensor; what each has got.
std::vector<std::vector<float>> step_of(const std::string& exchange,
                                        std::vector<std::vector<float>> gradients,
                                        std::uint64_t step = 0, bool strata = false) {
  const int ranks = static_cast<int>(gradients.size());
  const Job job{.op = "identity",
                .exchange = exchange,
                .ranks = ranks,
                .model = {{"x", {gradients[0].size()}}},
                .strata = strata};
  expect_no_errors(on_ranks(ranks, [&](Transport& transport) {
    auto& gradient = gradients[static_cast<std::size_t>(transport.rank())];
    EXPECT_TRUE(make(job, transport)->average(gradient, {.step = step}).finite);
  }));
  return gradients;
}

// Example of two ranks: entry 0 is exact, entry 1 has two fair coins.
TEST(Global, TheExampleOfTwoRanksHasItsProbabilities) {
  constexpr int kSteps = 2000;
  std::map<float, int> seen;
  double squares = 0;
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    const auto means = step_of("global:2", {{1, 0.25F}, {-0.5F, 0.25F}}, step);
    EXPECT_EQ(means[0], means[1]);
    ASSERT_EQ(means[0][0], 0.25F);
    ++seen[means[0][1]];
    squares += (means[0][1] - 0.25) * (means[0][1] - 0.25);
  }
  EXPECT_EQ(seen.size(), 3U);
  const double sigma = std::sqrt(kSteps / 4.0 * 3 / 4);
  EXPECT_NEAR(seen[0], kSteps / 4.0, 4 * sigma);
  EXPECT_NEAR(seen[0.25F], kSteps / 2.0, 4 * std::sqrt(kSteps / 4.0));
  EXPECT_NEAR(seen[0.5F], kSteps / 4.0, 4 * sigma);
  EXPECT_NEAR(squares / kSteps, 1.0 / 32, 4 * std::sqrt(1.0 / 1024 / kSteps));
}

// Suresh et al.: two ranks that go up with probability 1/2 never go the same way.
TEST(Global, StrataMakeTheExampleExact) {
  for (std::uint64_t step = 0; step < 100; ++step)
    EXPECT_EQ(step_of("global:2", {{1, 0.25F}, {-0.5F, 0.25F}}, step, true)[0],
              (std::vector<float>{0.25F, 0.25F}));
}

// The mean in plain loops: levels of each rank by their draws, whole numbers added up.
std::vector<float> mean_by_hand(const std::vector<std::vector<float>>& x, int s, bool together,
                                std::uint64_t step, bool strata) {
  const auto n = x.size();
  float norm = 0;
  double squares = 0;
  for (const auto& one : x) {
    double square = 0;
    for (const float value : one) {
      norm = std::max(norm, std::abs(value));
      square += static_cast<double>(value) * value;
    }
    squares += std::pow(static_cast<double>(static_cast<float>(std::sqrt(square))), 2);
  }
  if (together) norm = static_cast<float>(std::sqrt(squares));
  std::vector<std::int64_t> sum(x[0].size());
  for (std::size_t rank = 0; rank < n; ++rank) {
    std::vector<std::int8_t> levels(sum.size());
    kernels::to_levels(x[rank], {norm, static_cast<float>(s)}, s, kernels::Rounding::stochastic,
                       make_keys(9, step, rank, strata ? n : 1).draws(), 0, {levels.data()});
    for (std::size_t i = 0; i < sum.size(); ++i) {
      const double exact = s * static_cast<double>(x[rank][i]) / norm;
      EXPECT_LT(std::abs(levels[i] - exact), 1.0001) << "next to its entry";
      sum[i] += levels[i];
    }
  }
  std::vector<float> mean(sum.size());
  for (std::size_t i = 0; i < sum.size(); ++i)
    mean[i] = static_cast<float>(static_cast<double>(norm) / static_cast<double>(n * s) *
                                 static_cast<double>(sum[i]));
  return mean;
}

// Widths of shares and sums from 2 to 12 bits, of lengths within a cell and beyond a block.
TEST(Global, SumsAreThoseOfWholeNumbersWhateverTheirWidth) {
  for (const int ranks : {1, 2, 3, 5, 16, 20})
    for (const int s : {1, 3, 7, 31, 127})
      for (const std::size_t count : {1U, 8U, 37U, 9000U}) {
        if (ranks > 5 && count > 37) continue;
        std::vector<std::vector<float>> x;
        for (int rank = 0; rank < ranks; ++rank)
          x.push_back(gaussian(count, 1, static_cast<std::uint64_t>(1000 * s + rank)));
        for (const char* norm : {"max", "2"})
          for (const bool strata : {false, true}) {
            if (norm == std::string("2") && count > 37) continue;  // sums in other blocks
            const std::string spec = "global:" + std::to_string(s) + "," + norm;
            SCOPED_TRACE(spec + " on " + std::to_string(ranks) + ", " + std::to_string(count));
            const auto means = step_of(spec, x, 3, strata);
            const auto right = mean_by_hand(x, s, norm == std::string("2"), 3, strata);
            for (const auto& mean : means) ASSERT_EQ(mean, right);
          }
      }
}

// N^2 / (n s)^2 sum over ranks and entries of f (1 - f).
TEST(Global, TheVarianceOfTheMeanIsExact) {
  constexpr int kRanks = 3, kS = 2, kDraws = 3000;
  constexpr std::size_t kCount = 24;
  std::vector<std::vector<float>> x;
  float norm = 0;
  for (int rank = 0; rank < kRanks; ++rank) {
    x.push_back(gaussian(kCount, 1, static_cast<std::uint64_t>(rank)));
    for (const float value : x.back()) norm = std::max(norm, std::abs(value));
  }
  double variance = 0;
  std::vector<double> mean(kCount);
  for (const auto& one : x)
    for (std::size_t i = 0; i < kCount; ++i) {
      const double y = kS * std::abs(static_cast<double>(one[i])) / norm, f = y - std::floor(y);
      variance += f * (1 - f) * std::pow(norm / (kRanks * kS), 2);
      mean[i] += one[i] / static_cast<double>(kRanks);
    }
  double error = 0, squared = 0;
  std::vector<double> sums(kCount);
  for (std::uint64_t step = 0; step < kDraws; ++step) {
    const auto drawn = step_of("global:2", x, step)[0];
    double off = 0;
    for (std::size_t i = 0; i < kCount; ++i) {
      off += std::pow(drawn[i] - mean[i], 2);
      sums[i] += drawn[i];
    }
    error += off;
    squared += off * off;
  }
  error /= kDraws;
  const double sigma = std::sqrt((squared / kDraws - error * error) / kDraws);
  EXPECT_NEAR(error, variance, 4 * sigma);
  EXPECT_LT(sigma, 0.02 * variance);
  double bias = 0;
  for (std::size_t i = 0; i < kCount; ++i) bias += std::pow(sums[i] / kDraws - mean[i], 2);
  EXPECT_LT(bias, 3 * variance / kDraws) << "of about one variance / draws";
}

// One level is TernGrad with a shared scaler: -N, 0 or N of each rank.
TEST(Global, OneLevelIsTernGradWithASharedScaler) {
  const std::vector<std::vector<float>> x = {{0.5F, -2, 0}, {-1, 0.25F, 0}};
  for (std::uint64_t step = 0; step < 50; ++step) {
    const auto mean = step_of("global:1", x, step)[0];
    EXPECT_TRUE(mean[0] == 0 || std::abs(mean[0]) == 1) << mean[0];
    EXPECT_TRUE(mean[1] == -1 || mean[1] == 0) << mean[1];
    EXPECT_EQ(mean[2], 0);
  }
}

// TernGrad as published: each rank clips at 2.5 of its own standard deviations, and the largest
// bound of all ranks is everybody's scale. One level then brings it back where it was reached.
TEST(Global, RanksClipAtTheirOwnDeviationsBeforeTheyShareAScale) {
  constexpr std::size_t kCount = 5000;
  std::vector<std::vector<float>> x;
  std::vector<float> bounds;
  for (std::uint64_t rank = 0; rank < 3; ++rank) {
    x.push_back(gaussian(kCount, static_cast<float>(rank + 1), rank));
    for (float& value : x.back()) value += 0.5F;  // a mean, which is no deviation
    x.back()[7] = 100 * static_cast<float>(rank + 1);
    double sum = 0, squares = 0;
    for (const float value : x.back()) sum += value;
    for (const float value : x.back()) squares += std::pow(value - sum / kCount, 2);
    bounds.push_back(static_cast<float>(2.5 * std::sqrt(squares / kCount)));
  }
  ASSERT_GT(bounds[2], bounds[1]);
  const double unit = static_cast<double>(bounds[2]) / 3;
  int others = 0, exact = 0;
  for (std::uint64_t step = 0; step < 20; ++step) {
    const auto mean = step_of("global:1,clip=2.5", x, step)[0];
    for (const float value : mean)
      EXPECT_NEAR(value / unit, std::round(value / unit), 1e-4) << "a whole number of steps";
    exact += mean[7] >= 0.9999 * unit;  // rank 2's entry is at the scale
    others += mean[7] > 1.5 * unit;     // those of the others come with probability bound / scale
  }
  EXPECT_EQ(exact, 20);
  EXPECT_GT(others, 0);
}

// Equal entries, or one, have no deviation: they are not clipped to nothing.
TEST(Global, EqualEntriesAreNotClipped) {
  for (const std::vector<float>& x : {std::vector<float>{0.3F}, std::vector<float>(5000, 0.1F)})
    EXPECT_EQ(step_of("global:1,clip=2.5", {x, x})[0], x);
}

std::uint64_t sent_by(int ranks, int s, std::size_t cells, std::size_t slices) {
  const auto width = [](int most) {
    return static_cast<std::uint64_t>(std::bit_width(static_cast<unsigned>(2 * most)));
  };
  const auto n = static_cast<std::uint64_t>(ranks);
  return n * (n - 1) * 4 * (slices + 1) + (n - 1) * cells * (width(s) + width(ranks * s));
}

// All ranks together: each slice's size and a checksum to every other; shares to owners, sums back.
TEST(Global, SendsTheBitsOfItsLevels) {
  for (const int ranks : {2, 4, 9, 19}) {
    double all = 0;
    std::uint64_t messages = 0;
    std::mutex mutex;
    expect_no_errors(on_ranks(ranks, [&](Transport& transport) {
      auto gradient = gradient_of(transport.rank(), 0);
      const auto aggregator = make({.op = "identity", .exchange = "global:7"}, transport);
      const StepStats stats = aggregator->average(gradient, {});
      EXPECT_EQ(stats.payload_bytes, 4U * 4 + (150 + 5 + 50 + 2) * 4);
      EXPECT_EQ(aggregator->tensor_stats(3).payload_bytes, 4U + 2 * 4);
      const std::lock_guard lock(mutex);
      all += sent_of(stats, ranks);
      messages += stats.messages;
    }));
    const auto n = static_cast<std::uint64_t>(ranks);
    EXPECT_EQ(messages, n * (n - 1) * (1 + 1 + 4)) << "vote, sizes, sums with checksums";
    EXPECT_EQ(all - 4.0 * static_cast<double>(n * (n - 1) * 2),
              static_cast<double>(sent_by(ranks, 7, 150 + 5 + 50 + 2, 4)));
  }
}

// Of what all ranks hold as zeros only the size travels; what others hold arrives all the same.
TEST(Global, ZerosAreNotSent) {
  for (const bool all : {false, true})
    expect_no_errors(on_ranks(3, [&](Transport& transport) {
      auto gradient = gradient_of(transport.rank(), 0);
      if (all || transport.rank() > 0) std::fill_n(gradient.begin(), 1200, 0.0F);
      const auto aggregator = make({.op = "identity", .exchange = "global:7"}, transport);
      const StepStats stats = aggregator->average(gradient, {});
      EXPECT_EQ(aggregator->tensor_stats(0).payload_bytes, all ? 4U : 4 + 150 * 4);
      EXPECT_EQ(std::ranges::all_of(gradient.begin(), gradient.begin() + 1200,
                                    [](float value) { return value == 0; }),
                all);
      EXPECT_TRUE(stats.finite);
    }));
}

// Only the slice that is not finite, on all ranks.
TEST(Global, ASliceThatIsNotFiniteIsNotFiniteOnAllRanks) {
  for (const float bad : {NAN, INFINITY, -INFINITY})
    expect_no_errors(on_ranks(3, [&](Transport& transport) {
      auto gradient = gradient_of(transport.rank(), 0);
      if (transport.rank() == 1) gradient[1210] = bad;
      const auto aggregator = make({.op = "identity", .exchange = "global"}, transport);
      EXPECT_FALSE(aggregator->average(gradient, {}).finite);
      for (std::size_t i = 0; i < gradient.size(); ++i)
        EXPECT_EQ(std::isfinite(gradient[i]), i < 1200 || i >= 1240) << i;
    }));
}

TEST(Global, HugeAndTinyGradientsKeepTheirScale) {
  for (const float scale : {1e38F, 3e-39F})
    for (const char* spec : {"global:7", "global:7,2"}) {
      const auto mean = step_of(spec, {{scale, -scale}, {scale, scale}})[0];
      EXPECT_NEAR(mean[0] / scale, 1, spec[8] == 0 ? 1e-5 : 0.3) << spec << " " << scale;
    }
}

TEST(Global, IsRefusedInWords) {
  auto ends = make_thread_transports(1);
  EXPECT_EQ(
      message_of<UsageError>([&] { make({.op = "natural", .exchange = "global"}, *ends[0]); }),
      "exchange 'global' compresses in no way but its own; allowed: operator identity, not "
      "'natural'");
  for (const char* spec : {"global:levels=0", "global:128", "global:7,inf"})
    EXPECT_THROW(make({.op = "identity", .exchange = spec}, *ends[0]), UsageError) << spec;
}

}  // namespace
}  // namespace laconic::testing

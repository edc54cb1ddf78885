// Draws from strata: uniform on every rank, and what the mean over ranks gains by them.
#include <cmath>
#include <map>

#include "laconic/kernels/codes.h"
#include "laconic/kernels/levels.h"
#include "tests/support.h"

namespace laconic::testing {
namespace {

using kernels::Rounding;

// The sum over ranks of what each rounds x, a whole number of steps of 1, to.
std::vector<int> summed_levels(const std::vector<std::vector<float>>& x, std::uint64_t step = 0) {
  std::vector<int> sum(x[0].size());
  std::vector<std::int8_t> levels(sum.size());
  for (std::size_t rank = 0; rank < x.size(); ++rank) {
    kernels::to_levels(x[rank], {1, 1}, 100, Rounding::stochastic,
                       make_keys(5, step, rank, x.size()).draws(), 77, {levels.data()});
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += levels[i];
  }
  return sum;
}

std::vector<std::vector<float>> all_ranks(std::size_t ranks, float value) {
  return std::vector(ranks, std::vector(5000, value));
}

TEST(Strata, HoldOneDrawOfEachRank) {
  for (const std::uint64_t ranks : {2, 3, 4, 5, 6, 7, 12, 16, 100}) {
    std::vector<Draws> draws;
    for (std::uint64_t rank = 0; rank < ranks; ++rank)
      draws.push_back(make_keys(1, 2, rank, ranks).draws());
    for (std::uint64_t i = (1ULL << 32) - 50; i < (1ULL << 32) + 50; ++i) {
      std::vector<int> held(ranks);
      for (const Draws& rank : draws) {
        const double at = rank.bits32(i) * 0x1p-32 * static_cast<double>(ranks);
        ++held[std::min<std::size_t>(ranks - 1, static_cast<std::size_t>(at + 1e-6))];
      }
      EXPECT_EQ(held, std::vector(ranks, 1)) << ranks << " ranks, position " << i;
    }
  }
}

// No rank can tell from its own draws that there are strata: chi-square on 64 cells (expected 63,
// deviation 11).
TEST(Strata, LeaveEachRanksDrawsUniform) {
  constexpr std::size_t kCells = 64, kDraws = 64000;
  for (const std::uint64_t ranks : {2, 3, 16})
    for (std::uint64_t rank = 0; rank < ranks; rank += 2)
      for (const bool negative : {false, true}) {
        const Draws draws = make_keys(7, 1, rank, ranks).draws();
        std::vector<double> cells(kCells);
        for (std::uint64_t i = 0; i < kDraws; ++i) ++cells[draws.bits32(i, negative) >> 26];
        double chi = 0;
        for (const double cell : cells) chi += std::pow(cell - 1000, 2) / 1000;
        EXPECT_LT(chi, 63 + 5 * 11.3) << ranks << " " << rank;
      }
}

// Whatever the pair: its strata are apart by each distance as often as another pair's.
TEST(Strata, OfAPairAreNowNearAndNowFar) {
  constexpr std::uint64_t kRanks = 8;
  for (std::uint64_t other = 1; other < kRanks; other += 2) {
    std::map<unsigned, int> apart;
    for (std::uint64_t step = 0; step < 4000; ++step) {
      const Draws a = make_keys(1, step, 0, kRanks).draws();
      const Draws b = make_keys(1, step, other, kRanks).draws();
      ++apart[((a.bits32(9) >> 29) - (b.bits32(9) >> 29)) & 7U];
    }
    EXPECT_EQ(apart.size(), 4U) << other;  // odd distances
    for (const auto& [distance, times] : apart) EXPECT_NEAR(times, 1000, 150) << distance;
  }
}

TEST(Strata, OfOneRankAreNone) {
  EXPECT_EQ(make_keys(1, 2, 0, 1).draws().bits32(5), make_keys(1, 2, 0).own.bits32(5));
  EXPECT_FALSE(make_keys(1, 2, 0, 0).draws().stratified());
}

// The exact cases: half of an even number, a third of three; and a third of four, of which one or
// two round up, two with probability 1/3.
TEST(Strata, MakeTheMeanExactWhereItCanBe) {
  on_every_cpu([&](const std::string&) {
    for (const std::size_t ranks : {2, 4, 6, 16})
      for (const int sum : summed_levels(all_ranks(ranks, 0.5F)))
        ASSERT_EQ(sum, static_cast<int>(ranks / 2)) << ranks;
    for (const int sum : summed_levels(all_ranks(3, 1.0F / 3))) ASSERT_EQ(sum, 1);
    for (const int sum : summed_levels(all_ranks(3, -4.0F / 3))) ASSERT_EQ(sum, -4);
    int twos = 0;
    for (const int sum : summed_levels(all_ranks(4, 1.0F / 3))) {
      ASSERT_TRUE(sum == 1 || sum == 2) << sum;
      twos += sum == 2;
    }
    EXPECT_NEAR(twos, 5000.0 / 3, 5 * std::sqrt(5000 * 2.0 / 9));
  });
}

// A draw that makes one rank's entry larger makes another's smaller, whatever their signs.
TEST(Strata, LetOppositeEntriesCancel) {
  for (const int sum : summed_levels({std::vector(5000, 0.5F), std::vector(5000, -0.5F),
                                      std::vector(5000, -1.5F), std::vector(5000, 1.5F)}))
    ASSERT_EQ(sum, 0);
}

// Beside their plain twins, wherever the model's positions cross a multiple of 2^32.
TEST(Strata, AreTheSameOnVectorLanes) {
  const auto x = made_up(1000);
  const Draws draws = make_keys(4, 5, 6, 7).draws();
  on_every_cpu([&](const std::string&) {
    for (const std::uint64_t first : {0ULL, 1000003ULL, (1ULL << 32) - 500}) {
      std::vector<std::uint8_t> fields(x.size()), signs(x.size() / 8), codes(x.size());
      ASSERT_TRUE(kernels::natural_encode(x, Rounding::stochastic, draws, first, fields.data(),
                                          signs.data()));
      std::vector<std::int8_t> levels(x.size());
      kernels::to_levels(x, {1, 4}, 100, Rounding::stochastic, draws, first, {levels.data()});
      kernels::to_codes(x, -8, 8, 4, Rounding::stochastic, draws, first, codes.data());
      for (std::size_t i = 0; i < x.size(); ++i) {
        const std::uint32_t draw = draws.bits32(first + i, std::signbit(x[i]));
        const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(std::abs(x[i]));
        EXPECT_EQ(fields[i], (magnitude + (draw >> 9)) >> 23) << i;
        const float r = static_cast<float>(draw >> 8) * 0x1p-24F;
        const int level = static_cast<int>(std::min(std::abs(x[i]) * 4 + r, 100.0F));
        EXPECT_EQ(levels[i], std::signbit(x[i]) ? -level : level) << i;
        const float place = std::max(x[i] + 8, 0.0F) * (15.0F / 16);
        const float t = static_cast<float>(draws.bits32(first + i) >> 8) * 0x1p-24F;
        EXPECT_EQ(codes[i], static_cast<int>(std::min(place + t, 15.0F))) << i;
      }
    }
  });
}

// An operator that rounds each entry to one of two values, given all entries: which, and how often
// to the upper one. Nothing where it does something else.
struct Ends {
  double low = 0, high = 0;
};

constexpr std::size_t kRanks = 16;
constexpr std::uint64_t kDraws = 200;

// For every unbiased chain that rounds at random: over n ranks that hold the same, the mean's
// variance at an entry that goes up with probability f is that of n f mod 1 of one rank, over n^2.
// And a rank by itself is as it was: unbiased, with the variance f(1 - f).
TEST(Strata, GiveTheMeanOfEqualInputsItsVariance) {
  const auto x = gaussian(300);
  std::size_t chains = 0;
  for (const std::string& spec : example_specs()) {
    const Operator op = parse_operator(spec);
    const Traits traits = op.traits(x.size());
    if (!traits.unbiased || !traits.random || !traits.stratified || op.selects()) continue;
    ++chains;
    std::vector<Ends> ends(x.size(), {1e30, -1e30});
    double of_mean = 0, of_one = 0;
    std::vector<double> bias(x.size());
    for (std::uint64_t step = 0; step < kDraws; ++step) {
      std::vector<double> mean(x.size());
      for (std::size_t rank = 0; rank < kRanks; ++rank) {
        const auto y = through(op, x, make_keys(3, step, rank, kRanks));
        for (std::size_t i = 0; i < x.size(); ++i) {
          const double value = y[i];
          ends[i] = {std::min(ends[i].low, value), std::max(ends[i].high, value)};
          mean[i] += value / kRanks;
          if (rank == 5) bias[i] += (value - x[i]) / kDraws;
        }
        if (rank == 5) of_one += squared_distance(y, x) / kDraws;
      }
      for (std::size_t i = 0; i < x.size(); ++i) of_mean += std::pow(mean[i] - x[i], 2) / kDraws;
    }
    double expected = 0, expected_one = 0, offset = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double step = ends[i].high - ends[i].low;
      if (step <= 0) continue;
      const double f = (x[i] - ends[i].low) / step, part = kRanks * f - std::floor(kRanks * f);
      expected += step * step * part * (1 - part) / (kRanks * kRanks);
      expected_one += step * step * f * (1 - f);
      offset += bias[i] * bias[i];
    }
    if (expected_one == 0) continue;  // exact here
    EXPECT_NEAR(of_mean / expected, 1, 0.06) << spec;
    EXPECT_NEAR(of_one / expected_one, 1, 0.06) << spec;
    EXPECT_LT(offset * kDraws / expected_one, 1.4) << spec;  // 1 in expectation
    EXPECT_LT(of_mean / of_one, 2.0 / (kRanks * kRanks) + 0.02) << spec;
  }
  EXPECT_GE(chains, 12U);
}

}  // namespace
}  // namespace laconic::testing

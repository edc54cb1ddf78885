// ARC-Top-K: rows that all ranks choose alike, values without positions.
#include <algorithm>
#include <mutex>
#include <numeric>

#include "laconic/kernels/low_rank.h"
#include "tests/exchange/support.h"

namespace laconic::testing {
namespace {

std::vector<std::uint32_t> longest(std::span<const float> factor, std::size_t rows,
                                   std::size_t kept) {
  Array<std::uint32_t> chosen;
  Array<double> lengths;
  longest_rows(factor, rows, kept, chosen, lengths);
  return {chosen.view().begin(), chosen.view().end()};
}

double length_of(std::span<const float> row) {
  return std::inner_product(row.begin(), row.end(), row.begin(), 0.0);
}

TEST(Arc, LongestRowsAreThoseOfASortAndTheFirstAmongEquals) {
  EXPECT_EQ(longest(std::vector<float>{1, 2, 2, 0, 2}, 5, 2), (std::vector<std::uint32_t>{1, 2}));
  EXPECT_EQ(longest(std::vector<float>(6), 3, 2), (std::vector<std::uint32_t>{0, 1}));
  EXPECT_EQ(longest(std::vector<float>{3, 0, 0, 4, 1, 0}, 3, 1), (std::vector<std::uint32_t>{0}))
      << "3, 4 is 5, 1 is above 0, 0 is not";
  EXPECT_EQ(longest(std::vector<float>{1e30F, -2e30F}, 2, 1), (std::vector<std::uint32_t>{1}));
}

// Looked at from all sides, one by one, rows are as long as they are.
TEST(Arc, WithTheIdentityInPlaceOfDrawsRowsAreThoseOfTopK) {
  constexpr std::size_t kRows = 50, kCols = 20;
  const auto matrix = gaussian(kRows * kCols, 1, 3);
  std::vector<float> identity(kCols * kCols), sketch(kRows * kCols);
  for (std::size_t i = 0; i < kCols; ++i) identity[i * kCols + i] = 1;
  multiply(matrix, {kRows, kCols, kCols}, identity, sketch);
  std::vector<std::uint32_t> order(kRows);
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::stable_sort(order, std::greater{}, [&](std::uint32_t row) {
    return length_of(std::span(matrix).subspan(row * kCols, kCols));
  });
  std::vector<std::uint32_t> best(order.begin(), order.begin() + 7);
  std::ranges::sort(best);
  EXPECT_EQ(longest(sketch, kRows, 7), best);
}

// |S_j|^2 / r is |row|^2 on average, and spreads by 2 / r of its square (chi-square).
TEST(Arc, ASketchIsUnbiasedAndSpreadsAsChiSquare) {
  constexpr std::size_t kCols = 200, kWidth = 4, kDraws = 20000;
  const auto row = gaussian(kCols, 1, 5);
  const double length = length_of(row);
  double sum = 0, squares = 0;
  std::vector<float> directions(kCols * kWidth), sketch(kWidth);
  for (std::uint64_t draw = 0; draw < kDraws; ++draw) {
    draw_normal(Key(1).fork(draw), directions);
    multiply(row, {1, kCols, kWidth}, directions, sketch);
    const double score = length_of(sketch) / kWidth / length;
    sum += score;
    squares += score * score;
  }
  const double mean = sum / kDraws, variance = squares / kDraws - mean * mean;
  EXPECT_NEAR(mean, 1, 4 * std::sqrt(2.0 / kWidth / kDraws));
  EXPECT_NEAR(variance, 2.0 / kWidth, 0.05 * 2.0 / kWidth);
}

const Model kRowsModel = {{"w", {60, 20}}, {"v", {64 * 50 + 7}}};

// One step of ranks with these gradients: what they get, and what they owe.
struct After {
  std::vector<float> mean;
  std::vector<State> states;
};
After step_of(const std::string& exchange, std::vector<std::vector<float>> gradients) {
  const int ranks = static_cast<int>(gradients.size());
  After after{.mean = {}, .states = std::vector<State>(gradients.size())};
  const Job job{.op = "identity", .exchange = exchange, .ranks = ranks, .model = kRowsModel};
  expect_no_errors(on_ranks(ranks, [&](Transport& transport) {
    const auto rank = static_cast<std::size_t>(transport.rank());
    const auto aggregator = make(job, transport);
    aggregator->average(gradients[rank], {.step = 5});
    after.states[rank] = aggregator->save();
  }));
  after.mean = gradients[0];
  return after;
}

std::vector<std::size_t> rows_sent(std::span<const float> mean, std::size_t cols) {
  std::vector<std::size_t> rows;
  for (std::size_t i = 0; i < mean.size(); ++i)
    if (mean[i] != 0 && (rows.empty() || rows.back() != i / cols)) rows.push_back(i / cols);
  return rows;
}

// Sketches are linear: ranks choose what one rank with their mean would.
TEST(Arc, RanksChooseTheRowsOfTheirMean) {
  std::vector<std::vector<float>> x;
  std::vector<float> mean(count_of(kRowsModel));
  for (int rank = 0; rank < 4; ++rank) {
    x.emplace_back(mean.size());
    const auto more = gaussian(mean.size(), 100, static_cast<std::uint64_t>(rank));
    for (std::size_t i = 0; i < mean.size(); ++i) {
      x.back()[i] = std::round(more[i]);
      mean[i] += x.back()[i] / 4;
    }
  }
  const auto together = step_of("arc:0.1", x), alone = step_of("arc:0.1", {mean});
  EXPECT_EQ(together.mean, alone.mean);
  const std::span all(together.mean);
  EXPECT_EQ(rows_sent(all.first(1200), 20).size(), 6U);
  EXPECT_EQ(rows_sent(all.subspan(1200), 64).size(), 6U) << "ceil(0.1 * 51)";
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i] != 0) {
      EXPECT_EQ(all[i], mean[i]) << i;
    }
}

// What one sent is gone from what it owes, and nothing else is.
TEST(Arc, EachRankOwesWhatItHasNotSent) {
  std::vector<std::vector<float>> x;
  for (std::uint64_t rank = 0; rank < 3; ++rank)
    x.push_back(gaussian(count_of(kRowsModel), 1, rank));
  const auto after = step_of("arc:0.1", x);
  for (std::size_t rank = 0; rank < x.size(); ++rank)
    for (std::size_t i = 0; i < x[rank].size(); ++i) {
      const auto& w = after.states[rank].at("feedback/w");
      const float owed = i < 1200 ? w[i] : after.states[rank].at("feedback/v")[i - 1200];
      EXPECT_EQ(owed, after.mean[i] == 0 ? x[rank][i] : 0) << rank << " " << i;
    }
}

// Few large rows are found whatever the draws; the last run of a vector, which is short, too.
TEST(Arc, FindsRowsThatStandOut) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    std::vector<std::vector<float>> x;
    for (std::uint64_t rank = 0; rank < 2; ++rank) {
      x.push_back(gaussian(count_of(kRowsModel), 0.001F, 2 * seed + rank));
      for (std::size_t row = 0; row < 6; ++row)
        for (std::size_t i = 0; i < 20; ++i) x.back()[(10 * row + seed % 10) * 20 + i] += 1;
      for (std::size_t i = 1200 + 64 * 50; i < x.back().size(); ++i) x.back()[i] -= 1;
    }
    const auto after = step_of("arc:0.1,sketch=8", x);
    const auto rows = rows_sent(std::span(after.mean).first(1200), 20);
    for (std::size_t row = 0; row < 6; ++row) EXPECT_EQ(rows[row], 10 * row + seed % 10);
    EXPECT_EQ(rows_sent(std::span(after.mean).subspan(1200), 64).back(), 50U);
  }
}

// m r + ceil(p m) c floats around the ring; vectors that gain nothing as they are.
TEST(Arc, SendsSketchesAndRowsWithoutPositions) {
  for (const int ranks : {2, 4}) {
    double all = 0;
    std::mutex mutex;
    expect_no_errors(on_ranks(ranks, [&](Transport& transport) {
      auto gradient = gradient_of(transport.rank(), 0);
      const auto aggregator = make({.op = "identity", .exchange = "arc:0.1,sketch=2"}, transport);
      const StepStats stats = aggregator->average(gradient, {});
      EXPECT_EQ(stats.payload_bytes, 4U * ((40 * 2 + 4 * 30) + 40 + (10 * 2 + 1 * 40) + 10));
      const std::lock_guard lock(mutex);
      all += floats_of(stats, ranks);
    }));
    EXPECT_EQ(all, 2.0 * (ranks - 1) * 4 * (200 + 40 + 60 + 10));
  }
}

// In whole numbers nothing is lost, exactly: rows are sent as they are.
TEST(Arc, NothingIsLost) {
  for (const int ranks : {1, 3, 4}) {
    std::vector<State> states;
    Ledger ledger;
    const Job job{.op = "identity", .exchange = "arc:0.05", .ranks = ranks, .steps = 6};
    run(job, 0, states, ledger, true);
    EXPECT_EQ(ledger.gap(states), 0) << ranks;
    EXPECT_GT(std::ranges::count_if(states[0].at("feedback/w1"), [](float x) { return x != 0; }),
              0);
  }
}

TEST(Arc, ASliceThatIsNotFiniteIsNotFiniteOnAllRanks) {
  for (const float bad : {NAN, INFINITY})
    expect_no_errors(on_ranks(3, [&](Transport& transport) {
      auto gradient = gradient_of(transport.rank(), 0);
      if (transport.rank() == 1) gradient[1300] = bad;  // of w2
      const auto aggregator = make({.op = "identity", .exchange = "arc:0.1"}, transport);
      EXPECT_FALSE(aggregator->average(gradient, {}).finite);
      for (std::size_t i = 0; i < gradient.size(); ++i)
        EXPECT_EQ(std::isfinite(gradient[i]), i < 1240 || i >= 1640) << i;
    }));
}

}  // namespace
}  // namespace laconic::testing

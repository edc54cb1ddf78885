// A rank for each tensor: errors against singular values, choices against trying everything.
#include "laconic/kernels/low_rank.h"
#include "laconic/planner/trials.h"
#include "laconic/transports/threads.h"
#include "tests/planner/recorded.h"

namespace laconic {
namespace {

constexpr std::size_t kRows = 24, kCols = 20;
constexpr std::size_t kLargest = 10;  // 10 * 44 floats are fewer than 480, 11 * 44 are not

// With these singular values, and any directions.
std::vector<float> matrix_of(const std::vector<double>& singular, std::uint64_t seed) {
  const std::size_t count = singular.size();
  auto left = testing::gaussian(kRows * count, 1, seed),
       right = testing::gaussian(kCols * count, 1, seed + 1);
  Array<double> spare;
  orthonormalise(left, kRows, Key(1), spare);
  orthonormalise(right, kCols, Key(2), spare);
  for (std::size_t i = 0; i < left.size(); ++i) left[i] *= static_cast<float>(singular[i / kRows]);
  std::vector<float> matrix(kRows * kCols);
  add_product(left, right, {kRows, kCols, count}, 1, matrix);
  return matrix;
}

std::vector<double> falling(double first, double ratio) {
  std::vector<double> values;
  for (std::size_t i = 0; i < kCols; ++i)
    values.push_back(first * std::pow(ratio, static_cast<double>(i)));
  return values;
}

double tail(const std::vector<double>& singular, std::size_t rank) {
  double sum = 0;
  for (std::size_t i = rank; i < singular.size(); ++i) sum += singular[i] * singular[i];
  return sum;
}

Situation situation_of(const Model& model, std::vector<float> gradient) {
  Samples samples{.name = "mine", .model = model};
  samples.gradients.push_back(std::move(gradient));
  return {.samples = std::move(samples), .workers = 4, .link = {}};
}

// Two matrices, one of which needs more ranks than the other.
struct Pair {
  std::vector<double> slow = falling(3, 0.6), fast = falling(8, 0.25);
  Situation situation = [&] {
    auto values = matrix_of(slow, 1);
    const auto other = matrix_of(fast, 3), bias = testing::gaussian(kRows, 0.01F, 5);
    values.insert(values.end(), other.begin(), other.end());
    values.insert(values.end(), bias.begin(), bias.end());
    return situation_of({{"slow", {kRows, kCols}}, {"fast", {kRows, 4, 5}}, {"bias", {kRows}}},
                        values);
  }();

  double all() const {
    double sum = 0;
    for (const float x : situation.samples.gradients[0]) sum += static_cast<double>(x) * x;
    return sum;
  }
};

std::uint64_t bytes_of(std::size_t variant) {
  return sizeof(float) * (variant < kLargest ? (variant + 1) * (kRows + kCols) : kRows * kCols);
}

TEST(Ranks, ErrorsAreTheTailsOfSingularValues) {
  const Pair pair;
  const auto trials = try_ranks("powersgd:2", pair.situation);
  const std::vector<double>* const singular[] = {&pair.slow, &pair.fast};
  for (std::size_t tensor = 0; tensor < 2; ++tensor) {
    const auto& measured = trials->measured()[tensor];
    ASSERT_EQ(measured.size(), kLargest + 1);
    for (std::size_t rank = 1; rank <= kLargest; ++rank) {
      const double best = tail(*singular[tensor], rank), error = measured[rank - 1].error;
      EXPECT_GE(error * pair.all(), best * (1 - 1e-3) - 1e-9) << tensor << " " << rank;
      EXPECT_LE(error * pair.all(), best * 1.05 + 1e-9) << tensor << " " << rank;
      EXPECT_EQ(measured[rank - 1].bytes, 4.0 * static_cast<double>(rank * (kRows + kCols)));
    }
    EXPECT_EQ(measured[kLargest].error, 0);
    EXPECT_EQ(measured[kLargest].bytes, 4.0 * kRows * kCols);
  }
  ASSERT_EQ(trials->measured()[2].size(), 1U) << "a vector goes as it is";
}

TEST(Ranks, ErrorsOfTheTableAreThoseOfTheEngine) {
  const Pair pair;
  const auto trials = try_ranks("powersgd:2", pair.situation);
  for (std::size_t slow = 0; slow <= kLargest; slow += 2)
    for (std::size_t fast = 0; fast <= kLargest; fast += 3) {
      const auto outcomes = trials->of_recipe(trials->recipe_of({slow, fast, 0}));
      const double error = trials->measured()[0][slow].error + trials->measured()[1][fast].error;
      EXPECT_EQ(outcomes.bytes, bytes_of(slow) + bytes_of(fast) + 4 * kRows);
      EXPECT_NEAR(outcomes.error, error, 1e-4 * error + 1e-12) << slow << " " << fast;
    }
}

// By tails of singular values, which know nothing of the engine.
TEST(Ranks, OfTwoMatricesAreWhatTryingAllOfThemFinds) {
  const Pair pair;
  for (std::uint64_t columns = 2; columns <= 2 * kLargest; ++columns) {
    const std::uint64_t budget = 4 * (columns * (kRows + kCols) + kRows) + 20;
    std::size_t slow = 0, fast = 0;
    double least = 1e9;
    for (std::size_t a = 0; a <= kLargest; ++a)
      for (std::size_t b = 0; b <= kLargest; ++b) {
        const double lost = (a < kLargest ? tail(pair.slow, a + 1) : 0) +
                            (b < kLargest ? tail(pair.fast, b + 1) : 0);
        if (bytes_of(a) + bytes_of(b) + 4 * kRows > budget || lost >= least) continue;
        slow = a, fast = b, least = lost;
      }
    const auto trials = try_ranks("powersgd:1", pair.situation);
    const Recipe best = trials->recipe_of({slow, fast, 0});
    const Adaptive adaptive = adapt("powersgd:1", {.bytes = budget}, pair.situation);
    EXPECT_EQ(adaptive.chosen.recipe.exchange, best.exchange) << columns;
    EXPECT_EQ(adaptive.chosen.recipe.rules, best.rules) << columns;
  }
}

TEST(Ranks, AreNeverWorseThanOneForAllAtEqualBytes) {
  const Situation situation = testing::recorded();
  for (const std::string rank : {"1", "2", "4", "16"}) {
    const Adaptive free = adapt("powersgd:" + rank, {}, situation);
    EXPECT_LE(free.chosen.error, free.layer_wise.error) << rank;
    EXPECT_LE(free.chosen.bytes, free.layer_wise.bytes) << rank;
    EXPECT_FALSE(free.entire_model);
    // Whatever rank was given: one for all is among what is tried.
    const Adaptive held = adapt("powersgd:3", {.bytes = free.layer_wise.bytes}, situation);
    EXPECT_LE(held.chosen.bytes, free.layer_wise.bytes) << rank;
    EXPECT_LE(held.chosen.error, free.layer_wise.error) << rank;
  }
}

TEST(Ranks, WithoutErrorAllGoAsTheyAre) {
  const Pair pair;
  const Adaptive adaptive = adapt("powersgd:2", {.error = 0}, pair.situation);
  EXPECT_EQ(adaptive.chosen.error, 0);
  EXPECT_EQ(adaptive.chosen.bytes, 4 * (2 * kRows * kCols + kRows));
}

TEST(Ranks, MakeARecipeThatRunsAndSendsWhatItSays) {
  const Pair pair;
  const Adaptive adaptive =
      adapt("powersgd:2,refresh=300", {.bytes = 4 * 8 * (kRows + kCols)}, pair.situation);
  const Recipe recipe = read_recipe(write_recipe(adaptive.chosen.recipe));
  EXPECT_EQ(recipe, adaptive.chosen.recipe);
  EXPECT_NE(recipe.exchange.find("refresh=300"), std::string::npos);
  EXPECT_FALSE(recipe.rules.empty());
  const auto ends = make_thread_transports(1);
  const auto aggregator =
      make_aggregator({.model = pair.situation.samples.model, .recipe = recipe}, *ends[0]);
  auto gradient = pair.situation.samples.gradients[0];
  EXPECT_EQ(aggregator->average(gradient, {}).payload_bytes, adaptive.chosen.bytes);
}

TEST(Ranks, ThatCannotBeAreRefused) {
  const Pair pair;
  const auto refusal = [&](const std::string& spec, const Budget& budget = {}) {
    return testing::message_of<UsageError>([&] { adapt(spec, budget, pair.situation); });
  };
  EXPECT_NE(refusal("powersgd:0").find("rank = 1 to 64, whole"), std::string::npos);
  EXPECT_NE(refusal("powersgd:65").find("rank = 1 to 64, whole"), std::string::npos);
  EXPECT_EQ(refusal("powersgd:2", {.bytes = 100}),
            "no choice for 'powersgd:2' fits in 100 bytes; as it is it takes 800");
  EXPECT_EQ(variants_of("powersgd:4,refresh=300").size(), 64U);
  EXPECT_EQ(variants_of("powersgd:4,refresh=300")[3], "powersgd:4,refresh=300");
}

// A tensor of which costs are measured on some rows only has no rank above these.
TEST(Ranks, AreForeseenWhereOnlySomeRowsAreTimed) {
  const Model model = {{"large", {2048, 2047}}, {"cut", {100, 1500}}};
  const Situation situation = situation_of(model, testing::gaussian(count_of(model), 1));
  const Recipe recipe{.name = "mine", .exchange = "powersgd:1", .rules = {"name=cut,rank=50"}};
  const Forecast forecast = forecast_of(recipe, situation);
  EXPECT_EQ(forecast.obstacle, "");
  const Recipe wrong{.name = "mine", .exchange = "powersgd:1", .rules = {"name=cut,rank=101"}};
  EXPECT_EQ(forecast_of(wrong, situation).obstacle,
            "rank 101 for tensor 'cut', a matrix of 100 x 1500; allowed: 1 to 100");
}

}  // namespace
}  // namespace laconic

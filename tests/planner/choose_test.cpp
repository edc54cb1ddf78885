// The choice by layer under one budget, against trying everything.
#include "laconic/planner/adaptive.h"
#include "tests/support.h"

namespace laconic {
namespace {

using Layers = std::vector<std::vector<Way>>;

double sum_of(const Layers& layers, const std::vector<std::size_t>& chosen, double Way::*what) {
  double sum = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) sum += layers[i][chosen[i]].*what;
  return sum;
}

// Least cost of all choices that keep the budget; below 0 when none does.
double least_by_trying(const Layers& layers, double budget, std::size_t layer = 0) {
  if (layer == layers.size()) return budget >= 0 ? 0 : -1;
  double least = -1;
  for (const Way& way : layers[layer]) {
    const double rest = least_by_trying(layers, budget - way.limited, layer + 1);
    if (rest >= 0 && (least < 0 || rest + way.cost < least)) least = rest + way.cost;
  }
  return least;
}

TEST(ChooseWays, IsTheBestOfAllWhereRoundingDoesNotMatter) {
  std::mt19937 random(3);
  for (int trial = 0; trial < 200; ++trial) {
    Layers layers(1 + random() % 4);
    for (auto& ways : layers)
      for (std::size_t i = 0; i < 3; ++i)
        ways.push_back({static_cast<double>(random() % 50), static_cast<double>(random() % 20)});
    const double budget = static_cast<double>(1 + random() % 40);
    // Steps of 1: nothing is rounded.
    const auto chosen = choose_ways(layers, budget, static_cast<std::size_t>(budget));
    const double least = least_by_trying(layers, budget);
    ASSERT_EQ(chosen.has_value(), least >= 0);
    if (!chosen) continue;
    EXPECT_EQ(sum_of(layers, *chosen, &Way::cost), least);
    EXPECT_LE(sum_of(layers, *chosen, &Way::limited), budget);
  }
}

TEST(ChooseWays, KeepsTheBudgetHoweverItRounds) {
  std::mt19937 random(4);
  std::uniform_real_distribution<double> uniform(0, 1);
  for (int trial = 0; trial < 100; ++trial) {
    Layers layers(20);
    for (auto& ways : layers)
      for (int i = 0; i < 5; ++i) ways.push_back({uniform(random), uniform(random)});
    const double budget = 7 + 5 * uniform(random);
    const auto fine = choose_ways(layers, budget), coarse = choose_ways(layers, budget, 100);
    ASSERT_TRUE(fine && coarse);
    EXPECT_LE(sum_of(layers, *fine, &Way::limited), budget * (1 + 1e-12));
    EXPECT_LE(sum_of(layers, *coarse, &Way::limited), budget * (1 + 1e-12));
    EXPECT_LE(sum_of(layers, *fine, &Way::cost), sum_of(layers, *coarse, &Way::cost));
  }
}

TEST(ChooseWays, OneLayerTakesTheCheapestThatFits) {
  const Layers layers = {{{5, 1}, {3, 2}, {1, 3}}};
  EXPECT_EQ(choose_ways(layers, 2.5), (std::vector<std::size_t>{1}));
  EXPECT_EQ(choose_ways(layers, 3), (std::vector<std::size_t>{2}));
  EXPECT_FALSE(choose_ways(layers, 0.5));
}

TEST(ChooseWays, EqualErrorsTakeTheSmallest) {
  const Layers layers = {{{5, 1}, {3, 1}, {4, 1}}, {{2, 0}, {1, 0}}};
  EXPECT_EQ(choose_ways(layers, 1), (std::vector<std::size_t>{1, 1}));
  EXPECT_FALSE(choose_ways(layers, 0));
  EXPECT_EQ(choose_ways({{{2, 0}, {1, 0}}}, 0), (std::vector<std::size_t>{1}));
  EXPECT_EQ(choose_ways({}, 1), (std::vector<std::size_t>{}));
}

}  // namespace
}  // namespace laconic

// Density, levels, bits or rank by tensor under one budget, by exact sizes and exact errors on
// recorded gradients: the question of L-GreCo (Alimohammadi et al., arXiv 2210.17357).
#pragma once

#include "laconic/planner/forecast.h"

namespace laconic {

// One way to treat one layer: what is to be small in sum, and what has a budget in sum.
struct Way {
  double cost = 0, limited = 0;  // neither below 0
};

// By layer the way to take: the least sum of costs among those whose sum of limited is at most the
// budget, which is cut in `steps`; every way's part of it is rounded up, so what is found keeps the
// budget. Of ways that do the same the first. Nothing: no choice keeps it. O(layers ways steps).
std::optional<std::vector<std::size_t>> choose_ways(const std::vector<std::vector<Way>>& layers,
                                                    double budget, std::size_t steps = 10'000);

// The specs in which the number that decides how much an operator sends is another: densities of a
// selector from 1/64 to 64 times its own by sqrt(2), whole numbers of a quantiser from small to
// large; ranks of exchange powersgd. Its own is among them. Throws UsageError for an operator
// without such a number.
std::vector<std::string> variants_of(std::string_view op);

struct Budget {
  std::optional<std::uint64_t> bytes = {};  // of the frames, or factors, a rank makes in a step
  std::optional<double> error = {};         // |C(x) - x|^2 / |x|^2
};

// What a choice comes to: real frames or factors, errors in the mean over the gradients.
struct Outcomes {
  Recipe recipe;
  std::uint64_t bytes = 0;
  double error = 0;
};

struct Adaptive {
  Outcomes chosen;      // its recipe has a rule for each tensor that needs one
  Outcomes layer_wise;  // as it was given
  std::optional<Outcomes> entire_model = {};  // and over the whole model, where that can be
};

// The best recipe within the budget; with neither, as small as can be at the error of `op` layer by
// layer. Never worse than those that keep the budget of: what was given, the same over the whole
// model, one variant for all tensors. Throws UsageError when nothing keeps it.
Adaptive adapt(const std::string& op, const Budget& budget, const Situation& situation);

}  // namespace laconic

// What a recipe costs a processor and loses, measured here and now by the engine itself on one and
// two ranks.
#pragma once

#include <optional>

#include "laconic/planner/clock.h"
#include "laconic/planner/samples.h"
#include "laconic/recipes/recipe.h"

namespace laconic {

// On up to so many entries of the model.
inline constexpr std::size_t kTimedEntries = std::size_t{1} << 22;

// The best of `repeats`.
Rates measure_rates(const Recipe& recipe, const Samples& samples, unsigned repeats);

// |mean - x|^2 / |x|^2 of a first step in which all ranks have the gradient x, in the mean over the
// gradients. Both ways are in it where the way back is compressed too.
double measure_error(const Recipe& recipe, const Samples& samples);

// A round of gossip with two neighbours.
struct GossipCosts {
  double encode = 0, decode = 0;  // seconds of one core for the whole model
  double bytes = 0, messages = 0, rounds = 0;
};
GossipCosts measure_gossip(const Recipe& recipe, const Samples& samples, unsigned repeats);

}  // namespace laconic

// The outer optimiser of local steps: it takes the averaged change of a round as its gradient.
#pragma once

#include <string_view>

#include "laconic/recipes/optimizer.h"

namespace laconic {

struct Outer {
  OptimizerOptions optimizer;
  float lr = 1;
};

// "none", "momentum:0.9,lr=1" or "nesterov:0.9,lr=0.7". Throws UsageError naming these.
Outer parse_outer(std::string_view spec);

}  // namespace laconic

// The outer optimiser of local steps, as a value: it takes the averaged change of a round as its
// gradient.
#pragma once

#include <string_view>

namespace laconic {

struct Outer {
  float momentum = 0;
  bool nesterov = false;
  float lr = 1;
};

// "none", "momentum:0.9,lr=1" or "nesterov:0.9,lr=0.7". Throws UsageError naming these.
Outer parse_outer(std::string_view spec);

}  // namespace laconic

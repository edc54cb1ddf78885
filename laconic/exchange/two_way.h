// Two legs: frames go to the owners of shards, who add them up, and compressed sums come back.
#pragma once

#include "laconic/exchange/aggregator.h"
#include "laconic/exchange/shards.h"

namespace laconic {

// What an aggregator of two legs is made from. `down_memory` is the owners': none or feedback.
struct TwoWay {
  Setup setup;
  Bounds bounds;
  std::string down_memory;
};

std::unique_ptr<Aggregator> make_two_way(TwoWay way);

}  // namespace laconic

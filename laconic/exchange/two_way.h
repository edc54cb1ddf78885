// Two legs: frames go to the owners of shards, who add them up, and compressed sums come back.
#pragma once

#include "laconic/exchange/foresight.h"
#include "laconic/exchange/shards.h"

namespace laconic {

// `down_memory` is the owners': none or feedback.
std::unique_ptr<Exchange> make_two_way(const Setup& setup, Shards shards, std::string down_memory);
std::unique_ptr<Foresight> foresee_two_way(Rehearsal& rehearsal, Shards shards);

}  // namespace laconic

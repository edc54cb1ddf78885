// Two legs: frames go to the owners of shards, who add them up, and compressed sums come back.
#pragma once

#include "laconic/exchange/foresight.h"
#include "laconic/exchange/shards.h"

namespace laconic {

// Whether a memory adds up all means that come back, at rates of its own: they must be whole then.
bool adds_up_means(const std::string& memory);

// `down_memory` is the owners': none or feedback.
std::unique_ptr<Exchange> make_two_way(const Setup& setup, Shards shards, std::string down_memory);
std::unique_ptr<Foresight> foresee_two_way(Rehearsal& rehearsal, Shards shards);

// The same over what another exchange remembers: its memory, and that of its owners if it has some.
// They must outlive it, and the step is theirs to begin and to commit.
std::unique_ptr<Exchange> make_two_way(const Setup& setup, Shards shards, Exchange& lender);

}  // namespace laconic

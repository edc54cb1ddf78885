// States that were saved on some number of ranks, for another number of ranks.
#pragma once

#include <vector>

#include "laconic/memory/memory.h"

namespace laconic {

// Given what Aggregator::save gave on each rank, in rank order: what each of `ranks` ranks loads
// instead. Each role is kept as its memory or exchange says (Kept). Debts stay whole, rank i's with
// rank i modulo `ranks`: n times what is delivered in all, plus what is owed, stays the sum of all
// gradients. A debt then moves the model as it would have if the learning rate follows the number
// of ranks, and by N/M of that, from N ranks to M, if it stays. Where owners of shards owe sums,
// every rank gets all of them and loads its own shard's.
// Throws DataError when the states are not those of one run.
std::vector<State> redistribute(const std::vector<State>& states, int ranks);

// For ranks that go on without some that were lost, each with its own debts; those of the lost are
// lost. What one must tell the others of its state: shards of sums, which have other owners now,
// and what each has gathered by itself, unless all know its mean ("role.mean").
State to_be_told(const State& own);
// And, given what all of them have told, in their order, what a rank loads instead of its own. They
// were `before` ranks. Throws DataError when that is not of one run.
State among_survivors(const State& own, const std::vector<State>& told, int before);

}  // namespace laconic

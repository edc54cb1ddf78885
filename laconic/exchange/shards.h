// Shards: which entries of the model each rank adds up, and the memory over such a part.
#pragma once

#include "laconic/exchange/frames.h"

namespace laconic {

// Rank r has the entries from bounds[r] up to, not including, bounds[r + 1].
using Bounds = std::vector<std::size_t>;

// Shards of about equal count. They end where slices end, unless a slice is larger than two shards
// or there are fewer slices than ranks: then they cut slices. A function of its arguments alone, so
// all ranks find the same.
Bounds even_bounds(const Layout& layout, std::size_t ranks);

// One rank has it all.
Bounds one_owner(std::size_t count, std::size_t ranks);

// The plan with its slices cut at the bounds, without slices that are empty.
Plan cut_at(const Plan& plan, const Bounds& bounds);

// The slices of a rank's shard in a plan that was cut at the bounds.
SliceRange shard_of(const Plan& plan, const Bounds& bounds, int rank);

// A memory of one rank's shard. Slices keep their places in the whole model. State is by tensor
// name behind kOfShard, for tensors of which some entries are in the shard; the others of their entries are 0. From
// the state of all shards it loads its own.
std::unique_ptr<Memory> make_shard_memory(std::string_view spec, const Model& model,
                                          const Plan& plan, const Bounds& bounds, int rank);

}  // namespace laconic

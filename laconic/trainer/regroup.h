// A run goes on with more workers, or fewer.
#pragma once

#include "laconic/recipes/recipe.h"
#include "laconic/trainer/checkpoint.h"

namespace laconic::trainer {

// The checkpoint for another number of workers. What all have in common stays; what each has of its
// own is given out anew as redistribute does: nothing that is owed to the model is lost, momentum
// becomes the mean. Throws UsageError, in words, where each worker has a model of its own: with
// gossip, within a round of local steps, and where fragments of it take turns.
Checkpoint regroup(const Checkpoint& checkpoint, const Recipe& recipe, std::size_t workers);

}  // namespace laconic::trainer

// Part by part: the exchange's states, the optimisers', the losses.
#include "laconic/trainer/regroup.h"

#include <numeric>

#include "laconic/base/errors.h"
#include "laconic/memory/redistribute.h"
#include "laconic/trainer/descent.h"

namespace laconic::trainer {
namespace {

void require_one_model(const Checkpoint& checkpoint, const Recipe& recipe, std::size_t workers) {
  const std::string models = " workers, not " + std::to_string(workers) +
                             ": each has a model of its own, which no other can go on with",
                    were = std::to_string(checkpoint.own.size()),
                    run = "the run has " + were + models;
  if (!recipe.mixer.empty())
    throw UsageError(run + " (mixer '" + recipe.mixer + "'); allowed: " + were + " workers");
  if (recipe.fragments > 1 || recipe.overlap > 0 || recipe.merge > 0)
    throw UsageError(run + " (fragments " + std::to_string(recipe.fragments) + ", overlap " +
                     std::to_string(recipe.overlap) + "); allowed: " + were + " workers");
  if (checkpoint.course.step % recipe.delay != 0)
    throw UsageError(run + " before the round of local steps ends; allowed: " + were +
                     " workers, or a checkpoint at a multiple of " + std::to_string(recipe.delay) +
                     " steps, not " + std::to_string(checkpoint.course.step));
}

// Of all ranks' states, what stands under the prefix, given out anew and put under it again.
void give_out(const std::string& prefix, const std::vector<State>& from, std::vector<State>& to) {
  std::vector<State> parts;
  for (const State& state : from) parts.push_back(take_under(prefix, state));
  parts = redistribute(parts, static_cast<int>(to.size()));
  for (std::size_t rank = 0; rank < to.size(); ++rank) put_under(prefix, parts[rank], to[rank]);
}

// Evaluations tell the mean over ranks of the mean since the last one.
std::vector<double> shared_losses(const std::vector<double>& sums, std::size_t workers) {
  const double all = std::accumulate(sums.begin(), sums.end(), 0.0);
  return std::vector<double>(workers, all / static_cast<double>(sums.size()));
}

}  // namespace

Checkpoint regroup(const Checkpoint& checkpoint, const Recipe& recipe, std::size_t workers) {
  require_one_model(checkpoint, recipe, workers);
  Checkpoint other = checkpoint;
  other.own.assign(workers, {});
  for (const char* prefix : {kExchange, kOptimizer}) give_out(prefix, checkpoint.own, other.own);
  other.loss_sums = shared_losses(checkpoint.loss_sums, workers);
  return other;
}

}  // namespace laconic::trainer

// A recipe at work on one rank: what becomes of its model with every gradient.
#pragma once

#include "laconic/recipes/optimizer.h"
#include "laconic/recipes/recipe.h"

namespace laconic {

// A method's state and the model, to go on from. `common` is the same on all ranks.
struct Saved {
  State common, own;
};

class Method {
 public:
  virtual ~Method() = default;

  // In: this rank's model and its gradient there. Out: the model after the step; the gradient is
  // used up. A gradient that holds NaN or Inf changes nothing, and stats.finite is false: on all
  // ranks where gradients are averaged, on this one where they are not.
  virtual StepStats step(std::span<float> parameters, std::span<float> gradient,
                         const StepInfo& info) = 0;

  // After the last step: ends a round that is under way.
  virtual StepStats finish(std::span<float> /*parameters*/, const StepInfo& /*info*/) { return {}; }

  // Whether all ranks hold the same model now, bit for bit.
  virtual bool replicas_equal() const = 0;

  virtual Saved save(std::span<const float> parameters) const = 0;
  // Throws DataError unless it was saved by the same method for this model.
  virtual void load(const Saved& saved, std::span<float> parameters) = 0;
};

// `start` is the model before the first step, the same on all ranks. Throws UsageError when recipe
// and optimiser do not go together, and what `agree` throws.
std::unique_ptr<Method> make_method(const Agreement& agreement, const OptimizerOptions& optimizer,
                                    std::span<const float> start, Transport& transport);

}  // namespace laconic

// An optimiser inside a method: how a worker's gradient becomes a step of its model.
#pragma once

#include <memory>

#include "laconic/methods/method.h"
#include "laconic/trainer/optimizer.h"

namespace laconic::trainer {

// What names of the optimiser's state begin with in what a Descent saves.
inline constexpr const char* kOptimizer = "optimizer:";

class Descent {
 public:
  // `start` is the model before the first step. Throws UsageError when recipe and optimiser do not
  // go together, and what make_method throws.
  Descent(const Agreement& agreement, const OptimizerOptions& optimizer,
          std::span<const float> start, Transport& transport);

  // In: this rank's model and its gradient there. Out: the model after the step; the gradient is
  // used up. A gradient that holds NaN or Inf changes nothing, and stats.finite is false: on all
  // ranks where gradients are averaged, on this one where they are not.
  StepStats step(std::span<float> parameters, std::span<float> gradient, const StepInfo& info);

  // After the last step.
  StepStats finish(std::span<float> parameters, const StepInfo& info);

  bool replicas_equal() const { return method_->replicas_equal(); }
  double residual_norm() const { return method_->residual_norm(); }

  // The method's state with the optimiser's.
  Saved save(std::span<const float> parameters) const;
  void load(const Saved& saved, std::span<float> parameters);

 private:
  // Where gradients are averaged all ranks' optimisers have the same state.
  State Saved::*optimizer_part() const {
    return method_->gradients() ? &Saved::common : &Saved::own;
  }

  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<Method> method_;
};

// What two parts of a step cost together.
StepStats sum_of(const StepStats& a, const StepStats& b);

}  // namespace laconic::trainer

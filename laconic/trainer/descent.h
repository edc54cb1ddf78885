// An optimiser inside a method: how a worker's gradients become steps of its model.
#pragma once

#include <memory>

#include "laconic/methods/method.h"
#include "laconic/trainer/buckets.h"
#include "laconic/trainer/optimizer.h"

namespace laconic::trainer {

// What names of the optimiser's state begin with in what a Descent saves.
inline constexpr const char* kOptimizer = "optimizer:";

class Descent {
 public:
  // `start` is the model before the first step. Buckets of gradients are averaged while others are
  // being computed; with 0 bytes all are averaged at the end. Throws UsageError when recipe and
  // optimiser do not go together, and what make_method throws.
  Descent(Agreement agreement, const OptimizerOptions& optimizer, std::uint64_t bucket_bytes,
          std::span<const float> start, Transport& transport);

  // A step begins: this rank's model, and where its gradient there will stand. Both are the step's
  // until it ends.
  void begin(std::span<float> parameters, std::span<float> gradient, const StepInfo& info);
  // This tensor's gradient is final. Need not be called.
  void ready(std::size_t tensor);
  // All gradients are. Out: the model after the step; the gradient is used up. A gradient that
  // holds NaN or Inf changes nothing, and stats.finite is false: on all ranks where gradients are
  // averaged, on this one where they are not.
  StepStats end();
  // Instead of end: this rank cannot go on, for this reason. Where all ranks step together they are
  // told.
  void abandon(std::string_view why);

  // After the last step. With info.plain all that is owed to the model is delivered: with the last
  // round of local steps, or as one more update where gradients are averaged. The gradient is used
  // up.
  StepStats finish(std::span<float> parameters, std::span<float> gradient, const StepInfo& info);

  // Whether all ranks step together, so that end tells of all ranks' StepInfo::flags.
  bool votes() const { return aggregator_ != nullptr; }
  bool replicas_equal() const { return method_->replicas_equal(); }
  double residual_norm() const { return method_->residual_norm(); }

  // Lines of the guard's record since it was last asked for.
  std::vector<std::string> take_guard_record() {
    return aggregator_ ? aggregator_->take_guard_record() : std::vector<std::string>{};
  }

  // Of the step that has ended; none where gradients stay with their rank.
  std::vector<UnitTimes> unit_times() const {
    return aggregator_ ? aggregator_->unit_times() : std::vector<UnitTimes>{};
  }

  // The method's state with the optimiser's.
  Saved save(std::span<const float> parameters) const;
  void load(const Saved& saved, std::span<float> parameters);

 private:
  // Where gradients are averaged all ranks' optimisers have the same state.
  State Saved::*optimizer_part() const { return aggregator_ ? &Saved::common : &Saved::own; }
  void submit(std::span<const std::size_t> tensors);
  StepStats before_update();

  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<Method> method_;
  Aggregator* aggregator_ = nullptr;  // the method's, where gradients are averaged
  Buckets buckets_;
  std::vector<std::size_t> offsets_;  // of tensors in the flat model
  std::vector<void*> arrays_;         // working memory of submit
  // Of the step under way.
  std::span<float> parameters_, gradient_;
  StepInfo info_;
};

}  // namespace laconic::trainer

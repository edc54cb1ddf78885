// Optimisers over a flat model. Their state is saved by tensor name.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "laconic/memory/memory.h"

namespace laconic::trainer {

struct OptimizerOptions {
  std::string kind = "sgd";  // sgd or adamw
  float momentum = 0.9F;     // sgd
  bool nesterov = false;     // sgd
  float weight_decay = 0;
  float beta1 = 0.9F, beta2 = 0.999F, epsilon = 1e-8F;  // adamw

  bool has_momentum() const { return kind != "sgd" || momentum > 0; }
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  // The same arguments and state give the same bits on every machine.
  virtual void update(std::span<float> parameters, std::span<const float> gradient, float lr) = 0;
  // Forgets all it has seen.
  virtual void reset() = 0;
  // What a memory may mask (StepInfo::momentum); empty when there is none.
  virtual std::span<float> momentum() { return {}; }
  virtual State save() const = 0;
  // Throws DataError unless the state is one this optimiser saved for this model.
  virtual void load(const State& state) = 0;
};

// Throws UsageError for a kind or value that is not allowed.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options, const Model& model);

}  // namespace laconic::trainer

// Optimisers over a flat model. Their state is saved by tensor name.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "laconic/memory/memory.h"

namespace laconic {

struct OptimizerOptions {
  std::string kind = "sgd";  // sgd or adamw
  float momentum = 0.9F;     // sgd
  bool nesterov = false;     // sgd
  float weight_decay = 0;
  float beta1 = 0.9F, beta2 = 0.999F, epsilon = 1e-8F;  // adamw
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  virtual void update(std::span<float> parameters, std::span<const float> gradient, float lr,
                      std::uint64_t step) = 0;
  // What a memory may mask (StepInfo::momentum); empty when there is none.
  virtual std::span<float> momentum() { return {}; }
  virtual State save() const = 0;
  virtual void load(const State& state) = 0;
};

// Throws UsageError for a kind or value that is not allowed.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options, const Model& model);

}  // namespace laconic

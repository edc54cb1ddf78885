// Optimisers over a flat model, and the learning rate of a step. Their state is saved by tensor
// name.
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
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  virtual void update(std::span<float> parameters, std::span<const float> gradient, float lr,
                      std::uint64_t step) = 0;
  virtual State save() const = 0;
  virtual void load(const State& state) = 0;
};

// Throws UsageError for a kind or value that is not allowed.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options, const Model& model);

struct Schedule {
  float lr = 0.05F;
  std::uint64_t warmup = 0;  // steps of linear warm-up
  std::string decay =
      "constant";           // constant, linear or cosine, from the end of warm-up to the last step
  std::uint64_t steps = 1;  // of the whole run

  float at(std::uint64_t step) const;
};

void check_schedule(const Schedule& schedule);

}  // namespace laconic::trainer

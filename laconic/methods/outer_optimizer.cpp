// The outer optimiser.
#include "laconic/methods/outer_optimizer.h"

namespace laconic {
namespace {

constexpr const char* kVelocity = "velocity";

}  // namespace

OuterOptimizer::OuterOptimizer(const Outer& options, const Model& model)
    : options_(options), model_(model), velocity_(options.momentum > 0 ? count_of(model) : 0) {}

void OuterOptimizer::update(std::span<float> x, std::span<const float> change, std::size_t first) {
  const float m = options_.momentum, lr = options_.lr;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float d = change[i];
    const float v = velocity_.empty() ? d : velocity_[first + i] = m * velocity_[first + i] + d;
    x[i] -= lr * (options_.nesterov ? d + m * v : v);
  }
}

State OuterOptimizer::save() const {
  State state;
  if (!velocity_.empty()) save_tensors(kVelocity, model_, velocity_, state);
  return state;
}

void OuterOptimizer::load(const State& state) {
  if (velocity_.empty()) return expect_state(state, {}, model_);
  expect_state(state, {kVelocity}, model_);
  velocity_ = load_tensors(kVelocity, model_, state);
}

}  // namespace laconic

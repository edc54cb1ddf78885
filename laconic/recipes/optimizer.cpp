// SGD with momentum, and AdamW.
#include "laconic/recipes/optimizer.h"

#include <algorithm>
#include <cmath>

#include "laconic/base/errors.h"

namespace laconic {
namespace {

class Sgd : public Optimizer {
 public:
  Sgd(const OptimizerOptions& options, const Model& model)
      : options_(options), model_(model), velocity_(options.momentum > 0 ? count_of(model) : 0) {}

  // v = momentum v + g; x -= lr v, or x -= lr (g + momentum v) with Nesterov.
  void update(std::span<float> x, std::span<const float> gradient, float lr,
              std::uint64_t) override {
    const float m = options_.momentum, decay = options_.weight_decay;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const float g = gradient[i] + decay * x[i];
      const float v = velocity_.empty() ? g : velocity_[i] = m * velocity_[i] + g;
      x[i] -= lr * (options_.nesterov ? g + m * v : v);
    }
  }

  std::span<float> momentum() override { return velocity_; }

  State save() const override {
    State state;
    if (!velocity_.empty()) save_tensors("velocity", model_, velocity_, state);
    return state;
  }
  void load(const State& state) override {
    expect_state(
        state,
        velocity_.empty() ? std::vector<std::string>() : std::vector<std::string>{"velocity"},
        model_);
    if (!velocity_.empty()) velocity_ = load_tensors("velocity", model_, state);
  }

 private:
  OptimizerOptions options_;
  Model model_;
  std::vector<float> velocity_;
};

class AdamW : public Optimizer {
 public:
  AdamW(const OptimizerOptions& options, const Model& model)
      : options_(options), model_(model), mean_(count_of(model)), square_(mean_.size()) {}

  void update(std::span<float> x, std::span<const float> gradient, float lr,
              std::uint64_t step) override {
    const float b1 = options_.beta1, b2 = options_.beta2, decay = 1 - lr * options_.weight_decay;
    const double t = static_cast<double>(step) + 1;
    const auto fix1 = static_cast<float>(1 / (1 - std::pow(static_cast<double>(b1), t)));
    const auto fix2 = static_cast<float>(1 / (1 - std::pow(static_cast<double>(b2), t)));
    for (std::size_t i = 0; i < x.size(); ++i) {
      const float g = gradient[i];
      mean_[i] = b1 * mean_[i] + (1 - b1) * g;
      square_[i] = b2 * square_[i] + (1 - b2) * g * g;
      x[i] =
          decay * x[i] - lr * (mean_[i] * fix1) / (std::sqrt(square_[i] * fix2) + options_.epsilon);
    }
  }

  State save() const override {
    State state;
    save_tensors("mean", model_, mean_, state);
    save_tensors("square", model_, square_, state);
    return state;
  }
  void load(const State& state) override {
    expect_state(state, {"mean", "square"}, model_);
    mean_ = load_tensors("mean", model_, state);
    square_ = load_tensors("square", model_, state);
  }

 private:
  OptimizerOptions options_;
  Model model_;
  std::vector<float> mean_, square_;
};

void require(bool fits, const char* what, float value, const char* allowed) {
  if (!fits)
    throw UsageError(std::string(what) + " " + std::to_string(value) + "; allowed: " + allowed);
}

}  // namespace

std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options, const Model& model) {
  require(options.momentum >= 0 && options.momentum < 1, "momentum", options.momentum,
          "0 to below 1");
  require(options.weight_decay >= 0 && std::isfinite(options.weight_decay), "weight decay",
          options.weight_decay, "0 or more");
  if (options.kind == "sgd") return std::make_unique<Sgd>(options, model);
  if (options.kind == "adamw") return std::make_unique<AdamW>(options, model);
  throw UsageError("no optimiser '" + options.kind + "'; known: adamw sgd");
}

}  // namespace laconic

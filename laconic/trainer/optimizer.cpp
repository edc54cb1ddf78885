// SGD with momentum, and AdamW.
#include "laconic/trainer/optimizer.h"

#include <algorithm>
#include <cmath>

#include "laconic/base/errors.h"
#include "laconic/trainer/exact.h"

namespace laconic::trainer {
namespace {

// Roles in the state. What ranks have gathered each by itself becomes the mean of it all when there
// are more of them, or fewer.
const std::string kVelocity = "sgd.velocity", kMean = "adamw.mean", kSquare = "adamw.square",
                  kUpdates = "adamw.updates";
const RegisterRoles roles{
    {{kVelocity, Kept::mean}, {kMean, Kept::mean}, {kSquare, Kept::mean}, {kUpdates, Kept::same}}};

class Sgd : public Optimizer {
 public:
  Sgd(const OptimizerOptions& options, const Model& model)
      : options_(options), model_(model), velocity_(options.momentum > 0 ? count_of(model) : 0) {}

  // v = momentum v + g; x -= lr v, or x -= lr (g + momentum v) with Nesterov.
  void update(std::span<float> x, std::span<const float> gradient, float lr) override {
    const float m = options_.momentum, decay = options_.weight_decay;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const float g = gradient[i] + decay * x[i];
      const float v = velocity_.empty() ? g : velocity_[i] = m * velocity_[i] + g;
      x[i] -= lr * (options_.nesterov ? g + m * v : v);
    }
  }

  void reset() override { std::ranges::fill(velocity_, 0.0F); }
  std::span<float> momentum() override { return velocity_; }

  State save() const override {
    State state;
    if (!velocity_.empty()) save_tensors(kVelocity, model_, velocity_, state);
    return state;
  }
  void load(const State& state) override {
    if (velocity_.empty()) return expect_state(state, {}, model_);
    expect_state(state, {kVelocity}, model_);
    velocity_ = load_tensors(kVelocity, model_, state);
  }

 private:
  OptimizerOptions options_;
  Model model_;
  std::vector<float> velocity_;
};

// The number of updates travels in a state of floats, by 24 bits each.
std::vector<float> floats_of(std::uint64_t updates) {
  return {static_cast<float>(updates & 0xffffff), static_cast<float>(updates >> 24 & 0xffffff)};
}

std::uint64_t take_updates(State& state) {
  const auto at = state.find(kUpdates);
  const bool fits = at != state.end() && at->second.size() == 2 &&
                    std::ranges::all_of(at->second, [](float part) {
                      return part >= 0 && part < 0x1p24F && part == std::floor(part);
                    });
  if (!fits) throw DataError("the optimiser's state does not tell its number of updates");
  const std::vector<float> parts = at->second;
  state.erase(at);
  return static_cast<std::uint64_t>(parts[0]) | static_cast<std::uint64_t>(parts[1]) << 24;
}

// Loshchilov and Hutter, arXiv 1711.05101, with Adam's correction for moments that begin at 0.
class AdamW : public Optimizer {
 public:
  AdamW(const OptimizerOptions& options, const Model& model)
      : options_(options), model_(model), mean_(count_of(model)), square_(mean_.size()) {}

  void update(std::span<float> x, std::span<const float> gradient, float lr) override {
    const float b1 = options_.beta1, b2 = options_.beta2, decay = 1 - lr * options_.weight_decay;
    ++updates_;
    const auto fix1 = static_cast<float>(1 / (1 - power(b1, updates_)));
    const auto fix2 = static_cast<float>(1 / (1 - power(b2, updates_)));
    for (std::size_t i = 0; i < x.size(); ++i) {
      const float g = gradient[i];
      mean_[i] = b1 * mean_[i] + (1 - b1) * g;
      square_[i] = b2 * square_[i] + (1 - b2) * g * g;
      x[i] =
          decay * x[i] - lr * (mean_[i] * fix1) / (std::sqrt(square_[i] * fix2) + options_.epsilon);
    }
  }

  void reset() override {
    updates_ = 0;
    std::ranges::fill(mean_, 0.0F);
    std::ranges::fill(square_, 0.0F);
  }

  State save() const override {
    State state;
    save_tensors(kMean, model_, mean_, state);
    save_tensors(kSquare, model_, square_, state);
    state[kUpdates] = floats_of(updates_);
    return state;
  }
  void load(const State& given) override {
    State state = given;
    const std::uint64_t updates = take_updates(state);
    expect_state(state, {kMean, kSquare}, model_);
    mean_ = load_tensors(kMean, model_, state);
    square_ = load_tensors(kSquare, model_, state);
    updates_ = updates;
  }

 private:
  OptimizerOptions options_;
  Model model_;
  std::uint64_t updates_ = 0;
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

}  // namespace laconic::trainer

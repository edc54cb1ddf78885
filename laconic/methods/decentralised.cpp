// Training without a centre: each rank has a model of its own, follows its own gradients and mixes
// with its neighbours (Lian et al., D-PSGD, arXiv 1705.09056):
//
//   x_i = (mixed with the neighbours' x_j) - optimiser's step with g_i, taken at the unmixed x_i
#include <algorithm>

#include "laconic/kernels/reduce.h"
#include "laconic/methods/methods.h"

namespace laconic {
namespace {

class Decentralised : public Method {
 public:
  Decentralised(const Model& model, std::unique_ptr<Optimizer> optimizer,
                std::unique_ptr<Mixer> mixer)
      : model_(model), optimizer_(std::move(optimizer)), mixer_(std::move(mixer)) {}

  StepStats step(std::span<float> x, std::span<float> gradient, const StepInfo& given) override {
    StepInfo info = given;
    info.parameters = x;
    Stopwatch watch;
    const bool finite = kernels::all_finite(gradient), first = mixer_->gradient_first();
    if (finite && first) optimizer_->update(x, gradient, info.lr, info.step);
    double update_seconds = watch.lap();
    StepStats stats = mixer_->mix(x, info);
    watch.lap();
    if (finite && !first) optimizer_->update(x, gradient, info.lr, info.step);
    update_seconds += watch.lap();
    stats.finite &= finite;
    stats.update_seconds = update_seconds;
    return stats;
  }

  bool replicas_equal() const override { return false; }

  Saved save(std::span<const float> parameters) const override {
    Saved saved;
    save_tensors(kParameters, model_, parameters, saved.own);
    put_under(kOptimizer, optimizer_->save(), saved.own);
    put_under(kExchange, mixer_->save(), saved.own);
    return saved;
  }
  void load(const Saved& saved, std::span<float> parameters) override {
    const auto values = tensors_among(kParameters, model_, saved.own);
    optimizer_->load(take_under(kOptimizer, saved.own));
    mixer_->load(take_under(kExchange, saved.own));
    std::ranges::copy(values, parameters.begin());
  }

 private:
  Model model_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<Mixer> mixer_;
};

}  // namespace

std::unique_ptr<Method> make_decentralised(const Model& model, std::unique_ptr<Optimizer> optimizer,
                                           std::unique_ptr<Mixer> mixer) {
  return std::make_unique<Decentralised>(model, std::move(optimizer), std::move(mixer));
}

}  // namespace laconic

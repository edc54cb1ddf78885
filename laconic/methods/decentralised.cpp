// Training without a centre: each rank has a model of its own, follows its own gradients and mixes
// with its neighbours (Lian et al., D-PSGD, arXiv 1705.09056):
//
//   x_i = (mixed with the neighbours' x_j) - optimiser's step with g_i, taken at the unmixed x_i
//
// Some mixers want the optimiser's step first. With a delay of n ranks mix in every n-th step only:
// in the first of n, or the last where the optimiser's step comes first.
#include "laconic/base/errors.h"
#include "laconic/kernels/reduce.h"
#include "laconic/methods/kinds.h"

namespace laconic {
namespace {

class Decentralised : public Method {
 public:
  Decentralised(const Agreement& agreement, std::unique_ptr<Mixer> mixer)
      : model_(agreement.model), delay_(agreement.recipe.delay), mixer_(std::move(mixer)) {}

  // A neighbour's model that is not finite is no reason to keep from one's own update: stats.finite
  // here is of the gradient alone, and of the mixing in after_update.
  StepStats before_update(std::span<float> x, std::span<float> gradient,
                          const StepInfo& info) override {
    require_count(gradient, model_);
    StepStats stats;
    if (!mixer_->gradient_first() && info.step % delay_ == 0) stats = mix(x, info);
    stats.finite = kernels::all_finite(gradient);
    return stats;
  }

  StepStats after_update(std::span<float> x, const StepInfo& info) override {
    StepStats stats;
    if (mixer_->gradient_first() && (info.step + 1) % delay_ == 0) stats = mix(x, info);
    stats.finite = mixed_finite_;
    return stats;
  }

  bool replicas_equal() const override { return false; }
  double residual_norm() const override { return mixer_->residual_norm(); }

  Saved save(std::span<const float> parameters) const override {
    return save_both(model_, parameters, &Saved::own, *mixer_);
  }
  void load(const Saved& saved, std::span<float> parameters) override {
    load_both(saved, model_, parameters, &Saved::own, *mixer_);
  }

 private:
  StepStats mix(std::span<float> x, const StepInfo& given) {
    StepInfo info = given;
    info.step = given.step / delay_;  // rounds are counted
    info.parameters = x;
    StepStats stats = mixer_->mix(x, info);
    stats.dense_bytes *= delay_;  // models would have gone to as many neighbours in every step
    mixed_finite_ = stats.finite;
    return stats;
  }

  Model model_;
  std::uint64_t delay_;
  std::unique_ptr<Mixer> mixer_;
  bool mixed_finite_ = true;
};

}  // namespace

std::unique_ptr<Method> make_decentralised(const Agreement& agreement,
                                           std::unique_ptr<Mixer> mixer) {
  return std::make_unique<Decentralised>(agreement, std::move(mixer));
}

}  // namespace laconic

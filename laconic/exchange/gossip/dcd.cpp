// dcd: what a step does to a model is compressed, and the model makes that step only: so neighbours
// know it exactly.
//
//   x_{t+1} = x_t + C( sum_j W_ij x_t^j - x_t - learning rate * g(x_t) )
//
// What C leaves out is lost and not remembered, so C must be unbiased, and its error small against
// the graph's spectral gap: a baseline for choco, which needs neither.
#include <algorithm>

#include "laconic/exchange/gossip/replicas.h"

namespace laconic {
namespace {

class Dcd : public Mixer {
 public:
  Dcd(const MixerSetup& setup, double gamma)
      : model_(setup.model), gamma_(gamma), copies_(setup, "dcd"), message_(count_of(model_)) {}

  // x is x_t less the optimiser's step; x_t is this rank's own copy.
  StepStats mix(std::span<float> x, const StepInfo& info) override {
    require_count(x, model_);
    StepStats stats;
    std::ranges::copy(x, message_.begin());
    copies_.move(gamma_, info.step, message_);
    const Copy& own = copies_.own();
    if (own.heard > 0)
      for (std::size_t i = 0; i < message_.size(); ++i) message_[i] -= own.values[i];
    const auto add = [](const FrameIn& frame, Copy& copy) { frame.add(1, copy.values); };
    if (copies_.swap(message_, info.step, stats, add)) std::ranges::copy(own.values, x.begin());
    return stats;
  }

  bool gradient_first() const override { return true; }

  State save() const override {
    State state;
    copies_.save(state);
    return state;
  }
  void load(const State& state) override { copies_.load(state); }

 private:
  Model model_;
  double gamma_;
  Replicas copies_;
  std::vector<float> message_;
};

const RegisterMixer dcd{{
    .name = "dcd",
    .summary = "Compressed steps, which models make as neighbours see them; what is lost is lost.",
    .paper = "Tang et al., DCD-PSGD (arXiv 1803.06443, algorithm 1)",
    .parameters = {gamma_parameter()},
    .examples = {"dcd", "dcd:0.7"},
    .takes_operator = true,
    .wants_unbiased = true,
    .make = [](MixerSetup setup, const Args& args) -> std::unique_ptr<Mixer> {
      return std::make_unique<Dcd>(setup, args.number("gamma"));
    },
}};

}  // namespace
}  // namespace laconic

// dpsgd: plain gossip, x_i <- x_i + gamma sum_j W_ij (x_j - x_i), with uncompressed models.
#include <algorithm>

#include "laconic/exchange/gossip/neighbourhood.h"

namespace laconic {
namespace {

class Dpsgd : public Mixer {
 public:
  Dpsgd(MixerSetup setup, double gamma)
      : model_(setup.model), gamma_(gamma), near_(setup), next_(count_of(setup.model)) {}

  StepStats mix(std::span<float> x, const StepInfo& info) override {
    require_count(x, model_);
    StepStats stats;
    near_.swap(x, info.step, stats);
    Stopwatch watch;
    std::ranges::copy(x, next_.begin());
    const auto& neighbours = near_.neighbours(info.step);
    for (std::size_t j = 0; j < neighbours.size(); ++j)
      if (near_.open(j)) approach(x, j, static_cast<float>(gamma_ * neighbours[j].weight));
    std::ranges::copy(next_, x.begin());
    stats.decompress_seconds += watch.lap();
    return stats;
  }

  State save() const override { return {}; }
  void load(const State& state) override { expect_state(state, {}, model_); }

 private:
  // next += weight (x_j - x): both ends compute the same difference, so the sum of models stays.
  void approach(std::span<const float> x, std::size_t j, float weight) {
    theirs_.assign(x.size(), 0.0F);
    near_.from(j).add(1, theirs_);
    for (std::size_t i = 0; i < x.size(); ++i) next_[i] += weight * (theirs_[i] - x[i]);
  }

  Model model_;
  double gamma_;
  Neighbourhood near_;
  std::vector<float> next_, theirs_;
};

const RegisterMixer dpsgd{{
    .name = "dpsgd",
    .summary = "Plain gossip: whole models to all neighbours.",
    .paper = "Lian et al., D-PSGD (arXiv 1705.09056)",
    .parameters = {gamma_parameter()},
    .examples = {"dpsgd", "dpsgd:0.7"},
    .make = [](MixerSetup setup, const Args& args) -> std::unique_ptr<Mixer> {
      return std::make_unique<Dpsgd>(std::move(setup), args.number("gamma"));
    },
}};

}  // namespace
}  // namespace laconic

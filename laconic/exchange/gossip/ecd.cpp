// ecd: neighbours keep estimates of each other's models, from compressed points beyond the model:
//
//   z_{t+1} = (1 - t/2) x_t + (t/2) x_{t+1};  estimate_{t+1} = (1 - 2/t) estimate_t + (2/t) C(z)
//   x_{t+1} = sum_j W_ij estimate_t^j - learning rate * g(x_t)
//
// With an unbiased C estimates are right on average, and their error is a mean of all rounds'
// errors with weights 2 (k - 1) / (t (t - 1)): while C's error stays bounded it falls like 4 / (3
// t). But that mean changes slowly, so a model goes the same wrong way for about t rounds: errors
// of omega |x|^2 move the mean of n models by 4 omega t / (3 n) |x|^2 in t rounds, which gradients
// must undo; and an error that is a share of |z|^2 grows with t again where models keep moving, by
// its own doing once omega t is above 15 or so. So omega must be far below 1 / t, whatever the
// learning rate: natural's 1/8 spoils a run of a few hundred rounds. A baseline for choco.
#include <algorithm>

#include "laconic/exchange/gossip/replicas.h"

namespace laconic {
namespace {

class Ecd : public Mixer {
 public:
  Ecd(const MixerSetup& setup, double gamma)
      : model_(setup.model),
        gamma_(gamma),
        copies_(setup, "ecd"),
        before_(count_of(model_)),
        point_(count_of(model_)) {}

  // x is x_{t+1}: the optimiser's step was made on what the round before gave.
  StepStats mix(std::span<float> x, const StepInfo& info) override {
    require_count(x, model_);
    StepStats stats;
    extrapolate(x);
    const auto correct = [](const FrameIn& frame, Copy& copy) {
      const double share = 2 / static_cast<double>(copy.heard);
      const auto kept = static_cast<float>(1 - share);
      for (float& value : copy.values) value *= kept;
      frame.add(static_cast<float>(share), copy.values);
    };
    if (!copies_.swap(point_, info.step, stats, correct)) return stats;
    std::ranges::copy(x, before_.begin());
    std::ranges::copy(copies_.own().values, x.begin());
    copies_.move(gamma_, info.step, x);
    return stats;
  }

  State save() const override {
    State state;
    copies_.save(state);
    save_tensors(kRole, model_, before_, state);
    return state;
  }
  void load(const State& state) override {
    copies_.load(state, {kRole});
    before_ = load_tensors(kRole, model_, state);
  }

 private:
  static constexpr const char* kRole = "ecd.before";

  void extrapolate(std::span<const float> x) {
    const std::uint64_t t = copies_.own().heard;
    const auto far = t > 0 ? static_cast<float>(static_cast<double>(t) / 2) : 1.0F;
    for (std::size_t i = 0; i < x.size(); ++i) point_[i] = (1 - far) * before_[i] + far * x[i];
  }

  Model model_;
  double gamma_;
  Replicas copies_;
  std::vector<float> before_, point_;
};

const RegisterMixer ecd{{
    .name = "ecd",
    .summary = "Compressed extrapolated models, of which neighbours keep a running mean.",
    .paper = "Tang et al., ECD-PSGD (arXiv 1803.06443, algorithm 2)",
    .parameters = {gamma_parameter()},
    .examples = {"ecd", "ecd:0.7"},
    .takes_operator = true,
    .wants_unbiased = true,
    .make = [](MixerSetup setup, const Args& args) -> std::unique_ptr<Mixer> {
      return std::make_unique<Ecd>(setup, args.number("gamma"));
    },
}};

}  // namespace
}  // namespace laconic

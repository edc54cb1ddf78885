// noloco: local steps without a centre. Each rank has slow weights f and an outer momentum m, and
// in a round, after some steps of its own from f to x, meets a partner j:
//
//   D = f - x
//   m = momentum m + lr (D_i + D_j) / 2 + pull (f_i - f_j) / 2
//   f -= m; x = f
//
// (Kolehmainen et al., NoLoCo, arXiv 2506.10911.) With u = lr D - pull f this is m = momentum m +
// pull f_i + sum_j W_ij u_j: one array travels in place of two, and any graph goes whose weights
// are those of a mean; pairs weigh 1/2. A rank that meets nobody makes its step alone. The pull
// cancels in the sum over ranks, so the means of m and f move as DiLoCo's with the mean of D. The
// difference e of two ranks that pull alone follows e' = e - m', m' = momentum m + pull e, whose
// roots lie within the unit circle while 0 < pull < 2 (1 + momentum).
//
// The slow weights are the model of the first round: what changed before it counts as made.
#include <algorithm>

#include "laconic/base/errors.h"
#include "laconic/exchange/gossip/neighbourhood.h"

namespace laconic {
namespace {

class Noloco : public Mixer {
 public:
  Noloco(MixerSetup setup, const Args& args)
      : model_(setup.model),
        momentum_(static_cast<float>(args.number("momentum"))),
        lr_(static_cast<float>(args.number("lr"))),
        pull_(static_cast<float>(args.number("pull"))),
        near_(setup),
        slow_(count_of(model_)),
        velocity_(slow_.size()),
        message_(slow_.size()),
        mean_(slow_.size()) {
    if (!(args.number("pull") < 2 * (1 + args.number("momentum"))))
      throw UsageError("mixer 'noloco' with a pull of " + args.text("pull") + " and momentum " +
                       args.text("momentum") +
                       " never comes to rest; allowed: a pull below 2 (1 + momentum)");
  }

  StepStats mix(std::span<float> x, const StepInfo& info) override {
    require_count(x, model_);
    StepStats stats;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const float f = started_ ? slow_[i] : x[i];
      message_[i] = lr_ * (f - x[i]) - pull_ * f;
    }
    near_.swap(message_, info.step, stats);
    if (!near_.mine().finite()) return stats;  // this rank's round rests
    Stopwatch watch;
    std::ranges::copy(message_, mean_.begin());
    const auto& neighbours = near_.neighbours(info.step);
    for (std::size_t j = 0; j < neighbours.size(); ++j)
      if (near_.open(j)) add(j, static_cast<float>(neighbours[j].weight));
    if (!std::exchange(started_, true)) std::ranges::copy(x, slow_.begin());
    for (std::size_t i = 0; i < x.size(); ++i) {
      velocity_[i] = momentum_ * velocity_[i] + (mean_[i] + pull_ * slow_[i]);
      x[i] = slow_[i] -= velocity_[i];
    }
    stats.decompress_seconds += watch.lap();
    return stats;
  }

  bool gradient_first() const override { return true; }

  State save() const override {
    State state;
    if (!started_) return state;
    save_tensors(kSlow, model_, slow_, state);
    save_tensors(kVelocity, model_, velocity_, state);
    return state;
  }

  void load(const State& state) override {
    if (!state.empty()) {
      expect_state(state, {kSlow, kVelocity}, model_);
      slow_ = load_tensors(kSlow, model_, state);
      velocity_ = load_tensors(kVelocity, model_, state);
    }
    started_ = !state.empty();
    if (!started_) std::ranges::fill(velocity_, 0.0F);
  }

 private:
  static constexpr const char* kSlow = "noloco";
  static constexpr const char* kVelocity = "noloco.velocity";

  // Both ends add the same difference, one of them negated.
  void add(std::size_t j, float weight) {
    theirs_.assign(mean_.size(), 0.0F);
    near_.from(j).add(1, theirs_);
    for (std::size_t i = 0; i < mean_.size(); ++i) mean_[i] += weight * (theirs_[i] - message_[i]);
  }

  Model model_;
  float momentum_, lr_, pull_;
  Neighbourhood near_;
  std::vector<float> slow_, velocity_, message_, mean_, theirs_;
  bool started_ = false;  // there are slow weights
};

const RegisterMixer noloco{{
    .name = "noloco",
    .summary =
        "Slow weights and an outer momentum of each rank, pulled towards those of a partner.",
    .paper = "Kolehmainen et al., NoLoCo (arXiv 2506.10911)",
    .parameters = {{.name = "momentum",
                    .fallback = "0.5",
                    .min = 0,
                    .max = 0.9999,
                    .help = "what is left of the momentum after a round"},
                   {.name = "lr",
                    .fallback = "0.7",
                    .min = 0,
                    .max = 10,
                    .help = "how much of the mean change of the two is made"},
                   {.name = "pull",
                    .fallback = "1",
                    .min = 0.001,
                    .max = 4,
                    .help = "how far towards the partner; below 2 (1 + momentum)"}},
    .examples = {"noloco", "noloco:0,lr=1,pull=0.5"},
    .make = [](MixerSetup setup, const Args& args) -> std::unique_ptr<Mixer> {
      return std::make_unique<Noloco>(std::move(setup), args);
    },
}};

}  // namespace
}  // namespace laconic

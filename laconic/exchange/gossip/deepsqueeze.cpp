// deepsqueeze: compressed models with error compensation, v = x + e; c = C(v); e = v - c;
// x += gamma sum_j W_ij (c_j - c_i). No copy of any neighbour is kept. In the paper the gradient is
// part of x when it is compressed (`before`); PowerGossip's experiments apply it to the mixed
// model.
#include <algorithm>
#include <cmath>

#include "laconic/exchange/gossip/neighbourhood.h"
#include "laconic/kernels/axpy.h"
#include "laconic/kernels/reduce.h"

namespace laconic {
namespace {

class DeepSqueeze : public Mixer {
 public:
  DeepSqueeze(MixerSetup setup, double gamma, bool gradient_first)
      : model_(setup.model),
        gamma_(gamma),
        gradient_first_(gradient_first),
        near_(setup),
        error_(count_of(model_)),
        sum_(error_.size()) {}

  StepStats mix(std::span<float> x, const StepInfo& info) override {
    require_count(x, model_);
    StepStats stats;
    kernels::add(x, error_.data(), sum_.data());
    near_.swap(sum_, info.step, stats);
    Stopwatch watch;
    if (near_.mine().finite()) {
      decode(near_.mine(), own_);
      for (std::size_t i = 0; i < sum_.size(); ++i) error_[i] = sum_[i] - own_[i];
      const auto& neighbours = near_.neighbours(info.step);
      for (std::size_t j = 0; j < neighbours.size(); ++j)
        if (near_.open(j)) approach(j, static_cast<float>(gamma_ * neighbours[j].weight), x);
    }
    stats.decompress_seconds += watch.lap();
    return stats;
  }

  bool gradient_first() const override { return gradient_first_; }

  double residual_norm() const override { return std::sqrt(kernels::sum_of_squares(error_)); }

  State save() const override {
    State state;
    save_tensors(kRole, model_, error_, state);
    return state;
  }
  void load(const State& state) override {
    expect_state(state, {kRole}, model_);
    error_ = load_tensors(kRole, model_, state);
  }

 private:
  static constexpr const char* kRole = "deepsqueeze";

  void decode(const FrameIn& frame, std::vector<float>& into) const {
    into.assign(error_.size(), 0.0F);
    frame.add(1, into);
  }

  void approach(std::size_t j, float weight, std::span<float> x) {
    decode(near_.from(j), theirs_);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += weight * (theirs_[i] - own_[i]);
  }

  Model model_;
  double gamma_;
  bool gradient_first_;
  Neighbourhood near_;
  std::vector<float> error_, sum_, own_, theirs_;
};

const RegisterMixer deepsqueeze{{
    .name = "deepsqueeze",
    .summary = "Compressed models to all neighbours; what was left out is added next time.",
    .paper = "Tang et al., DeepSqueeze (arXiv 1907.07346)",
    .parameters = {gamma_parameter(""),
                   {.name = "gradient",
                    .fallback = "before",
                    .choices = {"before", "after"},
                    .help = "applied before compression, or after mixing"}},
    .examples = {"deepsqueeze:0.1", "deepsqueeze:0.1,after"},
    .takes_operator = true,
    .make = [](MixerSetup setup, const Args& args) -> std::unique_ptr<Mixer> {
      return std::make_unique<DeepSqueeze>(std::move(setup), args.number("gamma"),
                                           args.text("gradient") == "before");
    },
}};

}  // namespace
}  // namespace laconic

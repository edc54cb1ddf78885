// dpsgd: plain gossip, x_i <- x_i + gamma sum_j W_ij (x_j - x_i), with uncompressed models.
#include <algorithm>

#include "laconic/exchange/gossip/neighbourhood.h"

namespace laconic {
namespace {

class Dpsgd : public Mixer {
 public:
  Dpsgd(MixerSetup setup, double gamma) : model_(setup.model), gamma_(gamma), near_(setup) {}

  StepStats mix(std::span<float> x, const StepInfo& info) override {
    require_count(x, model_);
    StepStats stats;
    near_.swap(x, info.step, stats);
    Stopwatch watch;
    const Layout& layout = near_.layout();
    for (std::size_t place = 0; place < layout.size(); ++place)
      for (std::size_t from = 0; from < layout[place].count; from += kBlock)
        approach(
            x.subspan(layout[place].offset + from, std::min(kBlock, layout[place].count - from)),
            place, from, near_.neighbours(info.step));
    stats.decompress_seconds += watch.lap();
    return stats;
  }

  State save() const override { return {}; }
  void load(const State& state) override { expect_state(state, {}, model_); }

 private:
  // next += weight (x_j - x) for all neighbours: both ends compute the same difference, so the sum
  // of models stays. x is a block, in the cache, of the place-th slice.
  void approach(std::span<float> x, std::size_t place, std::size_t from,
                std::span<const Neighbour> neighbours) const {
    float next[kBlock], theirs[kBlock];
    std::ranges::copy(x, next);
    for (std::size_t j = 0; j < neighbours.size(); ++j) {
      if (!near_.open(j)) continue;
      const auto weight = static_cast<float>(gamma_ * neighbours[j].weight);
      std::fill_n(theirs, x.size(), 0.0F);
      near_.from(j).slice(place).add(from, from + x.size(), 1, theirs);
      for (std::size_t i = 0; i < x.size(); ++i) next[i] += weight * (theirs[i] - x[i]);
    }
    std::copy_n(next, x.size(), x.begin());
  }

  Model model_;
  double gamma_;
  Neighbourhood near_;
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

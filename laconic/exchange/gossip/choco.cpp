// choco: neighbours keep a public copy ("hat") of each other's model and send compressed
// differences to it. Models move along the difference of hats, so what is left out now is sent
// later.
//
// There is one hat per neighbour rather than the papers' cached sum of them, and one set of hats
// per round of the graph's period: a hat is right only while all its holders heard every change of
// it.
#include <algorithm>

#include "laconic/exchange/gossip/neighbourhood.h"

namespace laconic {
namespace {

// The public copies of one round of the graph: this rank's own and its neighbours'.
struct Hats {
  std::vector<float> own;
  std::vector<std::vector<float>> theirs;
};

class Choco : public Mixer {
 public:
  Choco(MixerSetup setup, double gamma, bool fresh, bool gradient_first)
      : model_(setup.model),
        gamma_(gamma),
        fresh_(fresh),
        gradient_first_(gradient_first),
        near_(setup),
        next_(count_of(model_)),
        difference_(count_of(model_)) {
    for (const auto& neighbours : near_.rounds()) {
      const std::vector<float> zero(next_.size());
      hats_.push_back({zero, std::vector<std::vector<float>>(neighbours.size(), zero)});
    }
  }

  // Koloskova et al., algorithm 1, moves along the hats of the round before; `fresh` sends first.
  StepStats mix(std::span<float> x, const StepInfo& info) override {
    require_count(x, model_);
    Hats& hats = hats_[near_.round(info.step)];
    const auto& neighbours = near_.neighbours(info.step);
    StepStats stats;
    std::ranges::copy(x, next_.begin());
    if (!fresh_) move_along(hats, neighbours);
    for (std::size_t i = 0; i < next_.size(); ++i) difference_[i] = next_[i] - hats.own[i];
    near_.swap(difference_, info.step, stats);
    Stopwatch watch;
    absorb(near_.mine(), hats.own);
    for (std::size_t j = 0; j < neighbours.size(); ++j) absorb(near_.from(j), hats.theirs[j]);
    if (fresh_) move_along(hats, neighbours);
    std::ranges::copy(next_, x.begin());
    stats.decompress_seconds += watch.lap();
    return stats;
  }

  bool gradient_first() const override { return gradient_first_; }

  State save() const override {
    State state;
    each_hat(*this, [&](const std::string& role, const std::vector<float>& hat) {
      save_tensors(role, model_, hat, state);
    });
    return state;
  }

  void load(const State& state) override {
    std::vector<std::string> roles;
    each_hat(*this, [&](const std::string& role, const auto&) { roles.push_back(role); });
    expect_state(state, roles, model_);
    each_hat(*this, [&](const std::string& role, std::vector<float>& hat) {
      hat = load_tensors(role, model_, state);
    });
  }

 private:
  // Both ends hold the same hats bit for bit, so what one gains the other loses.
  void move_along(const Hats& hats, const std::vector<Neighbour>& neighbours) {
    for (std::size_t j = 0; j < neighbours.size(); ++j) {
      const auto weight = static_cast<float>(gamma_ * neighbours[j].weight);
      for (std::size_t i = 0; i < next_.size(); ++i)
        next_[i] += weight * (hats.theirs[j][i] - hats.own[i]);
    }
  }

  // A frame that is not finite changes nobody's copy of its sender.
  static void absorb(const FrameIn& frame, std::vector<float>& hat) {
    if (frame.finite()) frame.add(1, hat);
  }

  // "choco/1/7": the copy of rank 7 in round 1 of the period.
  template <class Self, class Visit>
  static void each_hat(Self& self, Visit visit) {
    for (std::size_t round = 0; round < self.hats_.size(); ++round) {
      const std::string role = "choco/" + std::to_string(round) + "/";
      auto& hats = self.hats_[round];
      const auto& neighbours = self.near_.neighbours(round);
      visit(role + std::to_string(self.near_.rank()), hats.own);
      for (std::size_t j = 0; j < neighbours.size(); ++j)
        visit(role + std::to_string(neighbours[j].rank), hats.theirs[j]);
    }
  }

  Model model_;
  double gamma_;
  bool fresh_, gradient_first_;
  Neighbourhood near_;
  std::vector<Hats> hats_;
  std::vector<float> next_, difference_;
};

const RegisterMixer choco{{
    .name = "choco",
    .summary = "Compressed differences to public copies of the neighbours' models.",
    .paper = "Koloskova et al., CHOCO-SGD (arXiv 1902.00340, 1907.09356)",
    .parameters = {gamma_parameter(""),
                   {.name = "order",
                    .fallback = "paper",
                    .choices = {"paper", "fresh"},
                    .help = "move along the copies of the round before, or send first"},
                   {.name = "gradient",
                    .fallback = "before",
                    .choices = {"before", "after"},
                    .help = "of the mixed model and applied before the next round, or of the "
                            "unmixed one and applied after it"}},
    .examples = {"choco:0.3", "choco:0.3,fresh", "choco:0.3,after"},
    .takes_operator = true,
    .make = [](MixerSetup setup, const Args& args) -> std::unique_ptr<Mixer> {
      return std::make_unique<Choco>(std::move(setup), args.number("gamma"),
                                     args.text("order") == "fresh",
                                     args.text("gradient") == "before");
    },
}};

}  // namespace
}  // namespace laconic

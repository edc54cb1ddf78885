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
// With an operator C both ends of an edge hold copies of the messages, c += C(u - c), and the mean
// is u_i + sum_j W_ij (c_j - c_i): what one end gains the other loses, and what is left out goes
// when they meet again. The first message is whole. Who has one partner a round keeps copies by
// partner, else by round of the graph's period, for a frame goes to all neighbours of a round. As
// with choco, the more an operator loses, the smaller must be the pull.
//
// No bound on the pull follows from what operators promise that would not refuse pulls that go:
// where it is too much, ranks' slow weights go apart, and both ends of an edge see so by the same
// copies, before a round.
//
// The slow weights are the model of the first round: what changed before it counts as made.
#include <algorithm>
#include <cmath>

#include "laconic/base/errors.h"
#include "laconic/exchange/gossip/replicas.h"

namespace laconic {
namespace {

// What a rank and its neighbours of a round have sent each other.
struct Copies {
  Copy own;
  std::vector<Copy> theirs;   // by place among the neighbours
  std::vector<double> reach;  // the longer of both when they were first compared; 0: not yet
};

struct Lengths {
  double a = 0, b = 0, apart = 0;
};

// The same bits on both ends, whichever of them is a.
Lengths lengths_of(std::span<const float> a, std::span<const float> b) {
  Lengths squares;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double x = a[i], y = b[i];
    squares.a += x * x;
    squares.b += y * y;
    squares.apart += (x - y) * (x - y);
  }
  return {std::sqrt(squares.a), std::sqrt(squares.b), std::sqrt(squares.apart)};
}

bool loses(const Plan& plan) {
  return std::ranges::any_of(plan.operators,
                             [](const Operator& op) { return op.spec() != "identity"; });
}

bool has_pairs_only(const Graph& graph) {
  for (std::size_t round = 0; round < graph.period(); ++round)
    for (int rank = 0; rank < graph.size(); ++rank)
      if (graph.degree(rank, round) > 1) return false;
  return true;
}

// By round the first one whose copies it shares; where nothing is lost nothing need be kept.
std::vector<std::size_t> sharing(const std::vector<std::vector<Neighbour>>& rounds, bool loses,
                                 bool pairs) {
  std::vector<std::size_t> first(rounds.size());
  for (std::size_t round = 0; loses && round < rounds.size(); ++round) {
    first[round] = round;
    for (std::size_t before = 0; pairs && before < round && first[round] == round; ++before)
      if (std::ranges::equal(rounds[before], rounds[round], {}, &Neighbour::rank, &Neighbour::rank))
        first[round] = before;
  }
  return first;
}

class Noloco : public Mixer {
 public:
  Noloco(MixerSetup setup, const Args& args)
      : model_(setup.model),
        momentum_(static_cast<float>(args.number("momentum"))),
        lr_(static_cast<float>(args.number("lr"))),
        pull_(static_cast<float>(args.number("pull"))),
        pull_text_("a pull of " + args.text("pull") + " is too much for operator '" +
                   setup.plan.operators[0].spec() + "'"),
        loses_(loses(setup.plan)),
        near_(setup),
        first_(sharing(near_.rounds(), loses_, has_pairs_only(setup.graph))),
        copies_(first_.size()),
        slow_(count_of(model_)),
        velocity_(slow_.size()),
        mean_(slow_.size()) {
    for (std::size_t round = 0; round < first_.size(); ++round) {
      auto& theirs = copies_[first_[round]].theirs;
      theirs.resize(std::max(theirs.size(), near_.neighbours(round).size()));
      copies_[first_[round]].reach.resize(theirs.size());
    }
    if (!(args.number("pull") < 2 * (1 + args.number("momentum"))))
      throw UsageError("mixer 'noloco' with a pull of " + args.text("pull") + " and momentum " +
                       args.text("momentum") +
                       " never comes to rest; allowed: a pull below 2 (1 + momentum)");
  }

  StepStats mix(std::span<float> x, const StepInfo& info) override {
    require_count(x, model_);
    Copies& copies = copies_[first_[near_.round(info.step)]];
    require_together(copies, info.step);
    StepStats stats;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const float f = started_ ? slow_[i] : x[i];
      mean_[i] = lr_ * (f - x[i]) - pull_ * f;
    }
    swap(copies, info.step, stats);
    if (!near_.mine().finite()) return stats;  // this rank's round rests
    Stopwatch watch;
    const auto& neighbours = near_.neighbours(info.step);
    for (std::size_t j = 0; j < neighbours.size(); ++j)
      if (near_.open(j))
        add(copies.own, copies.theirs[j], static_cast<float>(neighbours[j].weight));
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
    if (started_) {
      save_tensors(kSlow, model_, slow_, state);
      save_tensors(kVelocity, model_, velocity_, state);
    }
    each_copy(*this, [&](const std::string& role, const Copy& copy) {
      if (copy.heard > 0) save_tensors(role, model_, copy.values, state);
    });
    return state;
  }

  void load(const State& state) override {
    std::vector<std::string> roles;
    const bool started = holds(state, kSlow);
    if (started) roles = {kSlow, kVelocity};
    each_copy(*this, [&](const std::string& role, const Copy&) {
      if (holds(state, role)) roles.push_back(role);
    });
    expect_state(state, roles, model_);
    started_ = started;
    if (started_) {
      slow_ = load_tensors(kSlow, model_, state);
      velocity_ = load_tensors(kVelocity, model_, state);
    } else {
      std::ranges::fill(velocity_, 0.0F);
    }
    each_copy(*this, [&](const std::string& role, Copy& copy) {
      copy.heard = holds(state, role);
      if (copy.heard > 0) copy.values = load_tensors(role, model_, state);
    });
    for (Copies& copies : copies_) std::ranges::fill(copies.reach, 0.0);
  }

 private:
  static constexpr const char* kSlow = "noloco";
  static constexpr const char* kVelocity = "noloco.velocity";

  static bool holds(const State& state, const std::string& role) {
    const auto at = state.lower_bound(role + "/");
    return at != state.end() && at->first.starts_with(role + "/");
  }

  // "noloco.copy/1/7": what rank 7 has sent in round 1 of the period, and in those that share it.
  template <class Self, class Visit>
  static void each_copy(Self& self, Visit visit) {
    for (std::size_t round = 0; self.loses_ && round < self.copies_.size(); ++round) {
      const std::string role = "noloco.copy/" + std::to_string(round) + "/";
      auto& copies = self.copies_[round];
      visit(role + std::to_string(self.near_.rank()), copies.own);
      for (std::size_t j = 0; j < copies.theirs.size(); ++j)
        visit(role + std::to_string(self.near_.neighbours(round)[j].rank), copies.theirs[j]);
    }
  }

  // The mean stays where it is: models whose difference is nearly the sum of their lengths are
  // opposite to each other around it, and far off when that is much more than they ever had.
  void require_together(Copies& copies, std::uint64_t step) const {
    constexpr double kOpposite = 0.9, kFar = 3;
    if (!loses_ || copies.own.heard == 0) return;
    const auto& neighbours = near_.neighbours(step);
    for (std::size_t j = 0; j < neighbours.size(); ++j) {
      if (copies.theirs[j].heard == 0) continue;
      const Lengths of = lengths_of(copies.own.values, copies.theirs[j].values);
      double& reach = copies.reach[j];
      if (reach == 0) reach = std::max(of.a, of.b);
      if (!(of.apart > kFar * reach && of.apart > kOpposite * (of.a + of.b))) continue;
      const auto [low, high] = std::minmax({near_.rank(), neighbours[j].rank});
      throw UsageError("mixer 'noloco': the models of ranks " + std::to_string(low) + " and " +
                       std::to_string(high) + " go further and further apart: " + pull_text_ +
                       "; allowed: a smaller pull, or an operator that loses less");
    }
  }

  // Sends what the copy of the message lacks: all of it at first, and always where nothing is lost.
  void swap(Copies& copies, std::uint64_t step, StepStats& stats) {
    if (!loses_) {
      copies.own.heard = 0;
      for (Copy& copy : copies.theirs) copy.heard = 0;
    }
    sent_ = mean_;
    for (std::size_t i = 0; i < sent_.size() && copies.own.heard > 0; ++i)
      sent_[i] -= copies.own.values[i];
    const std::size_t neighbours = near_.neighbours(step).size();
    whole_.mine = copies.own.heard == 0;
    whole_.theirs.resize(neighbours);
    for (std::size_t j = 0; j < neighbours; ++j) whole_.theirs[j] = copies.theirs[j].heard == 0;
    near_.swap(sent_, step, stats, whole_);
    Stopwatch watch;
    hear(near_.mine(), copies.own);
    for (std::size_t j = 0; j < neighbours; ++j) hear(near_.from(j), copies.theirs[j]);
    stats.decompress_seconds += watch.lap();
  }

  // A frame that is not finite changes nobody's copy of its sender.
  void hear(const FrameIn& frame, Copy& copy) const {
    if (!frame.finite()) return;
    if (copy.heard == 0) copy.values.assign(mean_.size(), 0.0F);
    frame.add(1, copy.values);
    copy.heard = 1;
  }

  // Both ends add the same difference, one of them negated.
  void add(const Copy& own, const Copy& theirs, float weight) {
    for (std::size_t i = 0; i < mean_.size(); ++i)
      mean_[i] += weight * (theirs.values[i] - own.values[i]);
  }

  Model model_;
  float momentum_, lr_, pull_;
  std::string pull_text_;
  bool loses_;  // there is an operator to make up for
  Neighbourhood near_;
  std::vector<std::size_t> first_;  // by round of the period, whose copies are its own
  std::vector<Copies> copies_;      // by round; arrays where it is the first with these
  Whole whole_;
  std::vector<float> slow_, velocity_, mean_, sent_;
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
    .examples = {"noloco:pull=0.3", "noloco:0,lr=1,pull=0.5"},
    .takes_operator = true,
    .make = [](MixerSetup setup, const Args& args) -> std::unique_ptr<Mixer> {
      return std::make_unique<Noloco>(std::move(setup), args);
    },
}};

}  // namespace
}  // namespace laconic

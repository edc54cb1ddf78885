// Local steps: ranks train on their own for a while, and what they agree on is the mean of what has
// changed since.
//
//   x_i = w; n steps of rank i's own optimiser on x_i
//   d = mean over ranks of what the exchange makes of w - x_i
//   w = outer optimiser's step with d as its gradient; x_i = w
//
// With a sparse operator and feedback this is Sparse Binary Compression's temporal sparsity
// (Sattler et al., arXiv 1805.08768, Algorithm 1); with AdamW inside and Nesterov outside DiLoCo
// (Douillard et al., arXiv 2311.08105); with decayed feedback SparseLoCo (arXiv 2508.15706).
//
// Streaming DiLoCo (Douillard et al., arXiv 2501.18512) does so by fragments of the model, which
// take turns: fragment p of P is due when (step + 1) mod n = floor(p n / P). What is sent then may
// be under way for some steps, in which ranks train on; when it has arrived,
//
//   w = outer optimiser's step with d; x_i = merge x_i + (1 - merge) w
//
// Rounds do not overlap each other: one is under way at most, as an open transaction.
#include <algorithm>

#include "laconic/base/errors.h"
#include "laconic/kernels/reduce.h"
#include "laconic/layout/places.h"
#include "laconic/methods/fragments.h"
#include "laconic/methods/kinds.h"
#include "laconic/methods/outer_optimizer.h"

namespace laconic {
namespace {

// Whole numbers in a state, whose arrays are floats: four digits of 16 bits each.
constexpr std::size_t kDigits = 4;

void save_number(std::uint64_t number, std::vector<float>& into) {
  for (std::size_t i = 0; i < kDigits; ++i)
    into.push_back(static_cast<float>(number >> (16 * i) & 0xFFFF));
}

std::uint64_t load_number(std::span<const float> digits) {
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < kDigits; ++i) {
    if (!(digits[i] >= 0 && digits[i] <= 0xFFFF))
      throw DataError("the state of a round under way has no step");
    number |= static_cast<std::uint64_t>(digits[i]) << (16 * i);
  }
  return number;
}

class LocalSteps : public Method {
 public:
  LocalSteps(const Agreement& agreement, std::unique_ptr<Aggregator> aggregator,
             std::span<const float> start)
      : model_(agreement.model),
        places_(model_),
        delay_(agreement.recipe.delay),
        overlap_(agreement.recipe.overlap),
        merge_(static_cast<float>(agreement.recipe.merge)),
        masks_(masks_momentum(agreement.recipe.memory)),
        outer_(parse_outer(agreement.recipe.outer), model_),
        aggregator_(std::move(aggregator)),
        common_(start.begin(), start.end()),
        change_(start.size()),
        fragments_(fragments_of(agreement.recipe, model_)) {
    std::size_t most = 0;
    for (const auto& tensors : fragments_) {
      std::size_t entries = 0;
      arrays_.emplace_back();
      for (const std::size_t tensor : tensors) {
        entries += places_.count(tensor);
        arrays_.back().push_back(change_.data() + places_.begin(tensor));
      }
      most = std::max(most, entries);
    }
    if (streams()) input_.reserve(most);
  }

  StepStats before_update(std::span<float>, std::span<float> gradient,
                          const StepInfo& info) override {
    require_count(gradient, model_);
    if (flight_) keep_moving(info);
    StepStats stats;
    stats.dense_bytes = gradient.size_bytes();  // a dense exchange would have sent it
    stats.finite = kernels::all_finite(gradient);
    return stats;
  }

  StepStats after_update(std::span<float> x, const StepInfo& info) override {
    set_back_ = false;
    under_way_ = true;
    if (flight_) return info.step < flight_->due ? StepStats{} : land(x, info);
    for (std::size_t p = 0; p < fragments_.size(); ++p)
      if (due(p, info.step)) return streams() ? start(p, x, info) : round(x, info, merge_);
    return {};
  }

  // Rounds under way end at once; then one over all of the model makes it common.
  StepStats finish(std::span<float> x, const StepInfo& info) override {
    set_back_ = false;
    StepStats stats;
    if (flight_) stats = land(x, info);
    const bool last = under_way_ || (info.plain && aggregator_->owes());
    return last ? sum_of(round(x, info, 0), stats) : stats;
  }

  // A round in doubt that others have made has its mean already. One under way that nobody has made
  // is sent again, among those who are left.
  Outcome regroup(const Agreement& agreement, std::span<float> x, Transport& among) override {
    doubted_ |= aggregator_->outcome() == Outcome::in_doubt;
    if (flight_) close_flight();
    bool landed = false;
    const Outcome outcome = go_on_among(agreement, among, aggregator_, [&] {
      if (!flight_ || !flight_->round) return;
      const bool made = flight_->round->outcome() == Outcome::committed;
      landed = made && flight_->failed;
      flight_->round.reset();
      flight_->failed = false;
      if (made) take_fragment(x, {}, true);
    });
    if (std::exchange(doubted_, false) && outcome == Outcome::committed) take(x, true, last_merge_);
    return landed ? Outcome::committed : outcome;
  }

  bool set_back() const override { return set_back_; }
  bool replicas_equal() const override { return !under_way_; }
  double residual_norm() const override { return aggregator_->residual_norm(); }

  // Of a round under way its input is saved: sent again from the same state it has the same bytes.
  Saved save(std::span<const float> parameters) const override {
    Saved saved;
    save_tensors(kCommon, model_, common_, saved.common);
    put_under(kOuter, outer_.save(), saved.common);
    if (under_way_) save_tensors(kParameters, model_, parameters, saved.own);
    put_under(kExchange, aggregator_->save(), saved.own);
    if (!flight_) return saved;
    save_number(flight_->step, saved.own[kSteps]);
    save_number(flight_->due, saved.own[kSteps]);
    auto at = input_.begin();
    for (const std::size_t tensor : fragments_[flight_->fragment]) {
      const auto end = at + static_cast<std::ptrdiff_t>(places_.count(tensor));
      saved.own[kInput + model_[tensor].name].assign(at, end);
      at = end;
    }
    return saved;
  }

  void load(const Saved& saved, std::span<float> parameters) override {
    auto common = tensors_among(kCommon, model_, saved.common);
    const bool under_way = !take_under(std::string(kParameters) + "/", saved.own).empty();
    const auto values = under_way ? tensors_among(kParameters, model_, saved.own) : common;
    std::vector<float> input;
    auto flight = load_flight(saved.own, input);
    OuterOptimizer outer = outer_;
    outer.load(take_under(kOuter, saved.common));
    if (flight_) drop_flight();
    aggregator_->load(take_under(kExchange, saved.own));  // the last that can fail
    outer_ = std::move(outer);
    std::ranges::copy(values, parameters.begin());
    common_ = std::move(common);
    under_way_ = under_way;
    flight_ = std::move(flight);
    input_.assign(input.begin(), input.end());
    if (flight_ && masks_) marks_.resize(common_.size());
  }

 private:
  static constexpr const char* kCommon = "common";
  static constexpr const char* kOuter = "outer:";
  static constexpr const char* kSteps = "round.steps";
  static inline const std::string kInput = "round/";

  // A round of one fragment, from the step in which it is sent to the one in which it is due.
  struct Flight {
    std::size_t fragment = 0;
    std::uint64_t step = 0, due = 0;
    std::optional<Transaction> round = {};  // none: it is to be sent again
    bool failed = false;
  };

  bool streams() const { return fragments_.size() > 1 || overlap_ > 0; }

  bool due(std::size_t fragment, std::uint64_t step) const {
    return (step + 1) % delay_ == fragment * delay_ / fragments_.size();
  }

  // Calls use(first, count) for the entries of each tensor of a fragment.
  template <class Use>
  void each_tensor(std::size_t fragment, Use use) const {
    for (const std::size_t tensor : fragments_[fragment])
      use(places_.begin(tensor), places_.count(tensor));
  }

  StepStats start(std::size_t fragment, std::span<float> x, const StepInfo& info) {
    input_.clear();
    each_tensor(fragment, [&](std::size_t first, std::size_t count) {
      for (std::size_t i = first; i < first + count; ++i) input_.push_back(common_[i] - x[i]);
    });
    const bool has_momentum = !info.momentum.empty() || !info.momentum_by_tensor.empty();
    if (masks_ && overlap_ > 0) marks_.resize(has_momentum ? common_.size() : 0);
    flight_.emplace(Flight{.fragment = fragment, .step = info.step, .due = info.step + overlap_});
    try {
      send(info);
    } catch (...) {
      flight_.reset();
      throw;
    }
    return overlap_ == 0 ? land(x, info) : StepStats{};
  }

  // A rank's own momentum may lie elsewhere when the round ends: what is to be cleared of it is
  // marked by zeros here.
  void send(const StepInfo& given) {
    auto at = input_.begin();
    each_tensor(flight_->fragment, [&](std::size_t first, std::size_t count) {
      std::copy_n(at, count, change_.begin() + static_cast<std::ptrdiff_t>(first));
      at += static_cast<std::ptrdiff_t>(count);
    });
    StepInfo info = info_of_round(given);
    info.step = flight_->step;
    info.plain = false;  // what comes after it is, if anything
    if (overlap_ > 0) {
      std::ranges::fill(marks_, 1.0F);
      info.momentum = marks_;
      info.momentum_by_tensor = {};
    }
    const auto& tensors = fragments_[flight_->fragment];
    flight_->round.emplace(aggregator_->begin(info, tensors));
    flight_->round->submit({.tensors = tensors, .data = arrays_[flight_->fragment]});
    flight_->failed = false;
  }

  // What went wrong is told where the round is due, on all ranks in the same step.
  void keep_moving(const StepInfo& info) {
    if (!flight_->round) return send(info);
    if (flight_->failed) return;
    try {
      flight_->round->poll(0);
    } catch (const Error&) {
    }
  }

  StepStats land(std::span<float> x, const StepInfo& info) {
    if (flight_->failed) flight_->round.reset();
    if (!flight_->round) send(info);
    StepStats stats;
    try {
      stats = flight_->round->finish();
    } catch (...) {
      flight_->failed = true;
      throw;
    }
    if (stats.finite) flight_->round->commit();
    Stopwatch watch;
    take_fragment(x, info, stats.finite);
    stats.dense_bytes = 0;  // its steps have been counted
    stats.update_seconds = watch.lap();
    return stats;
  }

  // So that ranks can settle what has become of it: no step may be open then.
  void close_flight() {
    if (!flight_->round || flight_->failed) return;
    try {
      flight_->round->finish();
    } catch (const Error&) {  // its outcome tells
    }
  }

  // All ranks drop it: what they have sent arrives, and counts for nothing.
  void drop_flight() {
    close_flight();
    if (flight_->round && flight_->round->outcome() != Outcome::in_doubt)
      flight_->round->rollback();
    flight_->round.reset();
    flight_->failed = false;
  }

  void take_fragment(std::span<float> x, const StepInfo& info, bool finite) {
    if (finite) {
      each_tensor(flight_->fragment, [&](std::size_t first, std::size_t count) {
        merge_part(x, first, count, merge_);
      });
      if (overlap_ > 0 && masks_) mask(info);
    } else {
      take(x, false, 0);
    }
    flight_.reset();
  }

  void mask(const StepInfo& info) {
    for (const std::size_t tensor : fragments_[flight_->fragment])
      for (std::size_t i = places_.begin(tensor); i < places_.end(tensor); ++i) {
        if (marks_[i] != 0) continue;
        if (!info.momentum.empty())
          info.momentum[i] = 0;
        else if (!info.momentum_by_tensor.empty())
          info.momentum_by_tensor[tensor][i - places_.begin(tensor)] = 0;
      }
  }

  StepInfo info_of_round(const StepInfo& given) const {
    StepInfo info = given;
    info.lr = 1;  // changes are in units of the model
    info.parameters = common_;
    return info;
  }

  // Of the whole model. When some rank's has run away to Inf or NaN, all go back to the last common
  // one.
  StepStats round(std::span<float> x, const StepInfo& given, float merge) {
    for (std::size_t i = 0; i < x.size(); ++i) change_[i] = common_[i] - x[i];
    last_merge_ = merge;
    StepStats stats = aggregator_->average(change_, info_of_round(given));
    Stopwatch watch;
    take(x, stats.finite, merge);
    stats.dense_bytes = 0;  // its steps have been counted
    stats.update_seconds = watch.lap();
    return stats;
  }

  // The mean change, if there is one, is made the model's.
  void take(std::span<float> x, bool finite, float merge) {
    if (finite)
      merge_part(x, 0, x.size(), merge);
    else
      std::ranges::copy(common_, x.begin());
    under_way_ = finite && merge > 0;
    set_back_ = !finite;
  }

  void merge_part(std::span<float> x, std::size_t first, std::size_t count, float merge) {
    const std::span<float> w = std::span(common_).subspan(first, count);
    outer_.update(w, std::span(change_).subspan(first, count), first);
    if (merge == 0) {
      std::ranges::copy(w, x.begin() + static_cast<std::ptrdiff_t>(first));
      return;
    }
    for (std::size_t i = 0; i < count; ++i)
      x[first + i] = merge * x[first + i] + (1 - merge) * w[i];
  }

  // Of a state, and what was sent. Throws DataError unless it is one of this method's rounds.
  std::optional<Flight> load_flight(const State& own, std::vector<float>& input) const {
    const auto steps = own.find(kSteps);
    const State arrays = take_under(kInput, own);
    if (steps == own.end() && arrays.empty()) return {};
    const auto refuse = [](const std::string& why) {
      throw DataError("the state has a round under way " + why);
    };
    if (steps == own.end() || steps->second.size() != 2 * kDigits) refuse("without its steps");
    Flight flight{.step = load_number(std::span(steps->second).first(kDigits)),
                  .due = load_number(std::span(steps->second).last(kDigits))};
    while (flight.fragment < fragments_.size() && !due(flight.fragment, flight.step))
      ++flight.fragment;
    if (!streams() || flight.fragment == fragments_.size() || flight.due != flight.step + overlap_)
      refuse("of another delay, overlap or number of fragments: sent in step " +
             std::to_string(flight.step) + ", due in step " + std::to_string(flight.due));
    const auto& tensors = fragments_[flight.fragment];
    for (const std::size_t tensor : tensors) {
      const auto at = arrays.find(model_[tensor].name);
      if (at == arrays.end() || at->second.size() != places_.count(tensor))
        refuse("without tensor '" + model_[tensor].name + "'");
      else
        input.insert(input.end(), at->second.begin(), at->second.end());
    }
    if (arrays.size() != tensors.size()) refuse("with tensors of another fragment");
    return flight;
  }

  Model model_;
  Places places_;
  std::uint64_t delay_, overlap_;
  float merge_, last_merge_ = 0;  // of every round, and of the last one of the whole model
  bool masks_;
  OuterOptimizer outer_;
  std::unique_ptr<Aggregator> aggregator_;
  std::vector<float> common_, change_;  // the model all had after the last round
  Fragments fragments_;
  std::vector<std::vector<void*>> arrays_;  // by fragment: where changes of its tensors stand
  bool under_way_ = false, set_back_ = false;
  bool doubted_ = false;      // of the last round it was not known whether others had made it
  std::vector<float> input_;  // of the round under way: its fragment's tensors one after the other
  std::vector<float> marks_;  // 0: where this rank has sent something in it
  std::optional<Flight> flight_;
};

}  // namespace

std::unique_ptr<Method> make_local_steps(const Agreement& agreement,
                                         std::unique_ptr<Aggregator> aggregator,
                                         std::span<const float> start) {
  return std::make_unique<LocalSteps>(agreement, std::move(aggregator), start);
}

}  // namespace laconic

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
#include <algorithm>

#include "laconic/kernels/reduce.h"
#include "laconic/methods/kinds.h"
#include "laconic/methods/outer_optimizer.h"

namespace laconic {
namespace {

class LocalSteps : public Method {
 public:
  LocalSteps(const Agreement& agreement, std::unique_ptr<Aggregator> aggregator,
             std::span<const float> start)
      : model_(agreement.model),
        delay_(agreement.recipe.delay),
        outer_(parse_outer(agreement.recipe.outer), model_),
        aggregator_(std::move(aggregator)),
        common_(start.begin(), start.end()),
        change_(start.size()) {}

  StepStats before_update(std::span<float>, std::span<float> gradient, const StepInfo&) override {
    require_count(gradient, model_);
    StepStats stats;
    stats.dense_bytes = gradient.size_bytes();  // a dense exchange would have sent it
    stats.finite = kernels::all_finite(gradient);
    return stats;
  }

  StepStats after_update(std::span<float> x, const StepInfo& info) override {
    set_back_ = false;
    under_way_ = true;
    return (info.step + 1) % delay_ == 0 ? round(x, info) : StepStats{};
  }

  StepStats finish(std::span<float> x, const StepInfo& info) override {
    set_back_ = false;
    return under_way_ ? round(x, info) : StepStats{};
  }

  // A round in doubt that others have made has its mean already.
  Outcome regroup(const Agreement& agreement, std::span<float> x, Transport& among) override {
    doubted_ |= aggregator_->outcome() == Outcome::in_doubt;
    const Outcome outcome = go_on_among(agreement, among, aggregator_);
    if (std::exchange(doubted_, false) && outcome == Outcome::committed) take(x, true);
    return outcome;
  }

  bool set_back() const override { return set_back_; }
  bool replicas_equal() const override { return !under_way_; }
  double residual_norm() const override { return aggregator_->residual_norm(); }

  Saved save(std::span<const float> parameters) const override {
    Saved saved;
    save_tensors(kCommon, model_, common_, saved.common);
    put_under(kOuter, outer_.save(), saved.common);
    if (under_way_) save_tensors(kParameters, model_, parameters, saved.own);
    put_under(kExchange, aggregator_->save(), saved.own);
    return saved;
  }

  void load(const Saved& saved, std::span<float> parameters) override {
    auto common = tensors_among(kCommon, model_, saved.common);
    const bool under_way = !take_under(std::string(kParameters) + "/", saved.own).empty();
    const auto values = under_way ? tensors_among(kParameters, model_, saved.own) : common;
    outer_.load(take_under(kOuter, saved.common));
    aggregator_->load(take_under(kExchange, saved.own));
    std::ranges::copy(values, parameters.begin());
    common_ = std::move(common);
    under_way_ = under_way;
  }

 private:
  static constexpr const char* kCommon = "common";
  static constexpr const char* kOuter = "outer:";

  // When some rank's model has run away to Inf or NaN, all go back to the last common one.
  StepStats round(std::span<float> x, const StepInfo& given) {
    for (std::size_t i = 0; i < x.size(); ++i) change_[i] = common_[i] - x[i];
    StepInfo info = given;
    info.lr = 1;  // changes are in units of the model
    info.parameters = common_;
    StepStats stats = aggregator_->average(change_, info);
    Stopwatch watch;
    take(x, stats.finite);
    stats.dense_bytes = 0;  // its steps have been counted
    stats.update_seconds = watch.lap();
    return stats;
  }

  // The mean change, if there is one, is made the model's.
  void take(std::span<float> x, bool finite) {
    if (finite) outer_.update(common_, change_);
    std::ranges::copy(common_, x.begin());
    under_way_ = false;
    set_back_ = !finite;
  }

  Model model_;
  std::uint64_t delay_;
  OuterOptimizer outer_;
  std::unique_ptr<Aggregator> aggregator_;
  std::vector<float> common_, change_;  // the model all had after the last round
  bool under_way_ = false, set_back_ = false;
  bool doubted_ = false;  // of the last round it was not known whether others had made it
};

}  // namespace

std::unique_ptr<Method> make_local_steps(const Agreement& agreement,
                                         std::unique_ptr<Aggregator> aggregator,
                                         std::span<const float> start) {
  return std::make_unique<LocalSteps>(agreement, std::move(aggregator), start);
}

}  // namespace laconic

// diana: what is sent is how the gradient differs from what ranks have learnt of it so far.
//
//   send q = C(g - h); the mean gradient is the mean of all h + the mean of all q; h = h + alpha q
//
// C is unbiased, and so is the mean gradient, whatever h is: nothing is owed. Where gradients come
// to rest so do the differences, and the noise of C with them, which memory `none` never loses.
// Horvath et al. ask for alpha <= 1 / (1 + omega); that is alpha here, by each slice's own omega,
// unless a smaller one is asked for. 0 is memory `none`. Invariant: h is the sum of alpha times
// everything this rank has sent.
#include <algorithm>
#include <utility>

#include "laconic/memory/estimates.h"

namespace laconic {
namespace {

class Diana : public Memory {
 public:
  Diana(const Model& model, const Args& args)
      : alpha_(args.number("alpha")), estimates_("diana", model) {}

  // The rates of all slices are those of the step's plan: a rank that rests has none of its own.
  void begin(const StepInfo& info) override {
    scale_ = info.scale;
    estimates_.begin(info);
    if (std::exchange(plan_, info.plan) == info.plan) return;
    rates_.clear();
    for (std::size_t i = 0; i < plan_->layout.size(); ++i)
      rates_.push_back(rate_of(plan_->op(i).traits(plan_->layout[i].count)));
  }

  Source source(const Slice& slice, const Floats& gradient) override {
    return {.fresh = gradient, .kept = estimates_.h(slice), .b = -scale_};
  }

  void sent(const Slice& slice, const Sent& sent) override {
    estimates_.sent(slice, sent, rate(slice));
  }
  void rest(const Slice& slice) override { estimates_.rest(slice); }

  bool reshapes() const override { return true; }
  void mean(const Slice& slice, std::size_t from, std::span<float> block) override {
    estimates_.mean(slice, from, block, rate(slice));
  }

  void commit(const Tensors& tensors) override { estimates_.commit(tensors); }

  double residual_norm() const override { return 0; }
  State save() const override { return save_stores({&estimates_.of_rank(), &estimates_.of_all()}); }
  void load(const State& state) override {
    load_stores(state, {&estimates_.of_rank(), &estimates_.of_all()});
  }

 private:
  float rate_of(const Traits& traits) const {
    return static_cast<float>(std::min(alpha_, 1 / (1 + traits.omega.value_or(0))));
  }

  // Slices ascend; of those that begin where it does, all but the last are empty.
  float rate(const Slice& slice) const {
    const auto after = std::ranges::upper_bound(plan_->layout, slice.offset, {}, &Slice::offset);
    return rates_[static_cast<std::size_t>(after - plan_->layout.begin()) - 1];
  }

  double alpha_;
  float scale_ = 1;
  const Plan* plan_ = nullptr;  // of the step
  std::vector<float> rates_;    // by slice of it
  Estimates estimates_;
};

const RegisterMemory diana{{
    .name = "diana",
    .summary = "Sends how the gradient differs from what ranks have learnt of it; for unbiased "
               "operators.",
    .paper = "Mishchenko et al., DIANA (arXiv 1901.09269); Horvath et al., Stochastic Distributed "
             "Learning with Gradient Quantization and Variance Reduction (arXiv 1904.05115)",
    .parameters = {{.name = "alpha",
                    .fallback = "1",
                    .choices = {},
                    .min = 0,
                    .max = 1,
                    .help = "how fast it learns, at most: 1/(1+omega) of each slice's operator is "
                            "never exceeded"}},
    .examples = {"diana", "diana:0.25"},
    .roles = {{"diana", Kept::mean}, {"diana.mean", Kept::same}},
    .wants_unbiased = true,
    .make = [](const Model& model, const Args& args) -> std::unique_ptr<Memory> {
      return std::make_unique<Diana>(model, args);
    },
}};

}  // namespace
}  // namespace laconic

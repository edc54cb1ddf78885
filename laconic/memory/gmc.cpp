// gmc: feedback whose momentum is that of the model itself, the same on every rank.
//
//   a = e + g - (beta / lr) (w_t - w_{t-1}); send C(a); e = a - C(a)
//
// The optimiser's own momentum must be 0: then w moves by -lr times the mean, and with nothing
// dropped this is momentum SGD. Invariant: everything sent plus the residual is the sum of all
// g - (beta / lr) (w_t - w_{t-1}). In the first step w has not moved yet.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "laconic/base/errors.h"
#include "laconic/memory/store.h"

namespace laconic {
namespace {

class Gmc : public Memory {
 public:
  Gmc(const Model& model, const Args& args)
      : momentum_(static_cast<float>(args.number("momentum"))),
        residual_("gmc", model),
        previous_("gmc.parameters", model),
        started_(model.size()) {}

  void begin(const StepInfo& info) override {
    require_lr("gmc", info);
    const std::size_t count = residual_.places().entries();
    if (info.parameters.size() != count && info.parameters_by_tensor.size() != started_.size())
      throw UsageError("memory 'gmc' needs the model's " + std::to_string(count) +
                       " parameters with each step, not " + std::to_string(info.parameters.size()));
    info_ = info;
  }

  Source source(const Slice& slice, const Floats& gradient) override {
    moved_.reset(slice.count);
    residual_.places().each(slice, [&](std::size_t tensor, std::size_t from, std::size_t count) {
      move(slice, gradient, tensor, from, count);
    });
    return {.fresh = Floats(moved_.view()),
            .kept = residual_.kept(slice),
            .left = residual_.next(slice),
            .b = info_.scale,
            .c = 1 / info_.scale};
  }

  // A tensor that has never been sent starts with this step.
  void rest(const Slice& slice) override {
    residual_.keep(slice);
    previous_.keep(slice);
    previous_.places().each(slice, [&](std::size_t tensor, std::size_t from, std::size_t count) {
      if (started_[tensor]) return;
      const std::size_t offset = previous_.places().begin(tensor) + from;
      previous_.next({.name = {}, .offset = offset, .count = count})
          .store(0, count, parameters(tensor) + from);
    });
  }

  void commit(const Tensors& tensors) override {
    residual_.commit(tensors.sent);
    previous_.commit(tensors.sent);
    for (const std::size_t tensor : tensors.sent) started_[tensor] = true;
  }

  double residual_norm() const override { return residual_.norm(); }

  // Before the first step there is no w_{t-1} to save; of tensors that have rested ever since it is
  // NaN.
  State save() const override {
    if (std::ranges::none_of(started_, std::identity())) return save_stores({&residual_});
    State state = save_stores({&residual_, &previous_});
    for (std::size_t t = 0; t < started_.size(); ++t)
      if (!started_[t])
        std::ranges::fill(state[name_of(t)], std::numeric_limits<float>::quiet_NaN());
    return state;
  }

  void load(const State& state) override {
    const bool any = std::ranges::any_of(
        state, [&](const auto& entry) { return entry.first.starts_with(previous_.role() + "/"); });
    if (any)
      load_stores(state, {&residual_, &previous_});
    else
      load_stores(state, {&residual_});
    for (std::size_t t = 0; t < started_.size(); ++t)
      started_[t] =
          any && std::ranges::none_of(state.at(name_of(t)), [](float w) { return std::isnan(w); });
  }

 private:
  std::string name_of(std::size_t tensor) const {
    return previous_.role() + "/" + previous_.model()[tensor].name;
  }

  const float* parameters(std::size_t tensor) const {
    return info_.parameters.empty() ? info_.parameters_by_tensor[tensor]
                                    : info_.parameters.data() + residual_.places().begin(tensor);
  }

  // g - (beta / lr) (w_t - w_{t-1}) of a part of one tensor, and w_t for the next step.
  void move(const Slice& slice, const Floats& gradient, std::size_t tensor, std::size_t from,
            std::size_t count) {
    const std::size_t at = residual_.places().begin(tensor) + from - slice.offset;
    const float* const w = parameters(tensor) + from;
    const Slice part{.name = {}, .offset = slice.offset + at, .count = count};
    const Floats before = previous_.kept(part), next = previous_.next(part);
    const float weight = started_[tensor] ? info_.scale * momentum_ / info_.lr : 0.0F;
    float a[kBlock], b[kBlock];
    for (std::size_t i = 0; i < count; i += kBlock) {
      const std::size_t some = std::min(kBlock, count - i);
      const float *g = gradient.load(at + i, some, a), *old = before.load(i, some, b);
      float* const out = moved_.data() + at + i;
      if (weight == 0)
        std::copy_n(g, some, out);  // nothing of `old`, not even a NaN
      else
        for (std::size_t j = 0; j < some; ++j) out[j] = g[j] - weight * (w[i + j] - old[j]);
    }
    next.store(0, count, w);
  }

  float momentum_;
  Store residual_, previous_;
  std::vector<bool> started_;  // by tensor: previous_ holds w_{t-1}
  StepInfo info_;              // whose arrays are the caller's until the step ends
  Array<float> moved_;
};

const RegisterMemory gmc{{
    .name = "gmc",
    .summary = "Feedback with the momentum of the model, not of the rank; the optimiser has none.",
    .paper = "Zhao et al., Global Momentum Compression (arXiv 1905.12948)",
    .parameters = {{.name = "momentum",
                    .fallback = "0.9",
                    .choices = {},
                    .min = 0,
                    .max = 0.9999,
                    .help = "beta, what is left of the model's movement after a step"}},
    .examples = {"gmc", "gmc:0.5"},
    .roles = {{"gmc", Kept::sum}, {"gmc.parameters", Kept::same}},
    .wants_contraction = true,
    .carries_momentum = true,
    .make = [](const Model& model, const Args& args) -> std::unique_ptr<Memory> {
      return std::make_unique<Gmc>(model, args);
    },
}};

}  // namespace
}  // namespace laconic

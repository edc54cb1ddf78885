// gmc: feedback whose momentum is that of the model itself, the same on every rank.
//
//   a = e + g - (beta / lr) (w_t - w_{t-1}); send C(a); e = a - C(a)
//
// The optimiser's own momentum must be 0: then w moves by -lr times the mean, and with nothing
// dropped this is momentum SGD. Invariant: everything sent plus the residual is the sum of all
// g - (beta / lr) (w_t - w_{t-1}). In the first step w has not moved yet.
#include <algorithm>

#include "laconic/base/errors.h"
#include "laconic/kernels/axpy.h"
#include "laconic/memory/store.h"

namespace laconic {
namespace {

class Gmc : public Memory {
 public:
  Gmc(const Model& model, const Args& args)
      : momentum_(static_cast<float>(args.number("momentum"))),
        residual_("gmc", model),
        previous_("gmc.parameters", model) {}

  void begin(std::span<const float>, const StepInfo& info) override {
    require_lr("gmc", info);
    const std::size_t count = previous_.all().count;
    if (info.parameters.size() != count)
      throw UsageError("memory 'gmc' needs the model's " + std::to_string(count) +
                       " parameters with each step, not " + std::to_string(info.parameters.size()));
  }

  std::span<const float> compensate(const Slice& slice, std::span<const float> gradient,
                                    const StepInfo& info) override {
    const auto a = residual_.open(slice, gradient);
    const auto w = info.parameters.subspan(slice.offset, slice.count);
    const auto moved = previous_.open(slice, w, {.kept = started_ ? -1.0F : 0.0F});
    if (started_) kernels::add_scaled(moved.data(), -momentum_ / info.lr, a);
    std::ranges::copy(w, moved.begin());  // w_{t-1} of the next step
    return a;
  }

  void absorb(const Slice& slice, const Sent& sent) override {
    sent.add_to(residual_.opened(slice), -1);
    residual_.close(slice);
    previous_.close(slice);
  }

  void commit() override {
    residual_.commit();
    previous_.commit();
    started_ = true;
  }
  void rollback() override {}  // what was kept was never touched

  double residual_norm() const override { return residual_.norm(); }

  // Before the first step there is no w_{t-1} to save.
  State save() const override {
    return started_ ? save_stores({&residual_, &previous_}) : save_stores({&residual_});
  }
  void load(const State& state) override {
    const bool started = std::ranges::any_of(
        state, [&](const auto& entry) { return entry.first.starts_with(previous_.role() + "/"); });
    if (started)
      load_stores(state, {&residual_, &previous_});
    else
      load_stores(state, {&residual_});
    started_ = started;
  }

 private:
  float momentum_;
  Store residual_, previous_;
  bool started_ = false;  // previous_ holds w_{t-1}
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

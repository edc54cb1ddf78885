// feedback: what was not sent is added to the next gradient.
//
//   a = decay * e + g; send C(a); e = a - C(a)
//
// Invariant: everything sent plus the residual is the sum of all gradients. With a decay d below 1
// what was t steps ago counts d^t, on both sides. With store=bf16 it holds up to the rounding of
// each step's residual, 2^-8 of each entry.
//
// With units=step the residual is a change of the model, so a learning rate that changes does not
// change what is owed: a = decay * e + lr * g; send C(a / lr); e = a - lr * C(a / lr). The
// invariant is then that of lr * sent and lr * g.
//
// With masking=on the momentum of the worker's own optimiser becomes 0 where something was sent, as
// Sparse Binary Compression asks for after local steps (Sattler et al., arXiv 1805.08768).
#include <algorithm>

#include "laconic/base/errors.h"
#include "laconic/memory/store.h"

namespace laconic {
namespace {

class Feedback : public Memory {
 public:
  Feedback(const Model& model, const Args& args)
      : decay_(static_cast<float>(args.number("decay"))),
        in_steps_(args.text("units") == "step"),
        masking_(args.text("masking") == "on"),
        residual_(in_steps_ ? "feedback.step" : "feedback", model, Store::format_of(args)) {}

  void begin(std::span<const float>, const StepInfo& info) override {
    if (masking_) {
      if (info.momentum.size() != residual_.all().count)
        throw UsageError(
            "memory 'feedback:masking=on' masks the momentum that each rank has of its own; "
            "allowed: with local steps (a delay above 1) and an optimiser with momentum");
      momentum_ = info.momentum;
      masked_.assign(momentum_.begin(), momentum_.end());
    }
    if (!in_steps_) return;
    require_lr("feedback:units=step", info);
    lr_ = info.lr;
  }

  std::span<const float> compensate(const Slice& slice, std::span<const float> gradient,
                                    const StepInfo&) override {
    const auto a = residual_.open(slice, gradient, {.kept = decay_, .fresh = lr_});
    if (!in_steps_) return a;
    as_gradient_.resize(a.size());
    for (std::size_t i = 0; i < a.size(); ++i) as_gradient_[i] = a[i] / lr_;
    return as_gradient_;
  }

  void absorb(const Slice& slice, const Sent& sent) override {
    sent.add_to(residual_.opened(slice), -lr_);
    residual_.close(slice);
    if (masking_) mask_momentum(std::span(masked_).subspan(slice.offset, slice.count), sent);
  }

  void commit() override {
    residual_.commit();
    if (masking_) std::ranges::copy(masked_, momentum_.begin());
  }
  void rollback() override {}  // the old residual was never touched

  double residual_norm() const override { return residual_.norm(); }
  State save() const override { return save_stores({&residual_}); }
  void load(const State& state) override { load_stores(state, {&residual_}); }

 private:
  float decay_;
  bool in_steps_, masking_;
  float lr_ = 1;  // stays 1 in units of the gradient
  Store residual_;
  std::vector<float> as_gradient_;
  std::span<float> momentum_;  // the caller's, until the step ends
  std::vector<float> masked_;  // what it becomes
};

const RegisterMemory feedback{{
    .name = "feedback",
    .summary = "Adds what was not sent to the next gradient (error feedback).",
    .paper = "Seide et al., 1-bit SGD; Karimireddy et al., Error Feedback Fixes SignSGD (arXiv "
             "1901.09847)",
    .parameters = {{.name = "decay",
                    .fallback = "1",
                    .choices = {},
                    .min = 0,
                    .max = 1,
                    .help = "what is left of the residual after a step"},
                   Store::parameter(),
                   {.name = "units",
                    .fallback = "gradient",
                    .choices = {"gradient", "step"},
                    .help = "step: the residual is learning rate times gradient"},
                   {.name = "masking",
                    .fallback = "off",
                    .choices = {"off", "on"},
                    .help = "the worker's own momentum is set to 0 where something was sent"}},
    .examples = {"feedback", "feedback:0.75", "feedback:bf16", "feedback:step",
                 "feedback:0.5,bf16,step"},
    .roles = {{"feedback", Kept::sum}, {"feedback.step", Kept::sum}},
    .wants_contraction = true,
    .make = [](const Model& model, const Args& args) -> std::unique_ptr<Memory> {
      return std::make_unique<Feedback>(model, args);
    },
}};

}  // namespace
}  // namespace laconic

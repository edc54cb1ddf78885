// feedback: what was not sent is added to the next gradient.
//
//   a = decay * e + g; send C(a); e = a - C(a)
//
// Invariant: everything sent plus the residual is the sum of all gradients. With a decay d below 1
// what was t steps ago counts d^t, on both sides. With store=bf16 it holds up to the rounding of
// each step's residual, 2^-8 of each entry. With store=8bit it holds in the mean over draws, and
// each step moves an entry by less than 1/63.5 of the largest of its 64 neighbours.
//
// With units=step the residual is a change of the model, so a learning rate that changes does not
// change what is owed: a = g + decay * e / lr; send C(a); e = lr * (a - C(a)). The invariant is
// then that of lr * sent and lr * g. A loss scale S is such a unit too: the residual is kept
// without it.
//
// With masking=on the momentum of the worker's own optimiser becomes 0 where something was sent, as
// Sparse Binary Compression asks for after local steps (Sattler et al., arXiv 1805.08768).
#include <algorithm>

#include "laconic/base/errors.h"
#include "laconic/memory/store.h"

namespace laconic {
namespace {

// The worker's own momentum, set to 0 at commit where something was sent. Entries at which
// receivers decode 0 were not sent.
class Mask {
 public:
  void begin(const StepInfo& info, const Places& places) {
    if (info.momentum.size() != places.entries() &&
        info.momentum_by_tensor.size() != places.tensors())
      throw UsageError(
          "memory 'feedback:masking=on' masks the momentum that each rank has of its own; "
          "allowed: with local steps (a delay above 1) and an optimiser with momentum");
    turn(info);
    entries().clear();
    entries().reserve(places.entries());  // once: memory that is never touched costs nothing
  }

  void turn(const StepInfo& info) {
    info_ = info;
    if (by_slot_.size() <= info.slot) by_slot_.resize(info.slot + 1);
  }

  void sent(const Slice& slice, const Sent& sent) {
    sent.each_block(slice.count, [&](std::size_t from, std::span<const float> values) {
      for (std::size_t i = 0; i < values.size(); ++i)
        if (values[i] != 0) entries().push_back(slice.offset + from + i);
    });
  }

  void commit(std::span<const std::size_t> tensors, const Places& places) {
    for (const std::size_t entry : entries()) {
      const std::size_t tensor = places.tensor_at(entry);
      if (!std::ranges::binary_search(tensors, tensor)) continue;
      if (!info_.momentum.empty())
        info_.momentum[entry] = 0;
      else
        info_.momentum_by_tensor[tensor][entry - places.begin(tensor)] = 0;
    }
  }

 private:
  std::vector<std::size_t>& entries() { return by_slot_[info_.slot]; }

  StepInfo info_;  // whose arrays are the caller's until the step ends
  std::vector<std::vector<std::size_t>> by_slot_;  // entries of the model
};

class Feedback : public Memory {
 public:
  Feedback(const Model& model, const Args& args)
      : decay_(static_cast<float>(args.number("decay"))),
        in_steps_(args.text("units") == "step"),
        masking_(args.text("masking") == "on"),
        residual_(in_steps_ ? "feedback.step" : "feedback", model, Store::format_of(args)) {}

  void begin(const StepInfo& info) override {
    if (masking_) mask_.begin(info, residual_.places());
    if (in_steps_) require_lr("feedback:units=step", info);
    take(info);
  }
  void turn(const StepInfo& info) override {
    if (masking_) mask_.turn(info);
    take(info);
  }

  Source source(const Slice& slice, const Floats& gradient) override {
    return {.fresh = gradient,
            .kept = residual_.kept(slice),
            .left = residual_.next(slice, draws_),
            .b = decay_ * unit_,
            .c = 1 / unit_};
  }

  void sent(const Slice& slice, const Sent& sent) override {
    if (masking_) mask_.sent(slice, sent);
  }
  void rest(const Slice& slice) override { residual_.keep(slice, draws_); }

  void commit(const Tensors& tensors) override {
    residual_.commit(tensors.sent);
    if (masking_) mask_.commit(tensors.sent, residual_.places());
  }

  double residual_norm() const override { return residual_.norm(); }
  State save() const override { return save_stores({&residual_}); }
  void load(const State& state) override { load_stores(state, {&residual_}); }

 private:
  void take(const StepInfo& info) {
    unit_ = (in_steps_ ? 1 / info.lr : 1) * info.scale;
    draws_ = info.draws;
  }

  float decay_;
  bool in_steps_, masking_;
  float unit_ = 1;  // of the gradient, in units of the residual: 1 / learning rate, and loss scale
  Key draws_;
  Store residual_;
  Mask mask_;
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
                 "feedback:0.5,bf16,step", "feedback:8bit", "feedback:0.95,8bit,step"},
    .roles = {{"feedback", Kept::sum}, {"feedback.step", Kept::sum}},
    .wants_contraction = true,
    .make = [](const Model& model, const Args& args) -> std::unique_ptr<Memory> {
      return std::make_unique<Feedback>(model, args);
    },
}};

}  // namespace
}  // namespace laconic

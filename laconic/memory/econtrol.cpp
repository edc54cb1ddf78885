// econtrol: ef21 that remembers its errors, and pays them back at a rate of its own.
//
//   c = C(a e + g - h); send c; e = e + g - h - c; h = h + c; the mean gradient is the mean of all
//   h
//
// With a = 0 it would be ef21. Invariant, which ef21 has not: the sum over steps of all h, each
// after its step, plus e is the sum of all gradients, so that noise averages out at every a.
// h is the sum of everything this rank sent. Both start at 0.
//
// The paper's a is of the order of delta. An entry that was left out k times comes back with a k
// times as much of its error, so that a = 1 runs away where k reaches 2.
#include "laconic/memory/estimates.h"

namespace laconic {
namespace {

class EControl : public Memory {
 public:
  EControl(const Model& model, const Args& args)
      : a_(static_cast<float>(args.number("strength"))),
        e_("econtrol", model),
        estimates_("econtrol.h", model) {}

  void begin(const StepInfo& info) override {
    scale_ = info.scale;
    estimates_.begin(info);
  }

  Source source(const Slice& slice, const Floats& gradient) override {
    const auto ahead = ahead_.reset(slice.count);
    const Floats h = estimates_.h(slice);
    float a[kBlock], b[kBlock];
    for (std::size_t from = 0; from < slice.count; from += kBlock) {
      const std::size_t count = std::min(kBlock, slice.count - from);
      const float *g = gradient.load(from, count, a), *old = h.load(from, count, b);
      for (std::size_t i = 0; i < count; ++i) ahead[from + i] = g[i] - scale_ * old[i];
    }
    left_.reset(slice.count);
    return {.fresh = Floats(ahead_.view()),
            .kept = e_.kept(slice),
            .left = Floats(left_.span()),
            .b = a_ * scale_,
            .c = 1 / scale_};
  }

  // e + g - h - c = (1 - a) e + (a e + g - h - c), and the last is what was left.
  void sent(const Slice& slice, const Sent& sent) override {
    const Floats kept = e_.kept(slice), next = e_.next(slice);
    float a[kBlock], b[kBlock];
    for (std::size_t from = 0; from < slice.count; from += kBlock) {
      const std::size_t count = std::min(kBlock, slice.count - from);
      const float* e = kept.load(from, count, a);
      float* out = next.place(from, count, b);
      for (std::size_t i = 0; i < count; ++i) out[i] = (1 - a_) * e[i] + left_.data()[from + i];
      next.store(from, count, out);
    }
    estimates_.sent(slice, sent);
  }
  void rest(const Slice& slice) override {
    e_.keep(slice);
    estimates_.rest(slice);
  }

  bool reshapes() const override { return true; }
  void mean(const Slice& slice, std::size_t from, std::span<float> block) override {
    estimates_.mean(slice, from, block);
  }

  void commit(const Tensors& tensors) override {
    e_.commit(tensors.sent);
    estimates_.commit(tensors);
  }

  double residual_norm() const override { return e_.norm(); }
  State save() const override {
    return save_stores({&e_, &estimates_.of_rank(), &estimates_.of_all()});
  }
  void load(const State& state) override {
    load_stores(state, {&e_, &estimates_.of_rank(), &estimates_.of_all()});
  }

 private:
  float a_;
  float scale_ = 1;
  Store e_;
  Estimates estimates_;
  Array<float> ahead_, left_;
};

const RegisterMemory econtrol{{
    .name = "econtrol",
    .summary = "Sends how the gradient differs from what was sent so far, and pays its errors back "
               "at a rate.",
    .paper = "Gao et al., EControl (arXiv 2311.05645)",
    .parameters = {{.name = "strength",
                    .fallback = "0.1",
                    .choices = {},
                    .min = 0.0001,
                    .max = 1,
                    .help = "a, the share of the error that is added in each step"}},
    .examples = {"econtrol", "econtrol:0.5"},
    .roles = {{"econtrol", Kept::sum}, {"econtrol.h", Kept::mean}, {"econtrol.h.mean", Kept::same}},
    .wants_contraction = true,
    .make = [](const Model& model, const Args& args) -> std::unique_ptr<Memory> {
      return std::make_unique<EControl>(model, args);
    },
}};

}  // namespace
}  // namespace laconic

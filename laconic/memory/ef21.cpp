// ef21: what is sent is how the gradient differs from what was sent so far.
//
//   v = (1 - a) v + a g; send C(v - h); h = h + C(v - h); the mean gradient is the mean of all h
//
// With a = 1 that is EF21. Under noise it has a bias that no learning rate removes: what an
// operator picks is correlated with the noise (Fatkhullin et al., arXiv 2305.15155, theorem 1);
// a < 1 is their EF21-SGDM, whose bias falls with a. The first v is the first gradient. The
// optimiser's own momentum should be 0 then. Invariant: h is the sum of everything this rank sent.
#include <cmath>

#include "laconic/kernels/reduce.h"
#include "laconic/memory/estimates.h"

namespace laconic {
namespace {

class Ef21 : public Memory {
 public:
  explicit Ef21(const Model& model) : estimates_("ef21", model) {}

  void begin(const StepInfo& info) override {
    turn(info);
    owed_squared() = 0;
  }
  void turn(const StepInfo& info) override {
    scale_ = info.scale;
    estimates_.begin(info);
    slot_ = info.slot;
    if (by_slot_.size() <= slot_) by_slot_.resize(slot_ + 1);
  }

  Source source(const Slice& slice, const Floats& gradient) override {
    left_.reset(slice.count);
    return {.fresh = gradient,
            .kept = estimates_.h(slice),
            .left = Floats(left_.span()),
            .b = -scale_,
            .c = 1 / scale_};
  }

  void sent(const Slice& slice, const Sent& sent) override {
    owed_squared() += kernels::sum_of_squares(left_.view());
    estimates_.sent(slice, sent);
  }
  void rest(const Slice& slice) override { estimates_.rest(slice); }

  bool reshapes() const override { return true; }
  void mean(const Slice& slice, std::size_t from, std::span<float> block) override {
    estimates_.mean(slice, from, block);
  }

  void commit(const Tensors& tensors) override {
    estimates_.commit(tensors);
    owed_ = std::sqrt(owed_squared());
  }

  // |v - h| of the last step; 0 before the first one after a load.
  double residual_norm() const override { return owed_; }
  State save() const override { return save_stores({&estimates_.of_rank(), &estimates_.of_all()}); }
  void load(const State& state) override {
    load_stores(state, {&estimates_.of_rank(), &estimates_.of_all()});
    owed_ = 0;
  }

 protected:
  Estimates estimates_;
  float scale_ = 1;
  double owed_ = 0;

 private:
  double& owed_squared() { return by_slot_[slot_]; }

  Array<float> left_;
  std::size_t slot_ = 0;
  std::vector<double> by_slot_;
};

// v in place of the gradient.
class Ef21Sgdm : public Ef21 {
 public:
  Ef21Sgdm(const Model& model, double a)
      : Ef21(model),
        a_(static_cast<float>(a)),
        v_("ef21.momentum", model),
        started_(model.size()) {}

  Source source(const Slice& slice, const Floats& gradient) override {
    v_.places().each(slice, [&](std::size_t tensor, std::size_t from, std::size_t count) {
      follow(slice, gradient, tensor, from, count);
    });
    Source source = Ef21::source(slice, v_.next(slice));
    source.a = scale_;
    return source;
  }
  void rest(const Slice& slice) override {
    Ef21::rest(slice);
    v_.keep(slice);
  }

  void commit(const Tensors& tensors) override {
    Ef21::commit(tensors);
    v_.commit(tensors.sent);
    for (const std::size_t tensor : tensors.sent) started_[tensor] = true;
  }

  State save() const override {
    return save_stores({&estimates_.of_rank(), &estimates_.of_all(), &v_});
  }
  void load(const State& state) override {
    load_stores(state, {&estimates_.of_rank(), &estimates_.of_all(), &v_});
    owed_ = 0;
    for (std::size_t t = 0; t < started_.size(); ++t)
      started_[t] = std::ranges::any_of(state.at(v_.role() + "/" + v_.model()[t].name),
                                        [](float v) { return v != 0; });
  }

 private:
  // The next v of a part of one tensor. A v of zeros alone has not started.
  void follow(const Slice& slice, const Floats& gradient, std::size_t tensor, std::size_t from,
              std::size_t count) {
    const std::size_t at = v_.places().begin(tensor) + from - slice.offset;
    const Slice part{.name = {}, .offset = slice.offset + at, .count = count};
    const Floats kept = v_.kept(part), next = v_.next(part);
    const float fresh = (started_[tensor] ? a_ : 1.0F) / scale_, old = 1 - a_;
    float a[kBlock], b[kBlock], c[kBlock];
    for (std::size_t i = 0; i < count; i += kBlock) {
      const std::size_t some = std::min(kBlock, count - i);
      const float *g = gradient.load(at + i, some, a), *v = kept.load(i, some, b);
      float* out = next.place(i, some, c);
      for (std::size_t j = 0; j < some; ++j) out[j] = old * v[j] + fresh * g[j];
      next.store(i, some, out);
    }
  }

  float a_;
  Store v_;
  std::vector<bool> started_;  // by tensor
};

const RegisterMemory ef21{{
    .name = "ef21",
    .summary = "Sends how the gradient, or its average, differs from what was sent so far.",
    .paper = "Richtarik et al., EF21 (arXiv 2106.05203); Fatkhullin et al., Momentum Provably "
             "Improves Error Feedback (arXiv 2305.15155)",
    .parameters = {{.name = "momentum",
                    .fallback = "1",
                    .choices = {},
                    .min = 0.0001,
                    .max = 1,
                    .help = "a, what a new gradient counts in the average; 1: all, which has a "
                            "floor under noise; 0.1 is EF21-SGDM's"}},
    .examples = {"ef21", "ef21:0.25"},
    .roles = {{"ef21", Kept::mean}, {"ef21.mean", Kept::same}, {"ef21.momentum", Kept::mean}},
    .wants_contraction = true,
    .make = [](const Model& model, const Args& args) -> std::unique_ptr<Memory> {
      const double a = args.number("momentum");
      if (a < 1) return std::make_unique<Ef21Sgdm>(model, a);
      return std::make_unique<Ef21>(model);
    },
}};

}  // namespace
}  // namespace laconic

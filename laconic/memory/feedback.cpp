// feedback: what was not sent is added to the next gradient. Units are those of the gradient.
// a = e + g; send C(a); e = a - C(a). Invariant: everything sent plus the residual is the sum of
// all gradients.
#include <cmath>

#include "laconic/base/errors.h"
#include "laconic/kernels/linear.h"
#include "laconic/kernels/reduce.h"
#include "laconic/memory/memory.h"

namespace laconic {
namespace {

class Feedback : public Memory {
 public:
  explicit Feedback(const Model& model)
      : model_(model), residual_(count_of(model)), next_(residual_.size()) {}

  std::span<const float> compensate(const Slice& slice, std::span<const float> gradient,
                                    const StepInfo&) override {
    kernels::add(gradient, residual_.data() + slice.offset, next_.data() + slice.offset);
    return std::span(next_).subspan(slice.offset, slice.count);
  }

  void absorb(const Slice& slice, const Sent& sent) override {
    sent.add_to(std::span(next_).subspan(slice.offset, slice.count), -1);
  }

  void commit() override { residual_.swap(next_); }
  void rollback() override {}  // the old residual was never touched

  double residual_norm() const override { return std::sqrt(kernels::sum_of_squares(residual_)); }

  State save() const override {
    State state;
    save_tensors("feedback", model_, residual_, state);
    return state;
  }
  void load(const State& state) override {
    expect_state(state, {"feedback"}, model_);
    residual_ = load_tensors("feedback", model_, state);
  }

 private:
  Model model_;
  std::vector<float> residual_, next_;  // over the whole model, in parameter order
};

const RegisterMemory feedback{{
    .name = "feedback",
    .summary = "Adds what was not sent to the next gradient (error feedback).",
    .paper = "Seide et al., 1-bit SGD; Karimireddy et al., Error Feedback Fixes SignSGD (arXiv "
             "1901.09847)",
    .parameters = {},
    .wants_contraction = true,
    .make = [](const Model& model, const Args&) -> std::unique_ptr<Memory> {
      return std::make_unique<Feedback>(model);
    },
}};

}  // namespace
}  // namespace laconic

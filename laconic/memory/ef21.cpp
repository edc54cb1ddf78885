// ef21: what is sent is how the gradient differs from what was sent so far.
//
//   send C(g - h); h = h + C(g - h); the mean gradient is the mean of all ranks' h
//
// Invariant: h is the sum of everything this rank sent, and every rank keeps the same mean of all
// h, the sum of all means that arrived. Both are float32: rounding them would part them.
#include <algorithm>
#include <cmath>

#include "laconic/kernels/axpy.h"
#include "laconic/kernels/reduce.h"
#include "laconic/memory/store.h"

namespace laconic {
namespace {

class Ef21 : public Memory {
 public:
  explicit Ef21(const Model& model) : h_("ef21", model), mean_("ef21.mean", model) {}

  void begin(std::span<const float>, const StepInfo&) override { owed_squared_ = 0; }

  std::span<const float> compensate(const Slice& slice, std::span<const float> gradient,
                                    const StepInfo&) override {
    return h_.open(slice, gradient, {.kept = -1});
  }

  void absorb(const Slice& slice, const Sent& sent) override {
    const auto values = sent.decode(slice.count, decoded_);
    const auto difference = h_.opened(slice);
    kernels::add_scaled(values.data(), -1, difference);
    owed_squared_ += kernels::sum_of_squares(difference);
    h_.open(slice, values);
    h_.close(slice);
  }

  void finish(std::span<float> mean, const StepInfo&) override {
    std::ranges::copy(mean_.open(mean_.all(), mean), mean.begin());
    mean_.close(mean_.all());
  }

  void commit() override {
    h_.commit();
    mean_.commit();
    owed_ = std::sqrt(owed_squared_);
  }
  void rollback() override {}  // what was kept was never touched

  // |g - h| of the last step; 0 before the first one after a load.
  double residual_norm() const override { return owed_; }
  State save() const override { return save_stores({&h_, &mean_}); }
  void load(const State& state) override {
    load_stores(state, {&h_, &mean_});
    owed_ = 0;
  }

 private:
  Store h_, mean_;
  std::vector<float> decoded_;
  double owed_squared_ = 0, owed_ = 0;
};

const RegisterMemory ef21{{
    .name = "ef21",
    .summary = "Sends how the gradient differs from what was sent so far.",
    .paper = "Richtarik et al., EF21 (arXiv 2106.05203)",
    .parameters = {},
    .examples = {"ef21"},
    .roles = {{"ef21", Kept::mean}, {"ef21.mean", Kept::same}},
    .wants_contraction = true,
    .make = [](const Model& model, const Args&) -> std::unique_ptr<Memory> {
      return std::make_unique<Ef21>(model);
    },
}};

}  // namespace
}  // namespace laconic

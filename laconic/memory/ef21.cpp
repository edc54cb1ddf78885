// ef21: what is sent is how the gradient differs from what was sent so far.
//
//   send C(g - h); h = h + C(g - h); the mean gradient is the mean of all ranks' h
//
// Invariant: h is the sum of everything this rank sent, and every rank keeps the same mean of all
// h, the sum of all means that arrived. Both are float32: rounding them would part them.
#include <algorithm>
#include <cmath>

#include "laconic/kernels/reduce.h"
#include "laconic/memory/store.h"

namespace laconic {
namespace {

class Ef21 : public Memory {
 public:
  explicit Ef21(const Model& model) : h_("ef21", model), mean_("ef21.mean", model) {}

  void begin(const StepInfo& info) override {
    scale_ = info.scale;
    owed_squared_ = 0;
  }

  Source source(const Slice& slice, const Floats& gradient) override {
    left_.reset(slice.count);
    return {.fresh = gradient,
            .kept = h_.kept(slice),
            .left = Floats(left_.span()),
            .b = -scale_,
            .c = 1 / scale_};
  }

  void sent(const Slice& slice, const Sent& sent) override {
    owed_squared_ += kernels::sum_of_squares(left_.view());
    add(h_, slice, [&](auto&& add_block) { sent.each_block(slice.count, add_block); });
  }

  bool reshapes() const override { return true; }
  void mean(const Slice& slice, std::size_t from, std::span<float> block) override {
    add(mean_, slice, [&](auto&& add_block) { add_block(from, block); });
    float buffer[kBlock];
    const float* sum = mean_.next(slice).load(from, block.size(), buffer);
    for (std::size_t i = 0; i < block.size(); ++i) block[i] = scale_ * sum[i];
  }

  void commit(const Tensors& tensors) override {
    h_.commit(tensors.sent);
    mean_.commit(tensors.averaged);
    owed_ = std::sqrt(owed_squared_);
  }

  // |g - h| of the last step; 0 before the first one after a load.
  double residual_norm() const override { return owed_; }
  State save() const override { return save_stores({&h_, &mean_}); }
  void load(const State& state) override {
    load_stores(state, {&h_, &mean_});
    owed_ = 0;
  }

 private:
  // next = kept + block / scale, for the blocks that `each` hands over.
  template <class Each>
  void add(Store& store, const Slice& slice, Each each) {
    const Floats kept = store.kept(slice), next = store.next(slice);
    each([&](std::size_t from, std::span<const float> block) {
      float a[kBlock], b[kBlock];
      const float* old = kept.load(from, block.size(), a);
      float* out = next.place(from, block.size(), b);
      for (std::size_t i = 0; i < block.size(); ++i) out[i] = old[i] + block[i] / scale_;
      next.store(from, block.size(), out);
    });
  }

  Store h_, mean_;
  Array<float> left_;
  float scale_ = 1;
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

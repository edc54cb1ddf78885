// What all ranks believe of each other's gradients: h, the sum of everything a rank has sent, and
// the mean of all ranks' h, the sum of all means that arrived, which every rank keeps; both at a
// rate, where they follow more slowly. Both are float32: rounding them would part them.
#pragma once

#include <algorithm>
#include <string>

#include "laconic/memory/store.h"

namespace laconic {

class Estimates {
 public:
  // Roles in a state: `role` for h, and `role`.mean.
  Estimates(const std::string& role, const Model& model)
      : h_(role, model), mean_(role + ".mean", model) {}

  void begin(const StepInfo& info) { scale_ = info.scale; }  // h is kept without the loss scale
  Floats h(const Slice& slice) { return h_.kept(slice); }

  // h += rate * what was sent.
  void sent(const Slice& slice, const Sent& sent, float rate = 1) {
    add(h_, slice, rate, [&](auto&& add_block) { sent.each_block(slice.count, add_block); });
  }

  // The mean of all h += rate * the mean of what all sent; the block becomes what the sum would be
  // at a rate of 1.
  void mean(const Slice& slice, std::size_t from, std::span<float> block, float rate = 1) {
    add(mean_, slice, rate, [&](auto&& add_block) { add_block(from, block); });
    float buffer[kBlock];
    const float* old = mean_.kept(slice).load(from, block.size(), buffer);
    for (std::size_t i = 0; i < block.size(); ++i) block[i] = scale_ * (old[i] + block[i] / scale_);
  }

  void rest(const Slice& slice) { h_.keep(slice); }

  void commit(const Tensors& tensors) {
    h_.commit(tensors.sent);
    mean_.commit(tensors.averaged);
  }

  Store& of_rank() { return h_; }
  Store& of_all() { return mean_; }
  const Store& of_rank() const { return h_; }
  const Store& of_all() const { return mean_; }

 private:
  // next = kept + rate * block / scale, for the blocks that `each` hands over.
  template <class Each>
  void add(Store& store, const Slice& slice, float rate, Each each) {
    const Floats kept = store.kept(slice), next = store.next(slice);
    each([&](std::size_t from, std::span<const float> block) {
      float a[kBlock], b[kBlock];
      const float* old = kept.load(from, block.size(), a);
      float* out = next.place(from, block.size(), b);
      for (std::size_t i = 0; i < block.size(); ++i) out[i] = old[i] + rate * (block[i] / scale_);
      next.store(from, block.size(), out);
    });
  }

  Store h_, mean_;
  float scale_ = 1;
};

}  // namespace laconic

// Where a model's tensors begin in the array of all their entries, and which of them a slice
// touches.
#pragma once

#include <algorithm>
#include <vector>

#include "laconic/layout/layout.h"

namespace laconic {

class Places {
 public:
  explicit Places(const Model& model) {
    for (const Tensor& tensor : model) begin_.push_back(begin_.back() + tensor.count());
  }

  std::size_t tensors() const { return begin_.size() - 1; }
  std::size_t entries() const { return begin_.back(); }
  std::size_t begin(std::size_t tensor) const { return begin_[tensor]; }
  std::size_t end(std::size_t tensor) const { return begin_[tensor + 1]; }
  std::size_t count(std::size_t tensor) const { return end(tensor) - begin(tensor); }

  // The tensor that has this entry.
  std::size_t tensor_at(std::size_t entry) const {
    return static_cast<std::size_t>(std::ranges::upper_bound(begin_, entry) - begin_.begin()) - 1;
  }

  // Calls use(tensor, from, count) for every tensor with entries in the slice: `count` of them,
  // from the tensor's entry `from` on.
  template <class Use>
  void each(const Slice& slice, Use use) const {
    const std::size_t last = slice.offset + slice.count;
    for (std::size_t at = slice.offset, t = at < last ? tensor_at(at) : 0; at < last; ++t) {
      const std::size_t to = std::min(last, end(t));
      if (to > at) use(t, at - begin(t), to - at);
      at = std::max(at, to);
    }
  }

 private:
  std::vector<std::size_t> begin_ = {0};
};

}  // namespace laconic

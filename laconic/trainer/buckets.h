// Tensors in the order in which backward finishes them, the last of the model first, gathered until
// they are worth sending.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "laconic/layout/layout.h"

namespace laconic::trainer {

class Buckets {
 public:
  // A bucket is full when its gradients have `bytes` or more; with 0 all tensors are one bucket. A
  // function of its arguments alone, so all ranks have the same.
  Buckets(const Model& model, std::uint64_t bytes);

  const std::vector<std::vector<std::size_t>>& all() const { return buckets_; }

  // A step begins: no tensor is ready.
  void begin();
  // This tensor's gradient is final. Calls `full` for every bucket that has all its tensors now and
  // whose forerunners had theirs: in the same order on every rank, whatever order tensors come in.
  void ready(std::size_t tensor, const std::function<void(std::span<const std::size_t>)>& full);
  // All the others are final too.
  void rest(const std::function<void(std::span<const std::size_t>)>& full);

 private:
  std::vector<std::vector<std::size_t>> buckets_;  // tensors by number
  std::vector<std::size_t> bucket_of_, missing_;   // by tensor; by bucket
  std::size_t next_ = 0;                           // the first bucket that is not full yet
};

}  // namespace laconic::trainer

// Which images a worker sees in a step: a function of seed and step alone, so a resumed run goes on
// with the same.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "laconic/base/key.h"

namespace laconic::trainer {

enum class Split {
  reshuffled,  // all images dealt anew to the workers in every epoch
  sharded,     // each worker keeps its own share
};

class Batches {
 public:
  // Throws UsageError when there are too few images for one step.
  Batches(std::size_t images, std::size_t workers, std::size_t batch, Split split,
          std::uint64_t seed);

  std::uint64_t steps_per_epoch() const { return steps_; }

  // The images of one worker in one step; the last, incomplete step of an epoch is left out. Valid
  // until the next call.
  std::span<const std::uint32_t> at(std::uint64_t step, std::size_t worker);

 private:
  void shuffle(std::uint64_t epoch);

  std::size_t workers_, batch_;
  Split split_;
  Key key_;
  std::uint64_t steps_, epoch_ = ~std::uint64_t{0};
  std::vector<std::uint32_t> dealt_, order_;
};

}  // namespace laconic::trainer

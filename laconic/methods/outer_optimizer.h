// What local steps do with the averaged change of a round: momentum over rounds, plain or
// Nesterov's.
#pragma once

#include <span>
#include <vector>

#include "laconic/memory/memory.h"
#include "laconic/recipes/outer.h"

namespace laconic {

class OuterOptimizer {
 public:
  OuterOptimizer(const Outer& options, const Model& model);

  // v = momentum v + change; x -= lr v, or x -= lr (change + momentum v) with Nesterov: of a part
  // of the model that begins with its entry `first`.
  void update(std::span<float> x, std::span<const float> change, std::size_t first = 0);

  State save() const;
  // Throws DataError unless it was saved with as much momentum or none, for this model.
  void load(const State& state);

 private:
  Outer options_;
  Model model_;
  std::vector<float> velocity_;  // empty without momentum
};

}  // namespace laconic

// Where the largest entries of either sign end, without a list of them: a sample brackets both
// cuts, and one pass counts what is above and moves what is in between aside.
#pragma once

#include "laconic/kernels/select.h"
#include "laconic/operators/stage.h"

namespace laconic {

struct Sides {
  struct Side {
    kernels::Cut cut;
    std::size_t number = 0;  // that it keeps
    double sum = 0;          // of their magnitudes, within 2^-19 of itself
    double mean() const { return number == 0 ? 0 : sum / static_cast<double>(number); }
  };
  Side positive, negative;
  std::uint32_t largest = 0;  // magnitude; the rest says nothing where it is not finite
  bool known = false;         // the sample was good enough
};

// The cuts that keep the k entries of largest magnitude on each side, or all where there are fewer.
Sides cut_sides(std::span<const float> x, std::size_t k, std::span<const float> sample,
                StageScratch& scratch);

}  // namespace laconic

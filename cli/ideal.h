// What formulas and papers say of sparse binary and ternary compression.
#pragma once

#include <optional>

#include "laconic/recipes/recipe.h"

namespace laconic::cli {

// The ratio by formula: positions of a support drawn with probability p in the best Rice code, and
// for stc a sign each; no means, no headers, nothing rounded up.
struct Ideal {
  double density = 0;
  int rice_bits = 0;             // b
  double bits_per_position = 0;  // E
  double ratio = 0;
};

// Nothing for operators other than sbc and stc alone.
std::optional<Ideal> ideal_of(const Operator& op, std::uint64_t delay);

// The ratio that a paper reports of a built-in recipe on ResNet-50.
std::optional<double> ratio_in_paper(const Recipe& recipe);

}  // namespace laconic::cli

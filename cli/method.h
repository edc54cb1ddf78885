// Methods to audit: recipes, and how often they send.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "laconic/exchange/recipe.h"

namespace laconic::cli {

// A method as it is audited: a message is sent once in `delay` steps.
struct Method {
  Recipe recipe;
  std::uint64_t delay = 1;
  std::optional<double> paper = {};  // the ratio on ResNet-50 that the paper reports
};

// The three of sparse binary compression: sbc1, sbc2, sbc3.
const std::vector<Method>& sbc_methods();

// One of these, or a recipe by its name or file, which sends in every step.
Method find_method(const std::string& name);

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

}  // namespace laconic::cli

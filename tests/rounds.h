// Recipes whose rounds of local steps are short enough for tests.
#pragma once

#include <algorithm>

#include "laconic/recipes/recipe.h"

namespace laconic::testing {

// At most so many steps, 4 or more, to a round; fragments and overlap in proportion.
inline void shorten_rounds(Recipe& recipe, std::uint64_t delay) {
  if (recipe.delay <= delay) return;
  recipe.delay = delay;
  recipe.fragments = std::min<std::uint64_t>(recipe.fragments, 2);
  recipe.overlap = std::min<std::uint64_t>(recipe.overlap, 1);
}

}  // namespace laconic::testing

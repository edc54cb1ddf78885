// Which tensors of a model are exchanged together, where its fragments take turns.
#pragma once

#include <vector>

#include "laconic/recipes/recipe.h"

namespace laconic {

// Fragments of about the same number of entries: what a layout cannot part stays together, and
// goes, largest first, to the smallest fragment so far. (Douillard et al. deal layers out in turn;
// by turns of tensors, weights and biases would end up in fragments of their own.) Each has its
// tensors in ascending order, a function of recipe and model alone. Throws UsageError where there
// are fewer pieces than fragments.
using Fragments = std::vector<std::vector<std::size_t>>;
Fragments fragments_of(const Recipe& recipe, const Model& model);

}  // namespace laconic

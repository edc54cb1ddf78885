// Levels of a grid, coded by how large entries of their row and column are.
#pragma once

#include "laconic/operators/sweeps.h"

namespace laconic {

// What `grid` sends, in other bytes.
std::shared_ptr<const Quantiser> in_contexts(std::shared_ptr<const SweepQuantiser> grid);

}  // namespace laconic

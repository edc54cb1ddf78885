// A made-up gradient for demonstrations and measurements.
#pragma once

#include <vector>

#include "laconic/base/key.h"
#include "laconic/base/pool.h"

namespace laconic::cli {

// Independent normal entries of mean 0 and standard deviation 0.01; the same for the same count and
// key, whatever the pool.
std::vector<float> made_up_gradient(std::size_t count, Pool& pool, Key key = Key(1));

}  // namespace laconic::cli

// A made-up gradient for demonstrations and measurements.
#pragma once

#include <string>
#include <vector>

#include "laconic/base/key.h"
#include "laconic/base/pool.h"

namespace laconic::cli {

// Independent normal entries of mean 0 and standard deviation 0.01; the same for the same count and
// key, whatever the pool.
std::vector<float> made_up_gradient(std::size_t count, Pool& pool, Key key = Key(1));

// Kinds of input that a measurement may ask for: `normal` as above, and what makes loops slow that
// were fitted to it.
//   equal     all entries 0.01
//   zeros     one entry of a thousand is not zero
//   sorted    the normal ones in ascending order
//   spike     one entry of 1e30 among the normal ones
//   denormal  the normal ones times 1e-38
//   mixed     the normal ones times 2^-100, 2^-50, 1, 2^50 and 2^100 by turns
const std::vector<std::string>& input_names();

// Entries of such a kind.
std::vector<float> made_up_input(const std::string& name, std::size_t count, Pool& pool);

}  // namespace laconic::cli

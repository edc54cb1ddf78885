// Choosing entries by magnitude. The same positions on every instruction set, always ascending.
#pragma once

#include <span>

#include "laconic/base/array.h"

namespace laconic::kernels {

// Which entries count, and as what: |x|, or only entries of one sign. Zeros never do.
enum class Side { both, positive, negative };

// Appends the positions of entries whose magnitude (the float's bits without the sign) is at least
// `magnitude`, which is at least 1.
void at_least(std::span<const float> x, std::uint32_t magnitude, Side side,
              Array<std::uint32_t>& positions);

// Appends the positions of the k largest magnitudes, the lowest position first among equals. Fewer
// when fewer entries count. Exact. `spare` is working memory.
void largest(std::span<const float> x, std::size_t k, Side side, Array<std::uint32_t>& positions,
             Array<std::uint32_t>& spare);

// out[j] = x[positions[j]] * factor
void gather(std::span<const float> x, std::span<const std::uint32_t> positions, float factor,
            float* out);

}  // namespace laconic::kernels

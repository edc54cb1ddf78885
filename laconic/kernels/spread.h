// What rounding to multiples of a step would do to entries, in a pass that neither divides nor adds
// in double: near enough to decide by, with a margin for its rounding.
#pragma once

#include <span>

namespace laconic::kernels {

// Sums over entries, with y = |x[i]| / step, k = floor(y) and f = y - k: of f(1 - f), and of
// k(k + 1).
struct Spacing {
  double variance = 0, whole = 0;
};

// Terms are in float; y is rounded twice, and four terms are added before they go to double. NaN or
// Inf where some y is not finite. The same on every instruction set.
Spacing about_spread(std::span<const float> x, float step);

}  // namespace laconic::kernels

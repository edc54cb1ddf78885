// Clipping at so many standard deviations, as TernGrad does (Wen et al., arXiv 1705.07878, section
// 3.2): in the operator, and in the exchange where ranks share its scale.
#pragma once

#include "laconic/operators/norms.h"

namespace laconic {

// What `count` entries are clipped at: so many of their standard deviations, but no more than the
// largest magnitude. Entries that are all equal, up to the rounding of double, have no deviation
// and are not clipped: a tensor of one entry would else never be sent.
inline float clipped_norm(const kernels::Measures& all, std::size_t count, double deviations) {
  const double mean = all.sum / static_cast<double>(count);
  const double square = all.squares / static_cast<double>(count);
  const double variance = square - mean * mean;
  if (variance <= 0x1p-40 * square) return max_norm(all);
  return std::min(max_norm(all), to_norm(deviations * std::sqrt(variance)));
}

}  // namespace laconic

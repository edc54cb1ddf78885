// Mixing a gradient with what memory keeps, leaving the mixture behind and finding its large
// entries, all in one pass.
#pragma once

#include "laconic/base/array.h"

namespace laconic::kernels {

// Least magnitudes that count, as bits and at least 1: of entries above 0, and of those below.
struct Bounds {
  std::uint32_t above = 1, below = 1;
};

// x[i] = a * fresh[i] + b * kept[i]; a * fresh[i] where `kept` is null.
struct Mixture {
  const float* fresh;
  const float* kept = nullptr;
  float a = 1, b = 1;

  float at(std::size_t i) const { return kept ? a * fresh[i] + b * kept[i] : a * fresh[i]; }
};

// to[i] = c * x[i], unless `to` is null; past the cache if `streamed`: other threads see it after
// end_stream. Shares no entry with what x is made of.
struct Leaving {
  float* to = nullptr;
  float c = 1;
  bool streamed = false;
};

// Appends position, counted from `base`, and value of every entry scale * x[i] that reaches the
// bounds, and leaves x. Returns the largest magnitude of all these entries; NaN counts as larger
// than Inf.
std::uint32_t collect(const Mixture& x, std::size_t count, const Leaving& left, float scale,
                      Bounds bounds, std::uint32_t base, Array<std::uint32_t>& positions,
                      Array<float>& values);

}  // namespace laconic::kernels

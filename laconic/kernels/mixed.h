// A stretch of what is encoded with feedback, for kernels that do all of it in one sweep: mixed,
// encoded, and what is left written while everything is in registers.
#pragma once

#include <cstddef>

#include "laconic/kernels/axpy.h"

namespace laconic::kernels {

// left[i] = c * (x[i] - what receivers decode).
struct Mixed {
  std::size_t count = 0;
  const float* fresh = nullptr;
  const float* kept = nullptr;
  float a = 1, b = 1, c = 1;
  float* left = nullptr;  // shares no entry with the others
  // Whether `left` is written past the cache: see kernels/stream.h. It then begins at a multiple of
  // 16 bytes, and somebody calls end_stream.
  bool streams = false;

  // x[i] = a * fresh[i] + b * kept[i], in float in this order.
  void x(float* to) const { mix(a, fresh, b, kept, {to, count}); }
};

}  // namespace laconic::kernels

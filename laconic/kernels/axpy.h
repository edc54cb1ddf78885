// Plain array arithmetic. These loops are bound by memory: the compiler's own vector code is as
// fast as any.
#pragma once

#include <cstddef>
#include <span>

namespace laconic::kernels {

// y[i] += weight * x[i]
inline void add_scaled(const float* __restrict x, float weight, std::span<float> y) {
  float* __restrict out = y.data();
  for (std::size_t i = 0; i < y.size(); ++i) out[i] += weight * x[i];
}

// out[i] = c * x[i]; out may be x.
inline void scale(float c, const float* x, std::span<float> out) {
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = c * x[i];
}

// out[i] = a[i] + b[i]
inline void add(std::span<const float> a, const float* __restrict b, float* __restrict out) {
  for (std::size_t i = 0; i < a.size(); ++i) out[i] = a[i] + b[i];
}

}  // namespace laconic::kernels

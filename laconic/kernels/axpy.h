// Plain array arithmetic. These loops are bound by memory: the compiler's own vector code is as
// fast as any.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <span>

namespace laconic::kernels {

// y[i] += weight * x[i]
inline void add_scaled(const float* __restrict x, float weight, std::span<float> y) {
  float* __restrict out = y.data();
  for (std::size_t i = 0; i < y.size(); ++i) out[i] += weight * x[i];
}

// Calls use(floats, from) for pieces of an array of floats at any address, each through an aligned
// copy that stays in the first-level cache.
template <class Use>
void in_aligned(const std::uint8_t* bytes, std::size_t count, Use use) {
  float piece[1024];
  for (std::size_t from = 0; from < count; from += std::size(piece)) {
    const std::size_t part = std::min(std::size(piece), count - from);
    std::memcpy(piece, bytes + from * sizeof(float), part * sizeof(float));
    use(std::span<const float>(piece, part), from);
  }
}

// y[i] += weight * the i-th of floats at any address.
inline void add_scaled(const std::uint8_t* bytes, float weight, std::span<float> y) {
  in_aligned(bytes, y.size(), [&](std::span<const float> x, std::size_t from) {
    add_scaled(x.data(), weight, y.subspan(from, x.size()));
  });
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

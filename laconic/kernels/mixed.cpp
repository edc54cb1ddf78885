// Mixing and leaving as sweeps of their own. Asking for what is read a thousand entries later, and
// storing past the cache without a copy in between, is worth a quarter of their time.
#include "laconic/kernels/mixed.h"

#include <algorithm>
#include <cstdint>

#include "laconic/kernels/stream.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "laconic/kernels/mixed.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "laconic/kernels/mixed-inl.h"

HWY_BEFORE_NAMESPACE();
namespace laconic::kernels::HWY_NAMESPACE {

void mix_run(float a, const float* x, float b, const float* y, std::size_t count, float* out) {
  const F32 d;
  const auto by_a = hn::Set(d, a), by_b = hn::Set(d, b);
  const auto one = [&](std::size_t i) HWY_ATTR {
    hn::StoreU(hn::Add(hn::Mul(by_a, hn::LoadU(d, x + i)), hn::Mul(by_b, hn::LoadU(d, y + i))), d,
               out + i);
  };
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + 16 <= count; i += 16) {
    fetch_ahead(x + i + kReadAhead);
    fetch_ahead(y + i + kReadAhead);
    for (std::size_t at = i; at < i + 16; at += lanes) one(at);
  }
  for (; i < count; ++i) out[i] = a * x[i] + b * y[i];
}

// `left` begins at a multiple of 16 bytes where it streams.
template <class Left>
HWY_INLINE std::size_t leave_vectors(float c, const float* x, const float* decoded,
                                     std::size_t count, float* left) {
  const F32 d;
  const auto by = hn::Set(d, c);
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  Left to(left);
  for (; i + lanes <= count; i += lanes)
    to.put(i, hn::Mul(by, hn::Sub(hn::LoadU(d, x + i), hn::LoadU(d, decoded + i))));
  if (i > 0) to.end(i);
  return i;
}

void leave_run(float c, const float* x, const float* decoded, std::size_t count, bool streams,
               float* left) {
  const std::size_t past = reinterpret_cast<std::uintptr_t>(left) / sizeof(float) % 4;
  std::size_t i = streams && past > 0 ? std::min<std::size_t>(count, 4 - past) : 0;
  for (std::size_t j = 0; j < i; ++j) left[j] = c * (x[j] - decoded[j]);
  i += streams ? leave_vectors<Streamed>(c, x + i, decoded + i, count - i, left + i)
               : leave_vectors<Cached>(c, x + i, decoded + i, count - i, left + i);
  for (; i < count; ++i) left[i] = c * (x[i] - decoded[i]);
}

}  // namespace laconic::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace laconic::kernels {
namespace {

HWY_EXPORT(mix_run);
HWY_EXPORT(leave_run);

}  // namespace

void mix(float a, const float* x, float b, const float* y, std::span<float> out) {
  HWY_DYNAMIC_DISPATCH(mix_run)(a, x, b, y, out.size(), out.data());
}

void leave(float c, const float* x, const float* decoded, std::size_t count, bool streams,
           float* left) {
  HWY_DYNAMIC_DISPATCH(leave_run)(c, x, decoded, count, streams, left);
}

}  // namespace laconic::kernels
#endif  // HWY_ONCE

// Non-temporal stores.
#include "laconic/kernels/stream.h"

#include <algorithm>
#include <cstdint>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "laconic/kernels/stream.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace laconic::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Vectors at aligned addresses; what stands before and after them as usual.
void stream_run(const float* from, std::size_t count, float* to) {
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d), bytes = lanes * sizeof(float);
  const std::size_t past = reinterpret_cast<std::uintptr_t>(to) % bytes;
  std::size_t i = std::min(count, past == 0 ? 0 : (bytes - past) / sizeof(float));
  std::copy_n(from, i, to);
  for (; i + lanes <= count; i += lanes) hn::Stream(hn::LoadU(d, from + i), d, to + i);
  std::copy(from + i, from + count, to + i);
}

}  // namespace laconic::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace laconic::kernels {
namespace {

HWY_EXPORT(stream_run);

}  // namespace

void stream_on(const float* from, std::size_t count, float* to) {
  HWY_DYNAMIC_DISPATCH(stream_run)(from, count, to);
}

void stream(const float* from, std::size_t count, float* to) {
  stream_on(from, count, to);
  end_stream();
}

void end_stream() { hwy::FlushStream(); }

}  // namespace laconic::kernels
#endif  // HWY_ONCE

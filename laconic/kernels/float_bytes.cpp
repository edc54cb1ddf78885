// Vectors of bytes taken for floats: through aligned copies both took a third longer.
#include "laconic/kernels/float_bytes.h"

#include <cmath>

#include "laconic/kernels/reduce.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "laconic/kernels/float_bytes.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "laconic/kernels/rounding-inl.h"
#include "laconic/kernels/stream.h"

HWY_BEFORE_NAMESPACE();
namespace laconic::kernels::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR
HWY_INLINE Values floats_at(const std::uint8_t* bytes) { return set(load<float>(bytes)); }
#else
HWY_INLINE Values floats_at(const std::uint8_t* bytes) {
  return hn::BitCast(F32(), hn::LoadU(hn::Repartition<std::uint8_t, F32>(), bytes));
}
#endif

bool finite_run(const std::uint8_t* bytes, std::size_t count) {
  const U32 d;
  const Word mask = hn::Set(d, 0x7fffffffU);
  Word largest = hn::Zero(d);
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    if (i % 16 == 0) fetch_ahead(bytes + 4 * (i + kReadAhead));
    largest = hn::Max(largest, hn::And(hn::BitCast(d, floats_at(bytes + 4 * i)), mask));
  }
  return hn::GetLane(hn::MaxOfLanes(d, largest)) < kInfinity;
}

void add_floats_run(const std::uint8_t* bytes, std::size_t count, float weight, float* y) {
  const Values w = set(weight);
  for (std::size_t i = 0; i < count; i += hn::Lanes(U32())) {
    if (i % 16 == 0) {
      fetch_ahead(bytes + 4 * (i + kReadAhead));
      hwy::Prefetch(y + i + kAddAhead);
    }
    add_to(y + i, w, floats_at(bytes + 4 * i));
  }
}

}  // namespace laconic::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace laconic::kernels {
namespace {

HWY_EXPORT(finite_run);
HWY_EXPORT(add_floats_run);

}  // namespace

bool finite_floats(ByteView bytes) {
  const std::size_t count = bytes.size() / sizeof(float), whole = count / kGroup * kGroup;
  bool finite = HWY_DYNAMIC_DISPATCH(finite_run)(bytes.data(), whole);
  for (std::size_t i = whole; i < count; ++i)
    finite &= std::isfinite(load<float>(bytes.data() + sizeof(float) * i));
  return finite;
}

void add_floats(const std::uint8_t* bytes, float weight, std::span<float> y) {
  const std::size_t whole = y.size() / kGroup * kGroup;
  HWY_DYNAMIC_DISPATCH(add_floats_run)(bytes, whole, weight, y.data());
  for (std::size_t i = whole; i < y.size(); ++i)
    y[i] += weight * load<float>(bytes + sizeof(float) * i);
}

}  // namespace laconic::kernels
#endif  // HWY_ONCE

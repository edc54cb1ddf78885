// Rounding on vector lanes, for levels and codes. Only operations whose result is fixed to the bit
// are used: add, subtract and multiply, minimum and maximum, conversions that lie in range, and
// integers. Included once per instruction set, after hwy/foreach_target.h: hence the guard that
// toggles.
#ifndef LACONIC_KERNELS_ROUNDING_ONCE
#define LACONIC_KERNELS_ROUNDING_ONCE

#include <algorithm>
#include <span>

#include "laconic/base/key.h"
#include "laconic/kernels/groups.h"

namespace laconic::kernels {

// Calls run(from, count, low half of the position, draws of the upper half) for stretches whose
// positions have one upper half: draws depend on it through the key.
template <class Run>
void in_draws(std::size_t count, const Draws& draws, std::uint64_t first, Run run) {
  for (std::size_t from = 0; from < count;) {
    const std::uint64_t position = first + from;
    const std::uint64_t room = (1ULL << 32) - (position & 0xffffffffU);
    const auto part = static_cast<std::size_t>(std::min<std::uint64_t>(count - from, room));
    run(from, part, static_cast<std::uint32_t>(position), draws.fork(position >> 32));
    from += part;
  }
}

// How far ahead of its use an array that is added to is asked for: the processor's own guesses end
// with a page. Loops that do little else are faster by these guesses alone.
inline constexpr std::size_t kAddAhead = 512;

}  // namespace laconic::kernels
#endif  // LACONIC_KERNELS_ROUNDING_ONCE

#if defined(LACONIC_KERNELS_ROUNDING_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef LACONIC_KERNELS_ROUNDING_INL_H
#undef LACONIC_KERNELS_ROUNDING_INL_H
#else
#define LACONIC_KERNELS_ROUNDING_INL_H
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "laconic/kernels/natural-inl.h"

HWY_BEFORE_NAMESPACE();
namespace laconic::kernels::HWY_NAMESPACE {

using Values = hn::Vec<F32>;
using Ints = hn::Vec<I32>;

HWY_INLINE Values set(float value) { return hn::Set(F32(), value); }

// (draw >> 8) / 2^24, exactly, and y plus that: the product has no digits to lose, so that it may
// be fused with the sum.
HWY_INLINE Values whole_of(Word draw) {
  return hn::ConvertTo(F32(), hn::BitCast(I32(), hn::ShiftRight<8>(draw)));
}
HWY_INLINE Values uniform(Word draw) { return hn::Mul(whole_of(draw), set(0x1p-24F)); }
HWY_INLINE Values add_uniform(Values y, Word draw) {
  return hn::MulAdd(whole_of(draw), set(0x1p-24F), y);
}

// y, and what is added before the fraction is cut off, a vector a call, for entries of these signs.
template <class Drawn>
class AtRandom {
 public:
  HWY_INLINE explicit AtRandom(const Drawn& draws) : draws_(draws) {}
  HWY_INLINE Values add(Values y, Values x) {
    return add_uniform(y, draws_.next(hn::BitCast(U32(), x)));
  }

 private:
  Drawn draws_;
};
struct ToNearest {
  HWY_INLINE Values add(Values y, Values) const { return hn::Add(y, set(0x1.fffffep-2F)); }
};

// The whole part of numbers within int32. Highway's own conversion also mends what lies beyond,
// with four more operations: a fifth of the encoder's time.
#if HWY_TARGET == HWY_AVX2
HWY_INLINE Ints whole_part(Values v) { return Ints{_mm256_cvttps_epi32(v.raw)}; }
#elif HWY_TARGET == HWY_AVX3
HWY_INLINE Ints whole_part(Values v) { return Ints{_mm512_cvttps_epi32(v.raw)}; }
#else
HWY_INLINE Ints whole_part(Values v) { return hn::ConvertTo(I32(), v); }
#endif

// Four vectors of whole numbers as bytes, signed ones or 0 to 255.
HWY_INLINE void store_signed(Ints a, Ints b, Ints c, Ints d, std::int8_t* to) {
  const U32 u;
  store_signed({hn::BitCast(u, a), hn::BitCast(u, b), hn::BitCast(u, c), hn::BitCast(u, d)}, to);
}
HWY_INLINE void store_unsigned(Ints a, Ints b, Ints c, Ints d, std::uint8_t* to) {
  const U32 u;
  store_bytes({hn::BitCast(u, a), hn::BitCast(u, b), hn::BitCast(u, c), hn::BitCast(u, d)}, to);
}

HWY_INLINE void add_to(float* y, Values weight, Values value) {
  hn::StoreU(hn::Add(hn::LoadU(F32(), y), hn::Mul(weight, value)), F32(), y);
}

}  // namespace laconic::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // the guard that toggles

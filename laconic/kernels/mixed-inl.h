// Mixed entries on vector lanes, and what is left of them. Included once per instruction set, after
// hwy/foreach_target.h: hence the guard that toggles.
#ifndef LACONIC_KERNELS_MIXED_ONCE
#define LACONIC_KERNELS_MIXED_ONCE

#include "laconic/kernels/groups.h"
#include "laconic/kernels/mixed.h"
#include "laconic/kernels/stream.h"

namespace laconic::kernels {

// Calls run(from, block) for whole groups of a block and, on padded copies, for what remains.
template <class Run, class... Arrays>
void in_mixed_groups(const Mixed& block, Run run, Arrays... arrays) {
  in_groups(
      block.count,
      [&](std::size_t from, std::size_t count, const float* fresh, const float* kept, float* left,
          auto... pointers) {
        Mixed some = block;
        some.count = count;
        some.fresh = fresh;
        some.kept = kept;
        some.left = left;
        some.streams = block.streams && from + count <= block.count;
        run(from, some, pointers...);
      },
      In<float>{block.fresh}, In<float>{block.kept}, Out<float>{block.left}, arrays...);
}

}  // namespace laconic::kernels
#endif  // LACONIC_KERNELS_MIXED_ONCE

#if defined(LACONIC_KERNELS_MIXED_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef LACONIC_KERNELS_MIXED_INL_H
#undef LACONIC_KERNELS_MIXED_INL_H
#else
#define LACONIC_KERNELS_MIXED_INL_H
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "laconic/kernels/natural-inl.h"

HWY_BEFORE_NAMESPACE();
namespace laconic::kernels::HWY_NAMESPACE {

// Past the cache, at a multiple of 16 bytes: where arrays begin, whatever a vector's width.
HWY_INLINE void stream_to(hn::Vec<F32> v, float* to) {
#if HWY_TARGET == HWY_AVX2
  _mm_stream_ps(to, _mm256_castps256_ps128(v.raw));
  _mm_stream_ps(to + 4, _mm256_extractf128_ps(v.raw, 1));
#elif HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
  _mm_stream_ps(to, _mm512_castps512_ps128(v.raw));
  _mm_stream_ps(to + 4, _mm512_extractf32x4_ps(v.raw, 1));
  _mm_stream_ps(to + 8, _mm512_extractf32x4_ps(v.raw, 2));
  _mm_stream_ps(to + 12, _mm512_extractf32x4_ps(v.raw, 3));
#else
  hn::Stream(v, F32(), to);
#endif
}

// A vector of x, and what becomes of it. How `left` is written is known when a loop is compiled.
template <bool kStreams>
class MixedLanes {
 public:
  HWY_INLINE explicit MixedLanes(const Mixed& block)
      : fresh_(block.fresh),
        kept_(block.kept),
        left_(block.left),
        a_(hn::Set(F32(), block.a)),
        b_(hn::Set(F32(), block.b)),
        c_(hn::Set(F32(), block.c)) {}

  // Asks for the line that is read after a thousand entries.
  HWY_INLINE void ahead(std::size_t i) const {
    fetch_ahead(fresh_ + i + kReadAhead);
    fetch_ahead(kept_ + i + kReadAhead);
  }
  HWY_INLINE hn::Vec<F32> x(std::size_t i) const {
    return hn::Add(hn::Mul(a_, hn::LoadU(F32(), fresh_ + i)),
                   hn::Mul(b_, hn::LoadU(F32(), kept_ + i)));
  }
  HWY_INLINE void leave(std::size_t i, hn::Vec<F32> x, hn::Vec<F32> decoded) const {
    const auto left = hn::Mul(c_, hn::Sub(x, decoded));
    if (kStreams)
      stream_to(left, left_ + i);
    else
      hn::StoreU(left, F32(), left_ + i);
  }

 private:
  const float *fresh_, *kept_;
  float* left_;
  hn::Vec<F32> a_, b_, c_;
};

}  // namespace laconic::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // the guard that toggles

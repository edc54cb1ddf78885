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

#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL

// Writes vectors one after the other past the cache, a line at a time: four parts of a line, stored
// on their own, take twice as long. Lines that are not written whole go through the cache.
class Streamed {
 public:
  HWY_INLINE explicit Streamed(float* to)
      : past_(static_cast<int>(reinterpret_cast<std::uintptr_t>(to) % 64 / sizeof(float))),
        lines_(to - past_),
        order_(
            _mm512_add_epi32(_mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0),
                             _mm512_set1_epi32(16 - past_))),
        last_(_mm512_setzero_ps()) {}
  HWY_INLINE void put(std::size_t i, hn::Vec<F32> v) {
    const __m512 line = _mm512_permutex2var_ps(last_, order_, v.raw);
    if (i > 0 || past_ == 0)
      _mm512_stream_ps(lines_ + i, line);
    else
      _mm512_mask_storeu_ps(lines_, static_cast<__mmask16>(0xffffU << past_), line);
    last_ = v.raw;
  }
  HWY_INLINE void end(std::size_t count) const {
    _mm512_mask_storeu_ps(lines_ + count, static_cast<__mmask16>((1U << past_) - 1),
                          _mm512_permutex2var_ps(last_, order_, last_));
  }

 private:
  int past_;
  float* lines_;
  __m512i order_;
  __m512 last_;
};

#else

class Streamed {
 public:
  HWY_INLINE explicit Streamed(float* to) : to_(to) {}
  HWY_INLINE void put(std::size_t i, hn::Vec<F32> v) { stream_to(v, to_ + i); }
  HWY_INLINE void end(std::size_t) const {}

 private:
  float* to_;
};

#endif

// Through the cache.
class Cached {
 public:
  HWY_INLINE explicit Cached(float* to) : to_(to) {}
  HWY_INLINE void put(std::size_t i, hn::Vec<F32> v) { hn::StoreU(v, F32(), to_ + i); }
  HWY_INLINE void end(std::size_t) const {}

 private:
  float* to_;
};

// Nothing is written.
class Nowhere {
 public:
  HWY_INLINE explicit Nowhere(float*) {}
  HWY_INLINE void put(std::size_t, hn::Vec<F32>) const {}
  HWY_INLINE void end(std::size_t) const {}
};

// Vectors of x, and what becomes of them, in order; `end` comes after the last. How `left` is
// written is known when a loop is compiled.
template <class Left>
class MixedLanes {
 public:
  static constexpr bool kLeaves = true;

  HWY_INLINE explicit MixedLanes(const Mixed& block)
      : fresh_(block.fresh),
        kept_(block.kept),
        next_fresh_(block.next_fresh ? block.next_fresh : block.fresh + kReadAhead),
        next_kept_(block.next_fresh ? block.next_kept : block.kept + kReadAhead),
        left_(block.left),
        a_(hn::Set(F32(), block.a)),
        b_(hn::Set(F32(), block.b)),
        c_(hn::Set(F32(), block.c)) {}

  // Asks for the lines that are read a thousand entries later, or in the next block.
  HWY_INLINE void ahead(std::size_t i) const {
    fetch_ahead(next_fresh_ + i);
    fetch_ahead(next_kept_ + i);
  }
  HWY_INLINE hn::Vec<F32> x(std::size_t i) const {
    return hn::Add(hn::Mul(a_, hn::LoadU(F32(), fresh_ + i)),
                   hn::Mul(b_, hn::LoadU(F32(), kept_ + i)));
  }
  HWY_INLINE void leave(std::size_t i, hn::Vec<F32> x, hn::Vec<F32> decoded) {
    left_.put(i, hn::Mul(c_, hn::Sub(x, decoded)));
  }
  // Or x itself, to be mixed no more.
  HWY_INLINE void keep(std::size_t i, hn::Vec<F32> x) { left_.put(i, x); }
  HWY_INLINE void end(std::size_t count) const { left_.end(count); }

 private:
  const float *fresh_, *kept_, *next_fresh_, *next_kept_;
  Left left_;
  hn::Vec<F32> a_, b_, c_;
};

// The same for entries as they lie, of which nothing is left.
class PlainLanes {
 public:
  static constexpr bool kLeaves = false;

  HWY_INLINE explicit PlainLanes(const float* x, std::size_t ahead = kReadAhead)
      : x_(x), next_(x + ahead) {}

  HWY_INLINE void ahead(std::size_t i) const { hwy::Prefetch(next_ + i); }
  HWY_INLINE hn::Vec<F32> x(std::size_t i) const { return hn::LoadU(F32(), x_ + i); }
  HWY_INLINE void leave(std::size_t, hn::Vec<F32>, hn::Vec<F32>) const {}
  HWY_INLINE void end(std::size_t) const {}

 private:
  const float *x_, *next_;
};

// Asks for what is read after these `count` entries.
template <class Entries>
HWY_INLINE void all_ahead(const Entries& entries, std::size_t i, std::size_t count) {
  for (std::size_t at = i; at < i + count; at += 16) entries.ahead(at);
}

// run(entries) for the entries of a block.
template <class Run>
HWY_INLINE auto with_mixed(const Mixed& block, Run run) {
  return block.streams ? run(MixedLanes<Streamed>(block)) : run(MixedLanes<Cached>(block));
}

}  // namespace laconic::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // the guard that toggles

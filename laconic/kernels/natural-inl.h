// What both forms of natural compression have in common. Included once per instruction set, after
// hwy/foreach_target.h: hence the guard that toggles.
#ifndef LACONIC_KERNELS_NATURAL_ONCE
#define LACONIC_KERNELS_NATURAL_ONCE

#include <algorithm>

#include "laconic/base/key.h"
#include "laconic/kernels/groups.h"

namespace laconic::kernels {

// Draws of a group whose positions cross a multiple of 2^32, made one by one: that is one group in
// 2^26.
struct GroupDraws {
  std::uint32_t values[kGroup] = {};
  bool stratified;
  GroupDraws(const Draws& draws, std::uint64_t first) : stratified(draws.stratified()) {
    for (std::size_t i = 0; i < kGroup; ++i) values[i] = draws.bits32(first + i);
  }
};

// Calls hashed(from, count, low word of the position, draws) for runs of whole groups, or
// given(from, draws) for a group whose positions cross a multiple of 2^32.
template <class HashedRun, class GivenGroup>
void for_draws(std::size_t count, const Draws& draws, std::uint64_t first, HashedRun hashed,
               GivenGroup given) {
  for (std::size_t from = 0; from < count;) {
    const std::uint64_t position = first + from;
    const std::uint64_t room = ((1ULL << 32) - (position & 0xffffffffU)) / kGroup * kGroup;
    if (room == 0) {
      given(from, GroupDraws(draws, position));
      from += kGroup;
      continue;
    }
    const auto run = static_cast<std::size_t>(std::min<std::uint64_t>(count - from, room));
    hashed(from, run, static_cast<std::uint32_t>(position), draws.fork(position >> 32));
    from += run;
  }
}

}  // namespace laconic::kernels

#endif  // LACONIC_KERNELS_NATURAL_ONCE

#if defined(LACONIC_KERNELS_NATURAL_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef LACONIC_KERNELS_NATURAL_INL_H
#undef LACONIC_KERNELS_NATURAL_INL_H
#else
#define LACONIC_KERNELS_NATURAL_INL_H
#endif

#include <hwy/highway.h>

#include "laconic/kernels/draws-inl.h"

HWY_BEFORE_NAMESPACE();
namespace laconic::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using U32 = Hashed::U32;  // four vectors are at most a group
using I32 = hn::RebindToSigned<U32>;
using F32 = hn::RebindToFloat<U32>;
using Bytes = hn::Rebind<std::uint8_t, U32>;
using Word = hn::Vec<U32>;

// What is added to the magnitudes before the shift, a vector a call: Hashed from the position or
// Stratified (draws-inl.h), constant, or given.
struct Constant {
  std::uint32_t value;
  HWY_INLINE Word next(Word) const { return hn::Set(U32(), value); }
  static HWY_INLINE Word mantissa(Word draw) { return draw; }
};
struct Given {
  const std::uint32_t* values;
  bool stratified;
  HWY_INLINE Word next(Word bits) {
    const Word next = hn::LoadU(U32(), values);
    values += hn::Lanes(U32());
    if (!stratified) return next;
    return hn::Xor(next, hn::BitCast(U32(), hn::BroadcastSignBit(hn::BitCast(I32(), bits))));
  }
  HWY_INLINE Word mantissa(Word draw) const {
    return stratified ? Stratified::mantissa(draw) : Hashed::mantissa(draw);
  }
};

HWY_INLINE Word load_bits(const float* x) { return hn::BitCast(U32(), hn::LoadU(F32(), x)); }

// Four vectors at a time: what belongs to entries i, i + lanes, i + 2 lanes, i + 3 lanes and on.
struct Four {
  Word a, b, c, d;
};

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3

// Packing works in parts of 128 bits; this puts the words of four bytes back in order. Packing all
// four before storing is worth a quarter of the encoder's time to AVX2, and an eighth to AVX-512.
#if HWY_TARGET == HWY_AVX2
HWY_INLINE __m256i in_order(__m256i packed) {
  return _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}
// Lanes below 256 as bytes, and from -128 to 127.
HWY_INLINE __m256i pack_bytes(const Four& v) {
  return in_order(_mm256_packus_epi16(_mm256_packus_epi32(v.a.raw, v.b.raw),
                                      _mm256_packus_epi32(v.c.raw, v.d.raw)));
}
HWY_INLINE __m256i pack_signed(const Four& v) {
  return in_order(_mm256_packs_epi16(_mm256_packs_epi32(v.a.raw, v.b.raw),
                                     _mm256_packs_epi32(v.c.raw, v.d.raw)));
}
HWY_INLINE void store_packed(__m256i v, void* to) {
  _mm256_storeu_si256(static_cast<__m256i*>(to), v);
}
#else
HWY_INLINE __m512i in_order(__m512i packed) {
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  return _mm512_permutexvar_epi32(order, packed);
}
HWY_INLINE __m512i pack_bytes(const Four& v) {
  return in_order(_mm512_packus_epi16(_mm512_packus_epi32(v.a.raw, v.b.raw),
                                      _mm512_packus_epi32(v.c.raw, v.d.raw)));
}
HWY_INLINE __m512i pack_signed(const Four& v) {
  return in_order(_mm512_packs_epi16(_mm512_packs_epi32(v.a.raw, v.b.raw),
                                     _mm512_packs_epi32(v.c.raw, v.d.raw)));
}
HWY_INLINE void store_packed(__m512i v, void* to) { _mm512_storeu_si512(to, v); }
#endif

HWY_INLINE void store_bytes(const Four& v, std::uint8_t* to) { store_packed(pack_bytes(v), to); }
HWY_INLINE void store_signed(const Four& v, std::int8_t* to) { store_packed(pack_signed(v), to); }

#else

template <class Byte>
HWY_INLINE void store_each(const Four& v, Byte* to) {
  const hn::Rebind<Byte, U32> bytes;
  const std::size_t lanes = hn::Lanes(U32());
  const auto one = [&](Word word, std::size_t at) HWY_ATTR {
    hn::StoreU(hn::DemoteTo(bytes, hn::BitCast(I32(), word)), bytes, to + at * lanes);
  };
  one(v.a, 0);
  one(v.b, 1);
  one(v.c, 2);
  one(v.d, 3);
}
HWY_INLINE void store_bytes(const Four& v, std::uint8_t* to) { store_each(v, to); }
HWY_INLINE void store_signed(const Four& v, std::int8_t* to) { store_each(v, to); }

#endif

HWY_INLINE Four load_four(const float* x) {
  const std::size_t lanes = hn::Lanes(U32());
  return {load_bits(x), load_bits(x + lanes), load_bits(x + 2 * lanes), load_bits(x + 3 * lanes)};
}

}  // namespace laconic::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // LACONIC_KERNELS_NATURAL_INL_H

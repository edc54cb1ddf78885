// Natural compression on vector lanes. Adding 23 random bits to a float's magnitude carries into
// the exponent with probability mantissa / 2^23, exactly: the whole rounding is one add and one
// shift.
#include "laconic/kernels/natural.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "laconic/kernels/groups.h"
#include "laconic/kernels/reduce.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "laconic/kernels/natural.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "laconic/kernels/draws-inl.h"

HWY_BEFORE_NAMESPACE();
namespace laconic::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr std::uint32_t kDrawMask = (1U << 23) - 1;

using U32 = Hashed::U32;  // four vectors are at most a group
using I32 = hn::RebindToSigned<U32>;
using F32 = hn::RebindToFloat<U32>;
using Bytes = hn::Rebind<std::uint8_t, U32>;
using Word = hn::Vec<U32>;

// What is added to the magnitudes before the shift, a vector a call: Hashed from the position,
// constant, or given. Of hashed and given draws the low 23 bits count.
struct Constant {
  std::uint32_t value;
  HWY_INLINE Word next() const { return hn::Set(U32(), value); }
};
struct Given {
  const std::uint32_t* values;
  HWY_INLINE Word next() {
    const Word next = hn::LoadU(U32(), values);
    values += hn::Lanes(U32());
    return next;
  }
};

HWY_INLINE Word load_bits(const float* x) { return hn::BitCast(U32(), hn::LoadU(F32(), x)); }

// Four vectors at a time: what belongs to entries i, i + lanes, i + 2 lanes, i + 3 lanes and on.
struct Four {
  Word a, b, c, d;
};

#if HWY_TARGET == HWY_AVX2

// Packing works in halves of 128 bits; this puts the eight words of four bytes back in order.
HWY_INLINE __m256i in_order(__m256i packed) {
  return _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

// Lanes below 256 as bytes.
HWY_INLINE __m256i pack_bytes(const Four& v) {
  return in_order(_mm256_packus_epi16(_mm256_packus_epi32(v.a.raw, v.b.raw),
                                      _mm256_packus_epi32(v.c.raw, v.d.raw)));
}

// Packing all four before storing, and making the mask once per 32 entries, is worth a quarter of
// the encoder's time.
HWY_INLINE void store_bytes(const Four& v, std::uint8_t* to) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), pack_bytes(v));
}

HWY_INLINE void store_fields(const Four& fields, const Four& bits, std::size_t i,
                             std::uint8_t* exponents, std::uint8_t* signs) {
  const __m256i bytes = pack_bytes(fields);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(exponents + i), bytes);
  const __m256i negative = in_order(_mm256_packs_epi16(_mm256_packs_epi32(bits.a.raw, bits.b.raw),
                                                       _mm256_packs_epi32(bits.c.raw, bits.d.raw)));
  const __m256i zero = _mm256_cmpeq_epi8(bytes, _mm256_setzero_si256());
  const auto mask =
      static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_andnot_si256(zero, negative)));
  store(signs + i / 8, mask);
}

#else

HWY_INLINE void store_bytes(const Four& v, std::uint8_t* to) {
  const std::size_t lanes = hn::Lanes(U32());
  const auto one = [&](Word word, std::size_t at) HWY_ATTR {
    hn::StoreU(hn::DemoteTo(Bytes(), hn::BitCast(I32(), word)), Bytes(), to + at * lanes);
  };
  one(v.a, 0);
  one(v.b, 1);
  one(v.c, 2);
  one(v.d, 3);
}

// Bit i of signs is the top bit of lane i where the field is not 0.
HWY_INLINE void store_signs(Word field, Word bits, std::size_t i, std::uint8_t* signs) {
  const U32 d;
  const I32 di;
  const Word kept = hn::IfThenZeroElse(hn::Eq(field, hn::Zero(d)), bits);
  const auto negative = hn::RebindMask(d, hn::Lt(hn::BitCast(di, kept), hn::Zero(di)));
  if (hn::Lanes(d) >= 8) {
    hn::StoreMaskBits(d, negative, signs + i / 8);
    return;
  }
  std::uint8_t mask[8] = {};
  hn::StoreMaskBits(d, negative, mask);
  if (i % 8 == 0) signs[i / 8] = 0;
  signs[i / 8] = static_cast<std::uint8_t>(signs[i / 8] | mask[0] << (i % 8));
}

HWY_INLINE void store_fields(const Four& fields, const Four& bits, std::size_t i,
                             std::uint8_t* exponents, std::uint8_t* signs) {
  const std::size_t lanes = hn::Lanes(U32());
  store_bytes(fields, exponents + i);
  store_signs(fields.a, bits.a, i, signs);
  store_signs(fields.b, bits.b, i + lanes, signs);
  store_signs(fields.c, bits.c, i + 2 * lanes, signs);
  store_signs(fields.d, bits.d, i + 3 * lanes, signs);
}

#endif

HWY_INLINE Four load_four(const float* x) {
  const std::size_t lanes = hn::Lanes(U32());
  return {load_bits(x), load_bits(x + lanes), load_bits(x + 2 * lanes), load_bits(x + 3 * lanes)};
}

HWY_INLINE auto load_signs(const std::uint8_t* signs, std::size_t i) {
  const U32 d;
  if (hn::Lanes(d) >= 8) return hn::LoadMaskBits(d, signs + i / 8);
  std::uint8_t bits[8] = {};
  bits[0] = static_cast<std::uint8_t>(signs[i / 8] >> (i % 8));
  return hn::LoadMaskBits(d, bits);
}

// Returns the largest field seen: 255 for NaN, Inf, or an entry of the last binade that rounded up.
template <class Draw>
HWY_INLINE std::uint32_t encode_groups(const float* x, std::size_t count, Draw draw,
                                       std::uint8_t* exponents, std::uint8_t* signs) {
  const U32 d;
  const Word sign_bit = hn::Set(d, 0x80000000U), draw_mask = hn::Set(d, kDrawMask);
  Word largest = hn::Zero(d);
  const auto field_of = [&](Word bits) HWY_ATTR {
    const Word field =
        hn::ShiftRight<23>(hn::Add(hn::AndNot(sign_bit, bits), hn::And(draw.next(), draw_mask)));
    largest = hn::Max(largest, field);
    return field;
  };
  for (std::size_t i = 0; i < count; i += 4 * hn::Lanes(d)) {
    const Four bits = load_four(x + i);
    const Four fields{field_of(bits.a), field_of(bits.b), field_of(bits.c), field_of(bits.d)};
    store_fields(fields, bits, i, exponents, signs);
  }
  return hn::GetLane(hn::MaxOfLanes(d, largest));
}

std::uint32_t encode_hashed(const float* x, std::size_t count, std::uint32_t first,
                            std::uint32_t word0, std::uint32_t word1, std::uint8_t* exponents,
                            std::uint8_t* signs) {
  return encode_groups(x, count, Hashed(first, word0, word1), exponents, signs);
}
std::uint32_t encode_nearest(const float* x, std::size_t count, std::uint8_t* exponents,
                             std::uint8_t* signs) {
  return encode_groups(x, count, Constant{(1U << 22) - 1}, exponents, signs);
}
std::uint32_t encode_given(const float* x, std::size_t count, const std::uint32_t* draws,
                           std::uint8_t* exponents, std::uint8_t* signs) {
  return encode_groups(x, count, Given{draws}, exponents, signs);
}

using Value = hn::Vec<F32>;

// The exponent fields of the entries from i on, in their place.
HWY_INLINE Word load_fields(const std::uint8_t* exponents, std::size_t i) {
  const Bytes d;
  const auto fields = hn::Min(hn::LoadU(d, exponents + i), hn::Set(d, 254));
  return hn::ShiftLeft<23>(hn::PromoteTo(U32(), fields));
}

// Four vectors of floats: the entries i, i + lanes, i + 2 lanes, i + 3 lanes and on.
struct FourValues {
  Value a, b, c, d;
};

#if HWY_TARGET == HWY_AVX2
// A word of 32 signs is loaded once, and each lane shifts its own bit to the top.
HWY_INLINE FourValues decode_four(const std::uint8_t* exponents, const std::uint8_t* signs,
                                  std::size_t i) {
  const __m256i word = _mm256_set1_epi32(load<std::int32_t>(signs + i / 8));
  const auto part = [&](int number) HWY_ATTR {
    const __m256i shift = _mm256_sub_epi32(_mm256_setr_epi32(31, 30, 29, 28, 27, 26, 25, 24),
                                           _mm256_set1_epi32(8 * number));
    const __m256i sign = _mm256_and_si256(_mm256_sllv_epi32(word, shift),
                                          _mm256_set1_epi32(static_cast<int>(0x80000000U)));
    const Word field = load_fields(exponents, i + 8 * static_cast<std::size_t>(number));
    return hn::BitCast(F32(), hn::Or(field, Word{sign}));
  };
  return {part(0), part(1), part(2), part(3)};
}
#else
HWY_INLINE FourValues decode_four(const std::uint8_t* exponents, const std::uint8_t* signs,
                                  std::size_t i) {
  const U32 d;
  const Word sign_bit = hn::Set(d, 0x80000000U);
  const auto part = [&](std::size_t number) HWY_ATTR {
    const std::size_t at = i + number * hn::Lanes(d);
    const Word sign = hn::IfThenElseZero(load_signs(signs, at), sign_bit);
    return hn::BitCast(F32(), hn::Or(load_fields(exponents, at), sign));
  };
  return {part(0), part(1), part(2), part(3)};
}
#endif

// Calls use(i, floats) for the entries of `count`, a multiple of 64, a vector at a time.
template <class Use>
HWY_INLINE void decode_groups(const std::uint8_t* exponents, const std::uint8_t* signs,
                              std::size_t count, Use use) {
  const std::size_t lanes = hn::Lanes(U32());
  for (std::size_t i = 0; i < count; i += 4 * lanes) {
    const FourValues values = decode_four(exponents, signs, i);
    use(i, values.a);
    use(i + lanes, values.b);
    use(i + 2 * lanes, values.c);
    use(i + 3 * lanes, values.d);
  }
}

// The sum stays in registers while the sections are walked side by side.
void sum_groups(const NaturalPlanes* sections, std::size_t ranks, std::size_t count, float weight,
                float* y) {
  const F32 df;
  const std::size_t lanes = hn::Lanes(df);
  const Value w = hn::Set(df, weight), zero = hn::Zero(df);
  for (std::size_t i = 0; i < count; i += 4 * lanes) {
    FourValues sum{zero, zero, zero, zero};
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const FourValues next = decode_four(sections[rank].exponents, sections[rank].signs, i);
      sum.a = hn::Add(sum.a, hn::Mul(w, next.a));
      sum.b = hn::Add(sum.b, hn::Mul(w, next.b));
      sum.c = hn::Add(sum.c, hn::Mul(w, next.c));
      sum.d = hn::Add(sum.d, hn::Mul(w, next.d));
    }
    hn::StoreU(sum.a, df, y + i);
    hn::StoreU(sum.b, df, y + i + lanes);
    hn::StoreU(sum.c, df, y + i + 2 * lanes);
    hn::StoreU(sum.d, df, y + i + 3 * lanes);
  }
}

// How far ahead of its use y is asked for: the processor's own guesses end with a page.
constexpr std::size_t kAhead = 512;

void add_groups(const std::uint8_t* exponents, const std::uint8_t* signs, std::size_t count,
                float weight, float* y) {
  const F32 df;
  const auto w = hn::Set(df, weight);
  decode_groups(exponents, signs, count, [&](std::size_t i, auto value) HWY_ATTR {
    if (i % 16 == 0) hwy::Prefetch(y + i + kAhead);
    hn::StoreU(hn::Add(hn::LoadU(df, y + i), hn::Mul(w, value)), df, y + i);
  });
}

void leave_groups(const std::uint8_t* exponents, const std::uint8_t* signs, const float* x,
                  std::size_t count, float c, float* left) {
  const F32 df;
  const auto factor = hn::Set(df, c);
  decode_groups(exponents, signs, count, [&](std::size_t i, auto value) HWY_ATTR {
    hn::StoreU(hn::Mul(factor, hn::Sub(hn::LoadU(df, x + i), value)), df, left + i);
  });
}

// The 8-bit form: as above, then the field is moved into the window. Returns whether an entry lies
// below it.
template <class Draw>
HWY_INLINE bool encode8_groups(const float* x, std::size_t count, Draw draw, std::uint32_t base,
                               std::uint8_t* codes) {
  const U32 d;
  const I32 di;  // magnitudes fit in 31 bits, so the cheaper signed compare serves
  const auto lowest = hn::Set(di, static_cast<std::int32_t>((base + 1) << 23));
  const Word sign_bit = hn::Set(d, 0x80000000U), draw_mask = hn::Set(d, kDrawMask);
  const Word base_field = hn::Set(d, base), highest = hn::Set(d, base + 127);
  Word any_below = hn::Zero(d);
  const auto code_of = [&](Word bits) HWY_ATTR {
    const Word magnitude = hn::AndNot(sign_bit, bits);
    const auto below = hn::RebindMask(d, hn::Lt(hn::BitCast(di, magnitude), lowest));
    any_below = hn::Or(any_below, hn::IfThenElseZero(below, magnitude));
    const Word field =
        hn::Min(hn::ShiftRight<23>(hn::Add(magnitude, hn::And(draw.next(), draw_mask))), highest);
    const Word level = hn::Sub(hn::Max(field, base_field), base_field);
    const Word sign = hn::ShiftRight<24>(hn::And(bits, sign_bit));
    return hn::Or(level, hn::IfThenZeroElse(hn::Eq(level, hn::Zero(d)), sign));
  };
  for (std::size_t i = 0; i < count; i += 4 * hn::Lanes(d)) {
    const Four bits = load_four(x + i);
    store_bytes({code_of(bits.a), code_of(bits.b), code_of(bits.c), code_of(bits.d)}, codes + i);
  }
  return !hn::AllTrue(d, hn::Eq(any_below, hn::Zero(d)));
}

bool encode8_hashed(const float* x, std::size_t count, std::uint32_t first, std::uint32_t word0,
                    std::uint32_t word1, std::uint32_t base, std::uint8_t* codes) {
  return encode8_groups(x, count, Hashed(first, word0, word1), base, codes);
}
bool encode8_nearest(const float* x, std::size_t count, std::uint32_t base, std::uint8_t* codes) {
  return encode8_groups(x, count, Constant{(1U << 22) - 1}, base, codes);
}
bool encode8_given(const float* x, std::size_t count, const std::uint32_t* draws,
                   std::uint32_t base, std::uint8_t* codes) {
  return encode8_groups(x, count, Given{draws}, base, codes);
}

void add8_groups(const std::uint8_t* codes, std::size_t count, std::uint32_t base, float weight,
                 float* y) {
  const U32 d;
  const F32 df;
  const Word base_field = hn::Set(d, base), low7 = hn::Set(d, 127);
  const auto w = hn::Set(df, weight);
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    const Word code = hn::PromoteTo(d, hn::LoadU(Bytes(), codes + i));
    const Word level = hn::And(code, low7);
    const Word sign = hn::ShiftLeft<31>(hn::ShiftRight<7>(code));
    const Word bits = hn::Or(hn::ShiftLeft<23>(hn::Add(level, base_field)), sign);
    const auto value = hn::BitCast(df, hn::IfThenZeroElse(hn::Eq(level, hn::Zero(d)), bits));
    hn::StoreU(hn::Add(hn::LoadU(df, y + i), hn::Mul(w, value)), df, y + i);
  }
}

}  // namespace laconic::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace laconic::kernels {
namespace {

HWY_EXPORT(encode_hashed);
HWY_EXPORT(encode_nearest);
HWY_EXPORT(encode_given);
HWY_EXPORT(add_groups);
HWY_EXPORT(leave_groups);
HWY_EXPORT(sum_groups);
HWY_EXPORT(encode8_hashed);
HWY_EXPORT(encode8_nearest);
HWY_EXPORT(encode8_given);
HWY_EXPORT(add8_groups);

// Draws of a group whose positions cross a multiple of 2^32, made one by one: that is one group in
// 2^26.
struct Draws {
  std::uint32_t values[kGroup] = {};
  Draws(Key key, std::uint64_t first, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) values[i] = key.bits32(first + i);
  }
};

// Calls hashed(from, count, low word of the position, key words) for runs of whole groups, or
// given(from, draws) for a group whose positions cross a multiple of 2^32.
template <class HashedRun, class GivenGroup>
void for_draws(std::size_t count, Key key, std::uint64_t first, HashedRun hashed,
               GivenGroup given) {
  for (std::size_t from = 0; from < count;) {
    const std::uint64_t position = first + from;
    const std::uint64_t room = ((1ULL << 32) - (position & 0xffffffffU)) / kGroup * kGroup;
    if (room == 0) {
      given(from, Draws(key, position, kGroup));
      from += kGroup;
      continue;
    }
    const auto run = static_cast<std::size_t>(std::min<std::uint64_t>(count - from, room));
    const Key high = key.fork(position >> 32);
    hashed(from, run, static_cast<std::uint32_t>(position), high.word0(), high.word1());
    from += run;
  }
}

std::uint32_t encode_whole(const float* x, std::size_t count, Rounding rounding, Key key,
                           std::uint64_t first, std::uint8_t* exponents, std::uint8_t* signs) {
  if (rounding == Rounding::nearest)
    return HWY_DYNAMIC_DISPATCH(encode_nearest)(x, count, exponents, signs);
  std::uint32_t largest = 0;
  for_draws(
      count, key, first,
      [&](std::size_t from, std::size_t run, std::uint32_t low, std::uint32_t word0,
          std::uint32_t word1) {
        largest = std::max(largest,
                           HWY_DYNAMIC_DISPATCH(encode_hashed)(x + from, run, low, word0, word1,
                                                               exponents + from, signs + from / 8));
      },
      [&](std::size_t from, const Draws& draws) {
        largest = std::max(largest,
                           HWY_DYNAMIC_DISPATCH(encode_given)(x + from, kGroup, draws.values,
                                                              exponents + from, signs + from / 8));
      });
  return largest;
}

// Returns whether an entry lies below the window.
bool encode8_whole(const float* x, std::size_t count, Rounding rounding, Key key,
                   std::uint64_t first, std::uint32_t base, std::uint8_t* codes) {
  if (rounding == Rounding::nearest)
    return HWY_DYNAMIC_DISPATCH(encode8_nearest)(x, count, base, codes);
  bool below = false;
  for_draws(
      count, key, first,
      [&](std::size_t from, std::size_t run, std::uint32_t low, std::uint32_t word0,
          std::uint32_t word1) {
        below |= HWY_DYNAMIC_DISPATCH(encode8_hashed)(x + from, run, low, word0, word1, base,
                                                      codes + from);
      },
      [&](std::size_t from, const Draws& draws) {
        below |=
            HWY_DYNAMIC_DISPATCH(encode8_given)(x + from, kGroup, draws.values, base, codes + from);
      });
  return below;
}

// An entry below the window: zero, or the lowest level with probability |x| / level, decided on
// integers. |x| / level = m / 2^23 * 2^-s with m the significand and s the distance in binades.
bool reaches_lowest(std::uint32_t magnitude, std::uint32_t base, Rounding rounding, Key key,
                    std::uint64_t position) {
  const std::uint32_t field = magnitude >> 23;
  const std::uint32_t significand = (magnitude & 0x7fffffU) | (field > 0 ? 1U << 23 : 0);
  std::uint32_t distance = base + 1 - std::max(field, 1U);
  if (rounding == Rounding::nearest)  // nearer to the level than to zero: above half of it
    return distance == 0 ? significand > (1U << 22) : distance == 1 && significand > (1U << 23);
  const std::uint32_t draw = key.bits32(position);
  if (distance == 0) return (draw & 0x7fffffU) < significand;
  if ((draw & 0xffffffU) >= significand) return false;  // 24 bits: this was probability m / 2^24
  const Key more = key.fork(position);
  for (std::uint64_t i = 0; --distance > 0; ++i)  // each further binade is a fair coin
    if (more.bits(i) & 1) return false;
  return true;
}

}  // namespace

bool natural_encode(std::span<const float> x, Rounding rounding, Key key, std::uint64_t first,
                    std::uint8_t* exponents, std::uint8_t* signs) {
  std::uint32_t largest = 0;
  in_groups(
      x.size(),
      [&](std::size_t from, std::size_t count, const float* x, std::uint8_t* exponents,
          std::uint8_t* signs) {
        largest = std::max(largest,
                           encode_whole(x, count, rounding, key, first + from, exponents, signs));
      },
      In<float>{x.data()}, Out<std::uint8_t>{exponents}, Out<Bit>{signs});
  if (largest < 255) return true;
  if (!all_finite(x)) return false;
  std::replace(exponents, exponents + x.size(), std::uint8_t{255}, std::uint8_t{254});
  return true;
}

void natural_add(const std::uint8_t* exponents, const std::uint8_t* signs, float weight,
                 std::span<float> y) {
  in_groups(
      y.size(),
      [&](std::size_t, std::size_t count, const std::uint8_t* exponents, const std::uint8_t* signs,
          float* y) {
        HWY_DYNAMIC_DISPATCH(add_groups)
        (exponents, signs, count, weight, y);
      },
      In<std::uint8_t>{exponents}, In<Bit>{signs}, InOut<float>{y.data()});
}

void natural_sum(std::span<const NaturalPlanes> sections, float weight, std::span<float> y) {
  const std::size_t whole = y.size() / kGroup * kGroup;
  HWY_DYNAMIC_DISPATCH(sum_groups)(sections.data(), sections.size(), whole, weight, y.data());
  const auto rest = y.subspan(whole);
  std::ranges::fill(rest, 0.0F);
  for (const NaturalPlanes& planes : sections)
    natural_add(planes.exponents + whole, planes.signs + whole / 8, weight, rest);
}

void natural_leave(const std::uint8_t* exponents, const std::uint8_t* signs, float c,
                   std::span<const float> x, float* left) {
  in_groups(
      x.size(),
      [&](std::size_t, std::size_t count, const std::uint8_t* exponents, const std::uint8_t* signs,
          const float* x, float* left) {
        HWY_DYNAMIC_DISPATCH(leave_groups)
        (exponents, signs, x, count, c, left);
      },
      In<std::uint8_t>{exponents}, In<Bit>{signs}, In<float>{x.data()}, Out<float>{left});
}

unsigned natural_window(std::span<const float> x) {
  const std::uint32_t largest = largest_magnitude(x);
  if (largest >= kInfinity) return 255;
  return std::clamp((largest >> 23) + 1, 127U, 254U);
}

void natural8_encode(std::span<const float> x, Rounding rounding, Key key, std::uint64_t first,
                     unsigned top, std::uint8_t* codes) {
  const std::uint32_t base = top - 127;
  bool below = false;
  in_groups(
      x.size(),
      [&](std::size_t from, std::size_t count, const float* x, std::uint8_t* codes) {
        below |= encode8_whole(x, count, rounding, key, first + from, base, codes);
      },
      In<float>{x.data()}, Out<std::uint8_t>{codes});
  if (!below) return;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(x[i]) & 0x7fffffffU;
    if (magnitude == 0 || magnitude >= (base + 1) << 23) continue;
    const bool up = reaches_lowest(magnitude, base, rounding, key, first + i);
    codes[i] = static_cast<std::uint8_t>(up ? (std::signbit(x[i]) ? 0x81 : 0x01) : 0);
  }
}

void natural8_add(const std::uint8_t* codes, unsigned top, float weight, std::span<float> y) {
  in_groups(
      y.size(),
      [&](std::size_t, std::size_t count, const std::uint8_t* codes, float* y) {
        HWY_DYNAMIC_DISPATCH(add8_groups)(codes, count, top - 127, weight, y);
      },
      In<std::uint8_t>{codes}, InOut<float>{y.data()});
}

}  // namespace laconic::kernels
#endif  // HWY_ONCE

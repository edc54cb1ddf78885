// Natural compression on vector lanes. Adding 23 random bits to a float's magnitude carries into
// the exponent with probability mantissa / 2^23, exactly: the whole rounding is one add and one
// shift.
#include "laconic/kernels/natural.h"

#include <algorithm>

#include "laconic/kernels/reduce.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "laconic/kernels/natural.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "laconic/kernels/mixed-inl.h"
#include "laconic/kernels/natural-inl.h"

HWY_BEFORE_NAMESPACE();
namespace laconic::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_AVX2

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
  const Word sign_bit = hn::Set(d, 0x80000000U);
  Word largest = hn::Zero(d);
  const auto field_of = [&](Word bits) LACONIC_INLINED {
    const Word field =
        hn::ShiftRight<23>(hn::Add(hn::AndNot(sign_bit, bits), draw.mantissa(draw.next(bits))));
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
                            const Draws& draws, std::uint8_t* exponents, std::uint8_t* signs) {
  return with_draws(first, draws, [&](auto drawn) HWY_ATTR {
    return encode_groups(x, count, drawn, exponents, signs);
  });
}
std::uint32_t encode_nearest(const float* x, std::size_t count, std::uint8_t* exponents,
                             std::uint8_t* signs) {
  return encode_groups(x, count, Constant{(1U << 22) - 1}, exponents, signs);
}
std::uint32_t encode_given(const float* x, std::size_t count, const GroupDraws& draws,
                           std::uint8_t* exponents, std::uint8_t* signs) {
  return encode_groups(x, count, Given{draws.values, draws.stratified}, exponents, signs);
}

using Value = hn::Vec<F32>;

// The same for mixed entries, whose decoded values are subtracted while they are in registers:
// storing x and reading it and the planes again would take as long as the memory does.
template <class Entries, class Draw>
HWY_INLINE std::uint32_t encode_mixed_groups(Entries mixed, std::size_t count, Draw draw,
                                             std::uint8_t* exponents, std::uint8_t* signs) {
  const U32 d;
  const std::size_t lanes = hn::Lanes(d);
  const Word sign_bit = hn::Set(d, 0x80000000U);
  Word largest = hn::Zero(d);
  const auto field_of = [&](std::size_t at, Word& bits) LACONIC_INLINED {
    const Value x = mixed.x(at);
    bits = hn::BitCast(d, x);
    const Word field =
        hn::ShiftRight<23>(hn::Add(hn::AndNot(sign_bit, bits), draw.mantissa(draw.next(bits))));
    largest = hn::Max(largest, field);
    const Word power = hn::Or(hn::ShiftLeft<23>(field), hn::And(bits, sign_bit));
    mixed.leave(at, x, hn::BitCast(F32(), hn::IfThenZeroElse(hn::Eq(field, hn::Zero(d)), power)));
    return field;
  };
  for (std::size_t i = 0; i < count; i += 4 * lanes) {
    all_ahead(mixed, i, 4 * lanes);
    Four bits, fields;
    fields.a = field_of(i, bits.a);
    fields.b = field_of(i + lanes, bits.b);
    fields.c = field_of(i + 2 * lanes, bits.c);
    fields.d = field_of(i + 3 * lanes, bits.d);
    store_fields(fields, bits, i, exponents, signs);
  }
  mixed.end(count);
  return hn::GetLane(hn::MaxOfLanes(d, largest));
}

std::uint32_t encode_mixed_hashed(const Mixed& block, std::uint32_t first, const Draws& draws,
                                  std::uint8_t* exponents, std::uint8_t* signs) {
  return with_mixed(block, [&](auto entries) HWY_ATTR {
    return with_draws(first, draws, [&](auto drawn) HWY_ATTR {
      return encode_mixed_groups(entries, block.count, drawn, exponents, signs);
    });
  });
}
std::uint32_t encode_mixed_nearest(const Mixed& block, std::uint8_t* exponents,
                                   std::uint8_t* signs) {
  return with_mixed(block, [&](auto entries) HWY_ATTR {
    return encode_mixed_groups(entries, block.count, Constant{(1U << 22) - 1}, exponents, signs);
  });
}

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
  const auto part = [&](int number) LACONIC_INLINED {
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
  const auto part = [&](std::size_t number) LACONIC_INLINED {
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

}  // namespace laconic::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace laconic::kernels {
namespace {

HWY_EXPORT(encode_hashed);
HWY_EXPORT(encode_nearest);
HWY_EXPORT(encode_given);
HWY_EXPORT(encode_mixed_hashed);
HWY_EXPORT(encode_mixed_nearest);
HWY_EXPORT(add_groups);
HWY_EXPORT(sum_groups);

std::uint32_t encode_whole(const float* x, std::size_t count, Rounding rounding, const Draws& draws,
                           std::uint64_t first, std::uint8_t* exponents, std::uint8_t* signs) {
  if (rounding == Rounding::nearest)
    return HWY_DYNAMIC_DISPATCH(encode_nearest)(x, count, exponents, signs);
  std::uint32_t largest = 0;
  for_draws(
      count, draws, first,
      [&](std::size_t from, std::size_t run, std::uint32_t low, const Draws& high) {
        largest =
            std::max(largest, HWY_DYNAMIC_DISPATCH(encode_hashed)(
                                  x + from, run, low, high, exponents + from, signs + from / 8));
      },
      [&](std::size_t from, const GroupDraws& draws) {
        largest =
            std::max(largest, HWY_DYNAMIC_DISPATCH(encode_given)(
                                  x + from, kGroup, draws, exponents + from, signs + from / 8));
      });
  return largest;
}

}  // namespace

bool natural_encode(std::span<const float> x, Rounding rounding, const Draws& draws,
                    std::uint64_t first, std::uint8_t* exponents, std::uint8_t* signs) {
  std::uint32_t largest = 0;
  in_groups(
      x.size(),
      [&](std::size_t from, std::size_t count, const float* x, std::uint8_t* exponents,
          std::uint8_t* signs) {
        largest = std::max(largest,
                           encode_whole(x, count, rounding, draws, first + from, exponents, signs));
      },
      In<float>{x.data()}, Out<std::uint8_t>{exponents}, Out<Bit>{signs});
  if (largest < 255) return true;
  if (!all_finite(x)) return false;
  std::replace(exponents, exponents + x.size(), std::uint8_t{255}, std::uint8_t{254});
  return true;
}

bool natural_encode_mixed(const Mixed& block, Rounding rounding, const Draws& draws,
                          std::uint64_t first, std::uint8_t* exponents, std::uint8_t* signs) {
  if (first >> 32 != (first + block.count) >> 32) return false;  // draws of two keys: rare
  const Draws high = draws.fork(first >> 32);
  std::uint32_t largest = 0;
  in_mixed_groups(
      block,
      [&](std::size_t from, const Mixed& some, std::uint8_t* exponents, std::uint8_t* signs) {
        const auto low = static_cast<std::uint32_t>(first + from);
        largest = std::max(
            largest,
            rounding == Rounding::nearest
                ? HWY_DYNAMIC_DISPATCH(encode_mixed_nearest)(some, exponents, signs)
                : HWY_DYNAMIC_DISPATCH(encode_mixed_hashed)(some, low, high, exponents, signs));
      },
      Out<std::uint8_t>{exponents}, Out<Bit>{signs});
  return largest < 255;
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

}  // namespace laconic::kernels
#endif  // HWY_ONCE

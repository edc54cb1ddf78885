// The 8-bit form of natural compression: sign and exponent in a window per 4096 entries.
#include <algorithm>

#include "laconic/kernels/looks.h"
#include "laconic/kernels/natural.h"
#include "laconic/kernels/natural8_below.h"
#include "laconic/kernels/reduce.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "laconic/kernels/natural8.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "laconic/kernels/mixed-inl.h"
#include "laconic/kernels/natural-inl.h"

HWY_BEFORE_NAMESPACE();
namespace laconic::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// What 7 bits of a code are worth, with the sign in the top bit of `sign`.
HWY_INLINE hn::Vec<F32> value_of(Word level, Word sign, std::uint32_t base) {
  const U32 d;
  const Word bits = hn::Or(hn::ShiftLeft<23>(hn::Add(level, hn::Set(d, base))), sign);
  return hn::BitCast(F32(), hn::IfThenZeroElse(hn::Eq(level, hn::Zero(d)), bits));
}

// As for 9 bits, then the field is moved into the window. Returns whether an entry lies below it.
template <class Entries, class Draw>
HWY_INLINE bool encode8_by(Entries entries, std::size_t count, Draw draw, std::uint32_t base,
                           std::uint8_t* codes) {
  const U32 d;
  const std::size_t lanes = hn::Lanes(d);
  const Word sign_bit = hn::Set(d, 0x80000000U), one = hn::Set(d, 1);
  const Word base_field = hn::Set(d, base), highest = hn::Set(d, base + 127);
  Word least = hn::Set(d, ~0U);  // of magnitudes less 1, where zero is the largest
  const auto code_of = [&](std::size_t at) LACONIC_INLINED {
    const hn::Vec<F32> x = entries.x(at);
    const Word bits = hn::BitCast(d, x), magnitude = hn::AndNot(sign_bit, bits);
    least = hn::Min(least, hn::Sub(magnitude, one));
    const Word field =
        hn::Min(hn::ShiftRight<23>(hn::Add(magnitude, draw.mantissa(draw.next(bits)))), highest);
    const Word level = hn::Sub(hn::Max(field, base_field), base_field);
    const Word sign = hn::And(bits, sign_bit);
    if (Entries::kLeaves) entries.leave(at, x, value_of(level, sign, base));
    return hn::IfThenZeroElse(hn::Eq(level, hn::Zero(d)), hn::Or(level, hn::ShiftRight<24>(sign)));
  };
  for (std::size_t i = 0; i < count; i += 4 * lanes) {
    all_ahead(entries, i, 4 * lanes);
    Four codes_of;
    codes_of.a = code_of(i);
    codes_of.b = code_of(i + lanes);
    codes_of.c = code_of(i + 2 * lanes);
    codes_of.d = code_of(i + 3 * lanes);
    store_bytes(codes_of, codes + i);
  }
  entries.end(count);
  return hn::GetLane(hn::MinOfLanes(d, least)) < ((base + 1) << 23) - 1;
}

#if HWY_TARGET == HWY_AVX2
// Fields are packed first: what follows is then done for 32 entries at a time.
template <class Draw>
HWY_INLINE bool encode8_groups(const float* x, std::size_t count, Draw draw, std::uint32_t base,
                               std::uint8_t* codes) {
  const U32 d;
  const Word sign_bit = hn::Set(d, 0x80000000U);
  const Word one = hn::Set(d, 1);
  Word least = hn::Set(d, ~0U);  // of magnitudes less 1, where zero is the largest
  const auto field_of = [&](Word bits) LACONIC_INLINED {
    const Word magnitude = hn::AndNot(sign_bit, bits);
    least = hn::Min(least, hn::Sub(magnitude, one));
    return hn::ShiftRight<23>(hn::Add(magnitude, draw.mantissa(draw.next(bits))));
  };
  const __m256i low = _mm256_set1_epi8(static_cast<char>(base));
  const __m256i most = _mm256_set1_epi8(127), top = _mm256_set1_epi8(static_cast<char>(0x80));
  for (std::size_t i = 0; i < count; i += 32) {
    hwy::Prefetch(x + i + kWindow);  // of the next window: this one was looked at already
    hwy::Prefetch(x + i + kWindow + 16);
    const Four bits = load_four(x + i);
    const __m256i field =
        pack_bytes({field_of(bits.a), field_of(bits.b), field_of(bits.c), field_of(bits.d)});
    const __m256i level = _mm256_min_epu8(_mm256_subs_epu8(field, low), most);
    const __m256i negative = in_order(_mm256_packs_epi16(
        _mm256_packs_epi32(bits.a.raw, bits.b.raw), _mm256_packs_epi32(bits.c.raw, bits.d.raw)));
    const __m256i zero = _mm256_cmpeq_epi8(level, _mm256_setzero_si256());
    const __m256i sign = _mm256_andnot_si256(zero, _mm256_and_si256(negative, top));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(codes + i), _mm256_or_si256(level, sign));
  }
  return hn::GetLane(hn::MinOfLanes(d, least)) < ((base + 1) << 23) - 1;
}
#else
template <class Draw>
HWY_INLINE bool encode8_groups(const float* x, std::size_t count, Draw draw, std::uint32_t base,
                               std::uint8_t* codes) {
  return encode8_by(PlainLanes(x, kWindow), count, draw, base, codes);
}
#endif

bool encode8_hashed(const float* x, std::size_t count, std::uint32_t first, const Draws& draws,
                    std::uint32_t base, std::uint8_t* codes) {
  return with_draws(first, draws, [&](auto drawn) HWY_ATTR {
    return encode8_groups(x, count, drawn, base, codes);
  });
}
bool encode8_nearest(const float* x, std::size_t count, std::uint32_t base, std::uint8_t* codes) {
  return encode8_groups(x, count, Constant{(1U << 22) - 1}, base, codes);
}
bool encode8_given(const float* x, std::size_t count, const GroupDraws& draws, std::uint32_t base,
                   std::uint8_t* codes) {
  return encode8_groups(x, count, Given{draws.values, draws.stratified}, base, codes);
}

bool mixed8_hashed(const Mixed& block, std::uint32_t first, const Draws& draws, std::uint32_t base,
                   std::uint8_t* codes) {
  return with_mixed(block, [&](auto entries) HWY_ATTR {
    return with_draws(first, draws, [&](auto drawn) HWY_ATTR {
      return encode8_by(entries, block.count, drawn, base, codes);
    });
  });
}
bool mixed8_nearest(const Mixed& block, std::uint32_t base, std::uint8_t* codes) {
  return with_mixed(block, [&](auto entries) HWY_ATTR {
    return encode8_by(entries, block.count, Constant{(1U << 22) - 1}, base, codes);
  });
}

void add8_groups(const std::uint8_t* codes, std::size_t count, std::uint32_t base, float weight,
                 float* y) {
  const U32 d;
  const F32 df;
  const Word low7 = hn::Set(d, 127);
  const auto w = hn::Set(df, weight);
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    if (i % 16 == 0) hwy::Prefetch(y + i + 512);  // guesses of the processor end with a page
    const Word code = hn::PromoteTo(d, hn::LoadU(Bytes(), codes + i));
    const Word sign = hn::ShiftLeft<31>(hn::ShiftRight<7>(code));
    const auto value = value_of(hn::And(code, low7), sign, base);
    hn::StoreU(hn::Add(hn::LoadU(df, y + i), hn::Mul(w, value)), df, y + i);
  }
}

}  // namespace laconic::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace laconic::kernels {
namespace {

HWY_EXPORT(encode8_hashed);
HWY_EXPORT(encode8_nearest);
HWY_EXPORT(encode8_given);
HWY_EXPORT(mixed8_hashed);
HWY_EXPORT(mixed8_nearest);
HWY_EXPORT(add8_groups);

unsigned window_of(std::uint32_t largest) {
  return largest >= kInfinity ? 255 : std::clamp((largest >> 23) + 1, 127U, 254U);
}

// Returns whether an entry lies below the window.
bool encode8_whole(const float* x, std::size_t count, Rounding rounding, const Draws& draws,
                   std::uint64_t first, std::uint32_t base, std::uint8_t* codes) {
  if (rounding == Rounding::nearest)
    return HWY_DYNAMIC_DISPATCH(encode8_nearest)(x, count, base, codes);
  bool below = false;
  for_draws(
      count, draws, first,
      [&](std::size_t from, std::size_t run, std::uint32_t low, const Draws& high) {
        below |= HWY_DYNAMIC_DISPATCH(encode8_hashed)(x + from, run, low, high, base, codes + from);
      },
      [&](std::size_t from, const GroupDraws& draws) {
        below |= HWY_DYNAMIC_DISPATCH(encode8_given)(x + from, kGroup, draws, base, codes + from);
      });
  return below;
}

}  // namespace

unsigned natural_window(std::span<const float> x) { return window_of(largest_magnitude(x)); }
unsigned natural_window(const Mixed& block) { return window_of(largest_magnitude(block)); }

void natural8_encode(std::span<const float> x, Rounding rounding, const Draws& draws,
                     std::uint64_t first, unsigned top, std::uint8_t* codes) {
  const std::uint32_t base = top - 127;
  bool below = false;
  in_groups(
      x.size(),
      [&](std::size_t from, std::size_t count, const float* x, std::uint8_t* codes) {
        below |= encode8_whole(x, count, rounding, draws, first + from, base, codes);
      },
      In<float>{x.data()}, Out<std::uint8_t>{codes});
  if (below) natural8_below(x, rounding, draws, first, base, codes);
}

bool natural8_encode_mixed(const Mixed& block, Rounding rounding, const Draws& draws,
                           std::uint64_t first, unsigned top, std::uint8_t* codes) {
  if (first >> 32 != (first + block.count) >> 32) return false;  // draws of two keys: rare
  const Draws high = draws.fork(first >> 32);
  bool below = false;
  in_mixed_groups(
      block,
      [&](std::size_t from, const Mixed& some, std::uint8_t* codes) {
        const auto low = static_cast<std::uint32_t>(first + from);
        below |= rounding == Rounding::nearest
                     ? HWY_DYNAMIC_DISPATCH(mixed8_nearest)(some, top - 127, codes)
                     : HWY_DYNAMIC_DISPATCH(mixed8_hashed)(some, low, high, top - 127, codes);
      },
      Out<std::uint8_t>{codes});
  return !below;
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

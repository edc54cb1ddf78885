// 16-bit floats by integer arithmetic, because not every instruction set has conversions and
// Highway's replacements round differently; AVX2 has F16C beside it, which rounds the same.
#include "laconic/kernels/half.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "laconic/kernels/groups.h"
#include "laconic/kernels/reduce.h"
#include "laconic/kernels/stream.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "laconic/kernels/half.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace laconic::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using U32 = hn::ScalableTag<std::uint32_t>;
using I32 = hn::RebindToSigned<U32>;
using F32 = hn::RebindToFloat<U32>;
using U16 = hn::Rebind<std::uint16_t, U32>;
using Word = hn::Vec<U32>;

HWY_INLINE Word set(std::uint32_t value) { return hn::Set(U32(), value); }
HWY_INLINE Word load_bits(const float* x) { return hn::BitCast(U32(), hn::LoadU(F32(), x)); }
HWY_INLINE Word load_halves(const std::uint16_t* h) {
  return hn::PromoteTo(U32(), hn::LoadU(U16(), h));
}
HWY_INLINE void store_halves(Word h, std::uint16_t* to) {
  hn::StoreU(hn::DemoteTo(U16(), hn::BitCast(I32(), h)), U16(), to);
}
HWY_INLINE void add_to(float* y, float weight, Word bits) {
  const F32 df;
  hn::StoreU(hn::Add(hn::LoadU(df, y), hn::Mul(hn::Set(df, weight), hn::BitCast(df, bits))), df, y);
}

// How far ahead of its use an array that is added to is asked for: the processor's own guesses end
// with a page.
constexpr std::size_t kAhead = 512;

std::uint32_t bf16_encode_run(const float* x, std::size_t count, std::uint16_t* halves) {
  Word largest = hn::Zero(U32());
  for (std::size_t i = 0; i < count; i += hn::Lanes(U32())) {
    const Word bits = load_bits(x + i), magnitude = hn::And(bits, set(0x7fffffffU));
    largest = hn::Max(largest, magnitude);
    const Word odd = hn::And(hn::ShiftRight<16>(magnitude), set(1));
    const Word rounded = hn::ShiftRight<16>(hn::Add(hn::Add(magnitude, set(0x7fff)), odd));
    const Word sign = hn::ShiftLeft<15>(hn::ShiftRight<31>(bits));
    store_halves(hn::Or(hn::Min(rounded, set(0x7f7f)), sign), halves + i);
  }
  return hn::GetLane(hn::MaxOfLanes(U32(), largest));
}

void bf16_add_run(const std::uint16_t* halves, std::size_t count, float weight, float* y) {
  for (std::size_t i = 0; i < count; i += hn::Lanes(U32())) {
    if (i % 16 == 0) fetch(y + i + kAhead);
    const Word half = hn::ShiftLeft<16>(load_halves(halves + i)), sign = set(0x80000000U);
    const Word magnitude = hn::Min(hn::AndNot(sign, half), set(0x7f7f0000U));
    add_to(y + i, weight, hn::Or(magnitude, hn::And(half, sign)));
  }
}

// `base` is (top - 141) << 23, modulo 2^32; `lowest` is the least magnitude that is not flushed,
// `limit` the largest half.
#if HWY_TARGET == HWY_AVX2
void fp16_encode_run(const float* x, std::size_t count, std::uint32_t base, std::uint32_t lowest,
                     std::uint32_t limit, std::uint16_t* halves) {
  const __m256i magnitudes = _mm256_set1_epi32(0x7fffffff);
  const __m256i by = _mm256_set1_epi32(static_cast<int>(base));
  const __m256i below = _mm256_set1_epi32(static_cast<int>(lowest));
  const auto eight = [&](const float* from) HWY_ATTR {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    const __m256i magnitude = _mm256_and_si256(bits, magnitudes);
    const __m256i moved =
        _mm256_andnot_si256(_mm256_cmpgt_epi32(below, magnitude), _mm256_sub_epi32(magnitude, by));
    const __m256i all = _mm256_or_si256(moved, _mm256_andnot_si256(magnitudes, bits));
    return _mm256_cvtps_ph(_mm256_castsi256_ps(all), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  };
  const __m256i low15 = _mm256_set1_epi16(0x7fff);
  const __m256i most = _mm256_set1_epi16(static_cast<short>(limit));
  for (std::size_t i = 0; i < count; i += 16) {
    const __m256i half = _mm256_set_m128i(eight(x + i + 8), eight(x + i));
    const __m256i least = _mm256_min_epu16(_mm256_and_si256(half, low15), most);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(halves + i),
                        _mm256_or_si256(least, _mm256_andnot_si256(low15, half)));
  }
}

void fp16_add_run(const std::uint16_t* halves, std::size_t count, float scale, std::uint32_t limit,
                  float weight, float* y) {
  const F32 df;
  const __m256i low15 = _mm256_set1_epi16(0x7fff);
  const __m256i most = _mm256_set1_epi16(static_cast<short>(limit));
  const auto add_eight = [&](__m128i eight, float* to) HWY_ATTR {
    const auto scaled = hn::Mul(hn::Vec<F32>{_mm256_cvtph_ps(eight)}, hn::Set(df, scale));
    add_to(to, weight, hn::BitCast(U32(), scaled));
  };
  for (std::size_t i = 0; i < count; i += 16) {
    fetch(y + i + kAhead);
    const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(halves + i));
    const __m256i least = _mm256_or_si256(_mm256_min_epu16(_mm256_and_si256(half, low15), most),
                                          _mm256_andnot_si256(low15, half));
    add_eight(_mm256_castsi256_si128(least), y + i);
    add_eight(_mm256_extracti128_si256(least, 1), y + i + 8);
  }
}
#else
void fp16_encode_run(const float* x, std::size_t count, std::uint32_t base, std::uint32_t lowest,
                     std::uint32_t limit, std::uint16_t* halves) {
  const F32 df;
  const Word magic = set((127 - 15 + 23 - 10 + 1) << 23);
  for (std::size_t i = 0; i < count; i += hn::Lanes(U32())) {
    const Word bits = load_bits(x + i), magnitude = hn::And(bits, set(0x7fffffffU));
    const Word moved =
        hn::IfThenZeroElse(hn::Lt(magnitude, set(lowest)), hn::Sub(magnitude, set(base)));
    // Below 2^-14 a half is subnormal: adding the magic float lets the adder round it.
    const Word small =
        hn::Sub(hn::BitCast(U32(), hn::Add(hn::BitCast(df, moved), hn::BitCast(df, magic))), magic);
    const Word odd = hn::And(hn::ShiftRight<13>(moved), set(1));
    const Word normal =
        hn::ShiftRight<13>(hn::Add(hn::Add(moved, set(0xfffU - ((127U - 15U) << 23))), odd));
    const Word half =
        hn::Min(hn::IfThenElse(hn::Lt(moved, set(113U << 23)), small, normal), set(limit));
    store_halves(hn::Or(half, hn::ShiftLeft<15>(hn::ShiftRight<31>(bits))), halves + i);
  }
}

void fp16_add_run(const std::uint16_t* halves, std::size_t count, float scale, std::uint32_t limit,
                  float weight, float* y) {
  const F32 df;
  const Word magic = set(113U << 23);
  for (std::size_t i = 0; i < count; i += hn::Lanes(U32())) {
    if (i % 16 == 0) fetch(y + i + kAhead);
    const Word half = load_halves(halves + i);
    const Word shifted = hn::ShiftLeft<13>(hn::Min(hn::And(half, set(0x7fff)), set(limit)));
    const Word normal = hn::Add(shifted, set((127U - 15U) << 23));
    const Word small = hn::BitCast(
        U32(), hn::Sub(hn::BitCast(df, hn::Add(shifted, magic)), hn::BitCast(df, magic)));
    const Word value = hn::IfThenElse(hn::Lt(shifted, set(1U << 23)), small, normal);
    const Word sign = hn::ShiftLeft<31>(hn::ShiftRight<15>(half));
    const auto scaled = hn::Mul(hn::BitCast(df, hn::Or(value, sign)), hn::Set(df, scale));
    add_to(y + i, weight, hn::BitCast(U32(), scaled));
  }
}
#endif

// NaN keeps its upper bits and becomes quiet; everything else, Inf too, is rounded by the adder.
void to_bf16_run(const float* x, std::size_t count, std::uint16_t* halves) {
  for (std::size_t i = 0; i < count; i += hn::Lanes(U32())) {
    const Word bits = load_bits(x + i), magnitude = hn::And(bits, set(0x7fffffffU));
    const Word odd = hn::And(hn::ShiftRight<16>(bits), set(1));
    const Word rounded = hn::Add(hn::Add(bits, set(0x7fff)), odd);
    const Word nan = hn::Or(bits, set(0x400000U));
    const auto is_nan = hn::Gt(magnitude, set(0x7f800000U));
    store_halves(hn::ShiftRight<16>(hn::IfThenElse(is_nan, nan, rounded)), halves + i);
  }
}

void from_bf16_run(const std::uint16_t* halves, std::size_t count, float* y) {
  for (std::size_t i = 0; i < count; i += hn::Lanes(U32()))
    hn::StoreU(hn::BitCast(F32(), hn::ShiftLeft<16>(load_halves(halves + i))), F32(), y + i);
}

// From 2^-14 on the exponent is moved and the adder rounds; below it adding the magic float does.
// From 65520 on it is Inf.
void to_fp16_run(const float* x, std::size_t count, std::uint16_t* halves) {
  const F32 df;
  const Word magic = set((127 - 15 + 23 - 10 + 1) << 23);
  for (std::size_t i = 0; i < count; i += hn::Lanes(U32())) {
    const Word bits = load_bits(x + i), magnitude = hn::And(bits, set(0x7fffffffU));
    const Word small = hn::Sub(
        hn::BitCast(U32(), hn::Add(hn::BitCast(df, magnitude), hn::BitCast(df, magic))), magic);
    const Word odd = hn::And(hn::ShiftRight<13>(magnitude), set(1));
    const Word normal =
        hn::ShiftRight<13>(hn::Add(hn::Add(magnitude, set(0xfffU - ((127U - 15U) << 23))), odd));
    const Word nan = hn::Or(hn::And(hn::ShiftRight<13>(magnitude), set(0x3ff)), set(0x7e00));
    Word half = hn::IfThenElse(hn::Lt(magnitude, set(113U << 23)), small, normal);
    half = hn::IfThenElse(hn::Gt(magnitude, set(0x477fefffU)), set(0x7c00), half);
    half = hn::IfThenElse(hn::Gt(magnitude, set(0x7f800000U)), nan, half);
    store_halves(hn::Or(half, hn::ShiftLeft<15>(hn::ShiftRight<31>(bits))), halves + i);
  }
}

void from_fp16_run(const std::uint16_t* halves, std::size_t count, float* y) {
  const F32 df;
  const Word magic = set(113U << 23);
  for (std::size_t i = 0; i < count; i += hn::Lanes(U32())) {
    const Word half = load_halves(halves + i);
    const Word shifted = hn::ShiftLeft<13>(hn::And(half, set(0x7fff)));
    const Word normal = hn::Add(shifted, set((127U - 15U) << 23));
    const Word small = hn::BitCast(
        U32(), hn::Sub(hn::BitCast(df, hn::Add(shifted, magic)), hn::BitCast(df, magic)));
    const Word special = hn::Or(shifted, set(0x7f800000U));
    Word value = hn::IfThenElse(hn::Lt(shifted, set(1U << 23)), small, normal);
    value = hn::IfThenElse(hn::Gt(shifted, set((31U << 23) - 1)), special, value);
    const Word sign = hn::ShiftLeft<31>(hn::ShiftRight<15>(half));
    hn::StoreU(hn::BitCast(df, hn::Or(value, sign)), df, y + i);
  }
}

}  // namespace laconic::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace laconic::kernels {
namespace {

HWY_EXPORT(bf16_encode_run);
HWY_EXPORT(bf16_add_run);
HWY_EXPORT(fp16_encode_run);
HWY_EXPORT(fp16_add_run);
HWY_EXPORT(to_bf16_run);
HWY_EXPORT(from_bf16_run);
HWY_EXPORT(to_fp16_run);
HWY_EXPORT(from_fp16_run);

// Planes may start at an odd address; halves then pass through an aligned piece that stays in the
// first-level cache.
constexpr std::size_t kPiece = 1024;

bool is_even(const std::uint8_t* address) {
  return reinterpret_cast<std::uintptr_t>(address) % alignof(std::uint16_t) == 0;
}

template <class Encode>
void encode_pieces(std::span<const float> x, std::uint8_t* halves, Encode encode) {
  if (is_even(halves))
    return in_groups(x.size(), encode, In<float>{x.data()},
                     Out<std::uint16_t>{reinterpret_cast<std::uint16_t*>(halves)});
  alignas(64) std::uint16_t piece[kPiece];
  for (std::size_t from = 0; from < x.size(); from += kPiece) {
    const auto part = x.subspan(from, std::min(kPiece, x.size() - from));
    in_groups(part.size(), encode, In<float>{part.data()}, Out<std::uint16_t>{piece});
    std::memcpy(halves + 2 * from, piece, 2 * part.size());
  }
}

template <class Use>
void decode_pieces(const std::uint8_t* halves, std::size_t count, Use use) {
  alignas(64) std::uint16_t piece[kPiece];
  for (std::size_t from = 0; from < count; from += kPiece) {
    const std::size_t part = std::min(kPiece, count - from);
    // The piece after the next: the processor's own guesses end with a page.
    for (std::size_t at = 0; at < 2 * part; at += 64) fetch(halves + 2 * from + 4 * kPiece + at);
    if (is_even(halves)) {
      use(reinterpret_cast<const std::uint16_t*>(halves) + from, from, part);
      continue;
    }
    std::memcpy(piece, halves + 2 * from, 2 * part);
    use(piece, from, part);
  }
}

template <class Add>
void add_pieces(const std::uint8_t* halves, std::span<float> y, Add add) {
  decode_pieces(halves, y.size(),
                [&](const std::uint16_t* piece, std::size_t from, std::size_t part) {
                  in_groups(part, add, In<std::uint16_t>{piece}, InOut<float>{y.data() + from});
                });
}

template <class Decode>
void to_pieces(const std::uint8_t* halves, std::span<float> y, Decode decode) {
  decode_pieces(halves, y.size(),
                [&](const std::uint16_t* piece, std::size_t from, std::size_t part) {
                  in_groups(part, decode, In<std::uint16_t>{piece}, Out<float>{y.data() + from});
                });
}

}  // namespace

bool bf16_encode(std::span<const float> x, std::uint8_t* halves) {
  std::uint32_t largest = 0;
  encode_pieces(x, halves, [&](std::size_t, std::size_t count, const float* x, std::uint16_t* h) {
    largest = std::max(largest, HWY_DYNAMIC_DISPATCH(bf16_encode_run)(x, count, h));
  });
  return largest < kInfinity;
}

void bf16_add(const std::uint8_t* halves, float weight, std::span<float> y) {
  add_pieces(halves, y, [&](std::size_t, std::size_t count, const std::uint16_t* h, float* y) {
    HWY_DYNAMIC_DISPATCH(bf16_add_run)(h, count, weight, y);
  });
}

void floats_to_bf16(std::span<const float> x, std::uint8_t* halves) {
  encode_pieces(x, halves, [](std::size_t, std::size_t count, const float* x, std::uint16_t* h) {
    HWY_DYNAMIC_DISPATCH(to_bf16_run)(x, count, h);
  });
}

void floats_to_fp16(std::span<const float> x, std::uint8_t* halves) {
  encode_pieces(x, halves, [](std::size_t, std::size_t count, const float* x, std::uint16_t* h) {
    HWY_DYNAMIC_DISPATCH(to_fp16_run)(x, count, h);
  });
}

void bf16_to_floats(const std::uint8_t* halves, std::span<float> y) {
  to_pieces(halves, y, [](std::size_t, std::size_t count, const std::uint16_t* h, float* y) {
    HWY_DYNAMIC_DISPATCH(from_bf16_run)(h, count, y);
  });
}

void fp16_to_floats(const std::uint8_t* halves, std::span<float> y) {
  to_pieces(halves, y, [](std::size_t, std::size_t count, const std::uint16_t* h, float* y) {
    HWY_DYNAMIC_DISPATCH(from_fp16_run)(h, count, y);
  });
}

unsigned fp16_top(std::span<const float> x) { return std::max(largest_magnitude(x) >> 23, 1U); }

void fp16_encode(std::span<const float> x, unsigned top, std::uint8_t* halves) {
  const std::uint32_t base = (top - 141) << 23;  // modulo 2^32: negative for small tops
  const std::uint32_t lowest = (top > 141 ? top - 141 : 1) << 23;
  encode_pieces(x, halves, [&](std::size_t, std::size_t count, const float* x, std::uint16_t* h) {
    HWY_DYNAMIC_DISPATCH(fp16_encode_run)(x, count, base, lowest, fp16_limit(top), h);
  });
}

void fp16_add(const std::uint8_t* halves, unsigned top, float weight, std::span<float> y) {
  const float scale = std::ldexp(1.0F, static_cast<int>(top) - 141);
  add_pieces(halves, y, [&](std::size_t, std::size_t count, const std::uint16_t* h, float* y) {
    HWY_DYNAMIC_DISPATCH(fp16_add_run)(h, count, scale, fp16_limit(top), weight, y);
  });
}

}  // namespace laconic::kernels
#endif  // HWY_ONCE

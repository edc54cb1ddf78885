// 16-bit floats by integer arithmetic, because not every instruction set has conversions and
// Highway's replacements round differently; AVX2 has F16C beside it, which rounds the same.
#include "laconic/kernels/half.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "laconic/kernels/groups.h"
#include "laconic/kernels/looks.h"
#include "laconic/kernels/reduce.h"
#include "laconic/kernels/stream.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "laconic/kernels/half.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "laconic/kernels/mixed-inl.h"

#ifndef LACONIC_KERNELS_HALF_ONCE
#define LACONIC_KERNELS_HALF_ONCE
namespace laconic::kernels {

// How float16 is scaled: `base` is (top - 141) << 23, modulo 2^32, `scale` the power of two that
// makes up for it; `lowest` is the least magnitude that is not flushed, `limit` the largest half.
struct Window {
  std::uint32_t base, lowest, limit;
  float scale;
};

}  // namespace laconic::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace laconic::kernels::HWY_NAMESPACE {

using U16 = hn::Rebind<std::uint16_t, U32>;
using Halves = hn::Vec<U16>;
using Value = hn::Vec<F32>;

HWY_INLINE Word set(std::uint32_t value) { return hn::Set(U32(), value); }
HWY_INLINE Word load_halves(const std::uint16_t* h) {
  return hn::PromoteTo(U32(), hn::LoadU(U16(), h));
}
HWY_INLINE Halves to_halves(Word h) { return hn::DemoteTo(U16(), hn::BitCast(I32(), h)); }
HWY_INLINE void store_halves(Word h, std::uint16_t* to) { hn::StoreU(to_halves(h), U16(), to); }
HWY_INLINE void add_to(float* y, float weight, Value value) {
  const F32 df;
  hn::StoreU(hn::Add(hn::LoadU(df, y), hn::Mul(hn::Set(df, weight), value)), df, y);
}
// What is left where receivers add `value` to 0, which makes 0 of -0.
template <class Entries>
HWY_INLINE void leave(Entries& entries, std::size_t i, Value x, Value value) {
  if (Entries::kLeaves) entries.leave(i, x, hn::Add(hn::Zero(F32()), value));
}

// How far ahead entries are asked for in the second of two passes over a block.
constexpr std::size_t kNext = 4096;

template <class Entries>
HWY_INLINE std::uint32_t bf16_by(Entries entries, std::size_t count, std::uint16_t* halves) {
  Word largest = hn::Zero(U32());
  for (std::size_t i = 0; i < count; i += hn::Lanes(U32())) {
    if (i % 16 == 0) entries.ahead(i);
    const Value x = entries.x(i);
    const Word bits = hn::BitCast(U32(), x), magnitude = hn::And(bits, set(0x7fffffffU));
    largest = hn::Max(largest, magnitude);
    const Word odd = hn::And(hn::ShiftRight<16>(magnitude), set(1));
    const Word rounded = hn::ShiftRight<16>(hn::Add(hn::Add(magnitude, set(0x7fff)), odd));
    const Word sign = hn::ShiftLeft<15>(hn::ShiftRight<31>(bits));
    const Word half = hn::Or(hn::Min(rounded, set(0x7f7f)), sign);
    store_halves(half, halves + i);
    leave(entries, i, x, hn::BitCast(F32(), hn::ShiftLeft<16>(half)));
  }
  entries.end(count);
  return hn::GetLane(hn::MaxOfLanes(U32(), largest));
}
std::uint32_t bf16_encode_run(const float* x, std::size_t count, std::uint16_t* halves) {
  return bf16_by(PlainLanes(x), count, halves);
}
std::uint32_t bf16_mixed_run(const Mixed& block, std::uint16_t* halves) {
  return with_mixed(block,
                    [&](auto entries) HWY_ATTR { return bf16_by(entries, block.count, halves); });
}

void bf16_add_run(const std::uint16_t* halves, std::size_t count, float weight, float* y) {
  for (std::size_t i = 0; i < count; i += hn::Lanes(U32())) {
    const Word half = hn::ShiftLeft<16>(load_halves(halves + i)), sign = set(0x80000000U);
    const Word magnitude = hn::Min(hn::AndNot(sign, half), set(0x7f7f0000U));
    add_to(y + i, weight, hn::BitCast(F32(), hn::Or(magnitude, hn::And(half, sign))));
  }
}

#if HWY_TARGET == HWY_AVX2
HWY_INLINE Halves convert(Value v) {
  return Halves{_mm256_cvtps_ph(v.raw, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
HWY_INLINE Value convert(Halves h) { return Value{_mm256_cvtph_ps(h.raw)}; }
#elif HWY_TARGET == HWY_AVX3
HWY_INLINE Halves convert(Value v) {
  return Halves{_mm512_cvtps_ph(v.raw, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
HWY_INLINE Value convert(Halves h) { return Value{_mm512_cvtph_ps(h.raw)}; }
#endif

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
// Magnitudes up to the limit, with their signs.
HWY_INLINE Halves limited(Halves h, std::uint32_t limit) {
  const U16 d;
  const Halves low15 = hn::Set(d, 0x7fff), most = hn::Set(d, static_cast<std::uint16_t>(limit));
  return hn::Or(hn::Min(hn::And(h, low15), most), hn::AndNot(low15, h));
}
HWY_INLINE Halves to_fp16(Word moved, Word sign, std::uint32_t limit) {
  return limited(convert(hn::BitCast(F32(), hn::Or(moved, sign))), limit);
}
HWY_INLINE Value from_fp16(Halves half, std::uint32_t limit) {
  return convert(limited(half, limit));
}
#else
HWY_INLINE Halves to_fp16(Word moved, Word sign, std::uint32_t limit) {
  const F32 df;
  const Word magic = set((127 - 15 + 23 - 10 + 1) << 23);
  // Below 2^-14 a half is subnormal: adding the magic float lets the adder round it.
  const Word small =
      hn::Sub(hn::BitCast(U32(), hn::Add(hn::BitCast(df, moved), hn::BitCast(df, magic))), magic);
  const Word odd = hn::And(hn::ShiftRight<13>(moved), set(1));
  const Word normal =
      hn::ShiftRight<13>(hn::Add(hn::Add(moved, set(0xfffU - ((127U - 15U) << 23))), odd));
  const Word half =
      hn::Min(hn::IfThenElse(hn::Lt(moved, set(113U << 23)), small, normal), set(limit));
  return to_halves(hn::Or(half, hn::ShiftRight<16>(sign)));
}
HWY_INLINE Value from_fp16(Halves halves, std::uint32_t limit) {
  const F32 df;
  const Word magic = set(113U << 23), half = hn::PromoteTo(U32(), halves);
  const Word shifted = hn::ShiftLeft<13>(hn::Min(hn::And(half, set(0x7fff)), set(limit)));
  const Word normal = hn::Add(shifted, set((127U - 15U) << 23));
  const Word small =
      hn::BitCast(U32(), hn::Sub(hn::BitCast(df, hn::Add(shifted, magic)), hn::BitCast(df, magic)));
  const Word value = hn::IfThenElse(hn::Lt(shifted, set(1U << 23)), small, normal);
  const Word sign = hn::ShiftLeft<31>(hn::ShiftRight<15>(half));
  return hn::BitCast(df, hn::Or(value, sign));
}
#endif

template <class Entries>
HWY_INLINE void fp16_by(Entries entries, std::size_t count, const Window& window,
                        std::uint16_t* halves) {
  const Value scale = hn::Set(F32(), window.scale);
  for (std::size_t i = 0; i < count; i += hn::Lanes(U32())) {
    if (i % 16 == 0) entries.ahead(i);
    const Value x = entries.x(i);
    const Word bits = hn::BitCast(U32(), x), magnitude = hn::And(bits, set(0x7fffffffU));
    const Word moved = hn::IfThenZeroElse(hn::Lt(magnitude, set(window.lowest)),
                                          hn::Sub(magnitude, set(window.base)));
    const Halves half = to_fp16(moved, hn::And(bits, set(0x80000000U)), window.limit);
    hn::StoreU(half, U16(), halves + i);
    if (Entries::kLeaves) leave(entries, i, x, hn::Mul(from_fp16(half, window.limit), scale));
  }
  entries.end(count);
}
void fp16_encode_run(const float* x, std::size_t count, const Window& window,
                     std::uint16_t* halves) {
  fp16_by(PlainLanes(x, kNext), count, window, halves);  // its top was looked for already
}
void fp16_mixed_run(const Mixed& block, const Window& window, std::uint16_t* halves) {
  with_mixed(block, [&](auto entries) HWY_ATTR { fp16_by(entries, block.count, window, halves); });
}

void fp16_add_run(const std::uint16_t* halves, std::size_t count, const Window& window,
                  float weight, float* y) {
  const Value scale = hn::Set(F32(), window.scale);
  for (std::size_t i = 0; i < count; i += hn::Lanes(U32())) {
    const Value value = from_fp16(hn::LoadU(U16(), halves + i), window.limit);
    add_to(y + i, weight, hn::Mul(value, scale));
  }
}

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
HWY_EXPORT(bf16_mixed_run);
HWY_EXPORT(bf16_add_run);
HWY_EXPORT(fp16_encode_run);
HWY_EXPORT(fp16_mixed_run);
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

// encode(entries, halves) for the entries that a block mixes.
template <class Encode>
void encode_mixed_pieces(const Mixed& block, std::uint8_t* halves, Encode encode) {
  const auto run = [&](std::size_t, const Mixed& some, std::uint16_t* h) { encode(some, h); };
  if (is_even(halves))
    return in_mixed_groups(block, run,
                           Out<std::uint16_t>{reinterpret_cast<std::uint16_t*>(halves)});
  alignas(64) std::uint16_t piece[kPiece];
  for (std::size_t from = 0; from < block.count; from += kPiece) {
    const std::size_t part = std::min(kPiece, block.count - from);
    in_mixed_groups(block.part(from, part), run, Out<std::uint16_t>{piece});
    std::memcpy(halves + 2 * from, piece, 2 * part);
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

Window window_of(unsigned top) {
  return {.base = (top - 141) << 23,  // modulo 2^32: negative for small tops
          .lowest = (top > 141 ? top - 141 : 1) << 23,
          .limit = fp16_limit(top),
          .scale = std::ldexp(1.0F, static_cast<int>(top) - 141)};
}

}  // namespace

bool bf16_encode(std::span<const float> x, std::uint8_t* halves) {
  std::uint32_t largest = 0;
  encode_pieces(x, halves, [&](std::size_t, std::size_t count, const float* x, std::uint16_t* h) {
    largest = std::max(largest, HWY_DYNAMIC_DISPATCH(bf16_encode_run)(x, count, h));
  });
  return largest < kInfinity;
}

bool bf16_encode_mixed(const Mixed& block, std::uint8_t* halves) {
  std::uint32_t largest = 0;
  encode_mixed_pieces(block, halves, [&](const Mixed& some, std::uint16_t* h) {
    largest = std::max(largest, HWY_DYNAMIC_DISPATCH(bf16_mixed_run)(some, h));
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
unsigned fp16_top(const Mixed& block) { return std::max(largest_magnitude(block) >> 23, 1U); }

void fp16_encode(std::span<const float> x, unsigned top, std::uint8_t* halves) {
  const Window window = window_of(top);
  encode_pieces(x, halves, [&](std::size_t, std::size_t count, const float* x, std::uint16_t* h) {
    HWY_DYNAMIC_DISPATCH(fp16_encode_run)(x, count, window, h);
  });
}

void fp16_encode_mixed(const Mixed& block, unsigned top, std::uint8_t* halves) {
  const Window window = window_of(top);
  encode_mixed_pieces(block, halves, [&](const Mixed& some, std::uint16_t* h) {
    HWY_DYNAMIC_DISPATCH(fp16_mixed_run)(some, window, h);
  });
}

void fp16_add(const std::uint8_t* halves, unsigned top, float weight, std::span<float> y) {
  const Window window = window_of(top);
  add_pieces(halves, y, [&](std::size_t, std::size_t count, const std::uint16_t* h, float* y) {
    HWY_DYNAMIC_DISPATCH(fp16_add_run)(h, count, window, weight, y);
  });
}

}  // namespace laconic::kernels
#endif  // HWY_ONCE

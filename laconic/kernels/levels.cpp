// Rounding to levels on vector lanes. Only operations whose result is fixed to the bit are used:
// add, subtract, multiply and divide, compares, conversions that lie in range, and integers.
#include "laconic/kernels/levels.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "laconic/kernels/groups.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "laconic/kernels/levels.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "laconic/kernels/draws-inl.h"
#include "laconic/kernels/sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace laconic::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using U32 = Hashed::U32;
using I32 = hn::RebindToSigned<U32>;
using F32 = hn::RebindToFloat<U32>;
using Bytes = hn::Rebind<std::uint8_t, U32>;
using Floats = hn::Vec<F32>;
using Ints = hn::Vec<I32>;
using Word = hn::Vec<U32>;

HWY_INLINE Floats set(float value) { return hn::Set(F32(), value); }
HWY_INLINE Ints ints(std::int32_t value) { return hn::Set(I32(), value); }

// (draw >> 8) / 2^24, exactly.
HWY_INLINE Floats uniform(Word draw) {
  const auto whole = hn::ConvertTo(F32(), hn::BitCast(I32(), hn::ShiftRight<8>(draw)));
  return hn::Mul(whole, set(0x1p-24F));
}

// Which fractions round up, a vector a call.
class AtRandom {
 public:
  HWY_INLINE AtRandom(std::uint32_t first, Key key) : draws_(first, key.word0(), key.word1()) {}
  HWY_INLINE auto up(Floats fraction) { return hn::Lt(uniform(draws_.next()), fraction); }

 private:
  Hashed draws_;
};
struct Nearest {
  HWY_INLINE auto up(Floats fraction) const { return hn::Gt(fraction, set(0.5F)); }
};

// For y in [0, 2^31). The conversion cuts off, and is exact on the way back.
template <class Rounder>
HWY_INLINE Ints rounded(Floats y, Rounder& rounder) {
  const Ints whole = hn::ConvertTo(I32(), y);
  const auto up = rounder.up(hn::Sub(y, hn::ConvertTo(F32(), whole)));
  return hn::Sub(whole, hn::VecFromMask(I32(), hn::RebindMask(I32(), up)));
}

// The level with the sign of x: the sign, spread over the lane, is 0 or -1.
HWY_INLINE Ints with_sign_of(Floats x, Ints level) {
  const Ints sign = hn::BroadcastSignBit(hn::BitCast(I32(), x));
  return hn::Sub(hn::Xor(level, sign), sign);
}

HWY_INLINE void add_to(float* y, float weight, Floats value) {
  hn::StoreU(hn::Add(hn::LoadU(F32(), y), hn::Mul(set(weight), value)), F32(), y);
}

template <class Rounder>
HWY_INLINE void to_levels_by(const float* x, std::size_t count, Scale scale, std::int32_t most,
                             Rounder rounder, std::int32_t* levels) {
  const Floats norm = set(scale.norm), steps = set(scale.steps), range = set(0x1p31F);
  const Ints limit = ints(most);
  for (std::size_t i = 0; i < count; i += hn::Lanes(F32())) {
    const Floats v = hn::LoadU(F32(), x + i);
    const Floats y = hn::Mul(hn::Div(hn::Abs(v), norm), steps);
    const auto inside = hn::Lt(y, range);  // y may be as large as Inf
    const Ints level = hn::Min(rounded(hn::IfThenElseZero(inside, y), rounder), limit);
    const Ints kept = hn::IfThenElse(hn::RebindMask(I32(), inside), level, limit);
    hn::StoreU(with_sign_of(v, kept), I32(), levels + i);
  }
}

void to_levels_at_random(const float* x, std::size_t count, Scale scale, std::int32_t most,
                         std::uint32_t first, Key key, std::int32_t* levels) {
  to_levels_by(x, count, scale, most, AtRandom(first, key), levels);
}
void to_levels_nearest(const float* x, std::size_t count, Scale scale, std::int32_t most,
                       std::int32_t* levels) {
  to_levels_by(x, count, scale, most, Nearest(), levels);
}

void add_levels_run(const std::int32_t* levels, std::size_t count, Scale scale, float weight,
                    float* y) {
  const Floats norm = set(scale.norm), steps = set(scale.steps);
  for (std::size_t i = 0; i < count; i += hn::Lanes(F32())) {
    const Floats level = hn::ConvertTo(F32(), hn::LoadU(I32(), levels + i));
    add_to(y + i, weight, hn::Mul(hn::Div(level, steps), norm));
  }
}

// `scale` is 2^(s-1), which takes the lowest level to 1.
void to_powers_run(const float* x, std::size_t count, float norm, int s, float scale,
                   std::uint32_t first, Key key, std::int32_t* levels) {
  const U32 d;
  Hashed draws(first, key.word0(), key.word1());
  const Word mantissa = hn::Set(d, (1U << 23) - 1);
  const Floats one = set(1);
  for (std::size_t i = 0; i < count; i += hn::Lanes(F32())) {
    const Floats v = hn::LoadU(F32(), x + i);
    const Floats ratio = hn::Div(hn::Abs(v), set(norm));
    const Floats y = hn::IfThenElse(hn::Lt(ratio, one), ratio, one);
    const Word draw = draws.next();
    // One carry rounds, as in natural compression; y <= 1 ends at the field of 1, 127.
    const Word field = hn::ShiftRight<23>(hn::Add(hn::BitCast(d, y), hn::And(draw, mantissa)));
    const Ints power = hn::Add(hn::BitCast(I32(), field), ints(s - 127));
    const Floats part = hn::Mul(y, set(scale));  // exact where it is used, below 1
    const auto lowest = hn::RebindMask(I32(), hn::Lt(uniform(draw), part));
    const auto below = hn::RebindMask(I32(), hn::Lt(part, one));
    const Ints level = hn::IfThenElse(below, hn::IfThenElseZero(lowest, ints(1)), power);
    hn::StoreU(with_sign_of(v, level), I32(), levels + i);
  }
}

void add_powers_run(const std::int32_t* levels, std::size_t count, float norm, int s, float weight,
                    float* y) {
  const U32 d;
  const Word sign_bit = hn::Set(d, 0x80000000U);
  for (std::size_t i = 0; i < count; i += hn::Lanes(F32())) {
    const Ints level = hn::LoadU(I32(), levels + i), size = hn::Abs(level);
    const Ints field = hn::ShiftLeft<23>(hn::Add(size, ints(127 - s)));
    const Ints power = hn::IfThenZeroElse(hn::Eq(size, ints(0)), field);
    const Word bits = hn::Or(hn::BitCast(d, power), hn::And(hn::BitCast(d, level), sign_bit));
    add_to(y + i, weight, hn::Mul(set(norm), hn::BitCast(F32(), bits)));
  }
}

template <class Rounder>
HWY_INLINE void to_codes_by(const float* x, std::size_t count, float low, float high, float last,
                            Rounder rounder, std::uint8_t* codes) {
  const float fit = high - low <= std::numeric_limits<float>::max() ? 1.0F : 0.5F;
  const Floats factor = set(fit), top = set(last), start = set(fit * low);
  const Floats range = set(fit * high - fit * low);
  for (std::size_t i = 0; i < count; i += hn::Lanes(F32())) {
    const Floats v = hn::Mul(hn::LoadU(F32(), x + i), factor);
    const Floats y = hn::Mul(hn::Div(hn::Sub(v, start), range), top);
    const Floats above = hn::IfThenElseZero(hn::Gt(y, hn::Zero(F32())), y);
    const Floats inside = hn::IfThenElse(hn::Lt(above, top), above, top);
    hn::StoreU(hn::DemoteTo(Bytes(), rounded(inside, rounder)), Bytes(), codes + i);
  }
}

void to_codes_at_random(const float* x, std::size_t count, float low, float high, float last,
                        std::uint32_t first, Key key, std::uint8_t* codes) {
  to_codes_by(x, count, low, high, last, AtRandom(first, key), codes);
}
void to_codes_nearest(const float* x, std::size_t count, float low, float high, float last,
                      std::uint8_t* codes) {
  to_codes_by(x, count, low, high, last, Nearest(), codes);
}

void add_codes_run(const std::uint8_t* codes, std::size_t count, float low, float high, float last,
                   float weight, float* y) {
  const Floats least = set(low), most = set(high);
  for (std::size_t i = 0; i < count; i += hn::Lanes(F32())) {
    const Word code = hn::PromoteTo(U32(), hn::LoadU(Bytes(), codes + i));
    const Floats t = hn::Div(hn::ConvertTo(F32(), hn::BitCast(I32(), code)), set(last));
    const Floats value = hn::Add(hn::Mul(least, hn::Sub(set(1), t)), hn::Mul(most, t));
    // Rounding may lead past the ends, and there to Inf.
    const Floats from_low = hn::IfThenElse(hn::Lt(value, least), least, value);
    add_to(y + i, weight, hn::IfThenElse(hn::Gt(from_low, most), most, from_low));
  }
}

void add_spread_run(const float* x, std::size_t count, float step, double* lanes) {
  const SummandOf df;
  const auto unit = hn::Set(df, step), one = hn::Set(df, 1.0F), whole = hn::Set(df, 0x1p24F);
  add_in_lanes(x, count, lanes, [&](auto v) HWY_ATTR {
    const auto ratio = hn::Div(hn::Abs(v), unit);
    const auto y = hn::IfThenElseZero(hn::Lt(ratio, whole), ratio);  // from 2^24 on all are whole
    const auto f = hn::Sub(y, hn::Floor(y));
    return hn::PromoteTo(Summand(), hn::Mul(f, hn::Sub(one, f)));
  });
}

void add_magnitudes_run(const float* x, std::size_t count, double* lanes) {
  add_in_lanes(x, count, lanes,
               [](auto v) HWY_ATTR { return hn::PromoteTo(Summand(), hn::Abs(v)); });
}

// Extends the range by `count` entries.
void extend_range(const float* x, std::size_t count, Range& range) {
  Floats low = set(range.low), high = set(range.high);
  for (std::size_t i = 0; i < count; i += hn::Lanes(F32())) {
    const Floats v = hn::LoadU(F32(), x + i);
    low = hn::Min(low, v);
    high = hn::Max(high, v);
  }
  range = {hn::GetLane(hn::MinOfLanes(F32(), low)), hn::GetLane(hn::MaxOfLanes(F32(), high))};
}

}  // namespace laconic::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace laconic::kernels {
namespace {

HWY_EXPORT(to_levels_at_random);
HWY_EXPORT(to_levels_nearest);
HWY_EXPORT(add_levels_run);
HWY_EXPORT(to_powers_run);
HWY_EXPORT(add_powers_run);
HWY_EXPORT(to_codes_at_random);
HWY_EXPORT(to_codes_nearest);
HWY_EXPORT(add_codes_run);
HWY_EXPORT(add_spread_run);
HWY_EXPORT(add_magnitudes_run);
HWY_EXPORT(extend_range);

// Calls run(x, count, low half of the position, key of the upper half, out) for whole groups whose
// positions have one upper half: draws depend on it through the key.
template <class T, class Run>
void for_draws(std::span<const float> x, Key key, std::uint64_t first, T* out, Run run) {
  for (std::size_t from = 0; from < x.size();) {
    const std::uint64_t position = first + from;
    const std::uint64_t room = (1ULL << 32) - (position & 0xffffffffU);
    const auto part = static_cast<std::size_t>(std::min<std::uint64_t>(x.size() - from, room));
    const Key high = key.fork(position >> 32);
    in_groups(
        part,
        [&](std::size_t skip, std::size_t count, const float* x, T* out) {
          run(x, count, static_cast<std::uint32_t>(position + skip), high, out);
        },
        In<float>{x.data() + from}, Out<T>{out + from});
    from += part;
  }
}

float last_code(unsigned bits) { return static_cast<float>((1U << bits) - 1); }

}  // namespace

void to_levels(std::span<const float> x, Scale scale, std::int32_t most, Rounding rounding, Key key,
               std::uint64_t first, std::int32_t* levels) {
  if (rounding == Rounding::nearest)
    return in_groups(
        x.size(),
        [&](std::size_t, std::size_t count, const float* x, std::int32_t* levels) {
          HWY_DYNAMIC_DISPATCH(to_levels_nearest)(x, count, scale, most, levels);
        },
        In<float>{x.data()}, Out<std::int32_t>{levels});
  for_draws(x, key, first, levels,
            [&](const float* x, std::size_t count, std::uint32_t low, Key high, std::int32_t* out) {
              HWY_DYNAMIC_DISPATCH(to_levels_at_random)(x, count, scale, most, low, high, out);
            });
}

void add_levels(const std::int32_t* levels, Scale scale, float weight, std::span<float> y) {
  in_groups(
      y.size(),
      [&](std::size_t, std::size_t count, const std::int32_t* levels, float* y) {
        HWY_DYNAMIC_DISPATCH(add_levels_run)(levels, count, scale, weight, y);
      },
      In<std::int32_t>{levels}, InOut<float>{y.data()});
}

void to_powers(std::span<const float> x, float norm, int s, Key key, std::uint64_t first,
               std::int32_t* levels) {
  const float scale = std::ldexp(1.0F, s - 1);
  for_draws(x, key, first, levels,
            [&](const float* x, std::size_t count, std::uint32_t low, Key high, std::int32_t* out) {
              HWY_DYNAMIC_DISPATCH(to_powers_run)(x, count, norm, s, scale, low, high, out);
            });
}

void add_powers(const std::int32_t* levels, float norm, int s, float weight, std::span<float> y) {
  in_groups(
      y.size(),
      [&](std::size_t, std::size_t count, const std::int32_t* levels, float* y) {
        HWY_DYNAMIC_DISPATCH(add_powers_run)(levels, count, norm, s, weight, y);
      },
      In<std::int32_t>{levels}, InOut<float>{y.data()});
}

void to_codes(std::span<const float> x, float low, float high, unsigned bits, Rounding rounding,
              Key key, std::uint64_t first, std::uint8_t* codes) {
  const float last = last_code(bits);
  if (rounding == Rounding::nearest)
    return in_groups(
        x.size(),
        [&](std::size_t, std::size_t count, const float* x, std::uint8_t* codes) {
          HWY_DYNAMIC_DISPATCH(to_codes_nearest)(x, count, low, high, last, codes);
        },
        In<float>{x.data()}, Out<std::uint8_t>{codes});
  for_draws(x, key, first, codes,
            [&](const float* x, std::size_t count, std::uint32_t at, Key upper, std::uint8_t* out) {
              HWY_DYNAMIC_DISPATCH(to_codes_at_random)(x, count, low, high, last, at, upper, out);
            });
}

void add_codes(const std::uint8_t* codes, float low, float high, unsigned bits, float weight,
               std::span<float> y) {
  in_groups(
      y.size(),
      [&](std::size_t, std::size_t count, const std::uint8_t* codes, float* y) {
        HWY_DYNAMIC_DISPATCH(add_codes_run)(codes, count, low, high, last_code(bits), weight, y);
      },
      In<std::uint8_t>{codes}, InOut<float>{y.data()});
}

double spread(std::span<const float> x, float step) {
  return sum_in_blocks(x, [step](const float* x, std::size_t count, double* lanes) {
    HWY_DYNAMIC_DISPATCH(add_spread_run)(x, count, step, lanes);
  });
}

double sum_of_magnitudes(std::span<const float> x) {
  return sum_in_blocks(x, [](const float* x, std::size_t count, double* lanes) {
    HWY_DYNAMIC_DISPATCH(add_magnitudes_run)(x, count, lanes);
  });
}

Range range_of(std::span<const float> x) {
  Range range{x[0], x[0]};
  const std::size_t whole = x.size() / kGroup * kGroup;  // the padding of a group would count
  HWY_DYNAMIC_DISPATCH(extend_range)(x.data(), whole, range);
  for (const float value : x.subspan(whole))
    range = {std::min(range.low, value), std::max(range.high, value)};
  return {range.low + 0.0F, range.high + 0.0F};  // -0 + 0 is 0
}

}  // namespace laconic::kernels
#endif  // HWY_ONCE

// Rounding to levels on vector lanes, and adding them back.
#include "laconic/kernels/levels.h"

#include <cmath>
#include <cstdlib>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "laconic/kernels/levels.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "laconic/kernels/mixed-inl.h"
#include "laconic/kernels/ones-inl.h"
#include "laconic/kernels/rounding-inl.h"
#include "laconic/kernels/sums-inl.h"

#ifndef LACONIC_KERNELS_LEVELS_ONCE
#define LACONIC_KERNELS_LEVELS_ONCE
namespace laconic::kernels {

// How entries become levels: times `factor`, rounded, at most `most`; and what these are worth.
struct Steps {
  float factor, most;
  Unit unit;
};

// The levels of natural dithering: `factor` takes the norm to 1, `scale`, 2^(s-1), the lowest
// level.
struct Powers {
  float factor, scale, norm;
  int s;
};

}  // namespace laconic::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace laconic::kernels::HWY_NAMESPACE {

// Levels beyond a byte, among four vectors that are stored as bytes already.
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
HWY_INLINE void store_wide(Ints a, Ints b, Ints c, Ints d, std::int8_t* small, std::int32_t* wide) {
  const I32 di;
  const std::size_t lanes = hn::Lanes(di);
  const auto marked = [&](Ints v, std::size_t number) LACONIC_INLINED {
    const auto beyond = hn::Gt(hn::Abs(v), hn::Set(di, kMostSmall));
    hn::BlendedStore(v, beyond, di, wide + number * lanes);  // touches no other entry
    return hn::IfThenElse(beyond, hn::Set(di, kWide), v);
  };
  const Ints e = marked(a, 0), f = marked(b, 1), g = marked(c, 2), h = marked(d, 3);
  store_signed(e, f, g, h, small);
}
#else
HWY_NOINLINE void store_wide(Ints a, Ints b, Ints c, Ints d, std::int8_t* small,
                             std::int32_t* wide) {
  const I32 di;
  const std::size_t lanes = hn::Lanes(di);
  std::int32_t levels[4 * 16];
  hn::StoreU(a, di, levels);
  hn::StoreU(b, di, levels + lanes);
  hn::StoreU(c, di, levels + 2 * lanes);
  hn::StoreU(d, di, levels + 3 * lanes);
  for (std::size_t i = 0; i < 4 * lanes; ++i) LevelSpan{small, wide}.set(i, levels[i]);
}
#endif

// Sums in 16 lanes, as many vectors as that takes.
class LaneSum {
 public:
  static constexpr std::size_t kVectors = kSumLanes / hn::MaxLanes(F32());

  HWY_INLINE explicit LaneSum(const float* lanes) {
    for (std::size_t v = 0; v < kVectors; ++v)
      sum_[v] = hn::LoadU(F32(), lanes + v * hn::MaxLanes(F32()));
  }
  HWY_INLINE void add(Values term, std::size_t vector) {
    sum_[vector] = hn::Add(sum_[vector], term);
  }
  HWY_INLINE void store(float* lanes) const {
    for (std::size_t v = 0; v < kVectors; ++v)
      hn::StoreU(sum_[v], F32(), lanes + v * hn::MaxLanes(F32()));
  }

 private:
  Values sum_[kVectors];
};

struct Spread {
  LaneSum variance, squares;
  HWY_INLINE void add(Values y, std::size_t vector) {
    const Values f = hn::Sub(y, hn::Floor(y));
    variance.add(hn::Mul(f, hn::Sub(set(1), f)), vector);
    squares.add(hn::Mul(y, y), vector);
  }
};
struct NoSpread {
  HWY_INLINE void add(Values, std::size_t) const {}
};

// What levels are worth, where something is left of the entries.
class LevelWorth {
 public:
  HWY_INLINE explicit LevelWorth(Unit unit)
      : by_(set(unit.unit)), low_(set(-unit.limit)), high_(set(unit.limit)) {}
  HWY_INLINE Values of(Ints level) const {
    return hn::Max(hn::Min(hn::Mul(hn::ConvertTo(F32(), level), by_), high_), low_);
  }

 private:
  Values by_, low_, high_;
};

template <bool kMayBeWide, class Entries, class Rounder, class Sum>
HWY_INLINE void to_levels_by(Entries entries, std::size_t count, const Steps& steps,
                             Rounder rounder, Sum& sum, LevelSpan levels) {
  const F32 df;
  constexpr std::size_t lanes = hn::MaxLanes(F32());
  const Values by = set(steps.factor), limit = set(steps.most);
  const LevelWorth worth(steps.unit);
  for (std::size_t i = 0; i < count; i += 4 * lanes) {
    Values largest = hn::Zero(df);
    all_ahead(entries, i, 4 * lanes);
    // The vector's place among the lanes of a sum is known when this is compiled, unless vectors
    // are tiny.
    const std::size_t start = 4 * lanes % kSumLanes == 0 ? 0 : i % kSumLanes / lanes;
    const auto level = [&](std::size_t number) LACONIC_INLINED {
      const Values v = entries.x(i + number * lanes);
      const Values y = hn::Mul(hn::Abs(v), by);
      sum.add(y, (start + number) % LaneSum::kVectors);
      const Values moved = hn::Min(rounder.add(y, v), limit);
      if (kMayBeWide) largest = hn::Max(largest, moved);
      const Ints whole = whole_part(hn::CopySignToAbs(moved, v));
      if (Entries::kLeaves) entries.leave(i + number * lanes, v, worth.of(whole));
      return whole;
    };
    const Ints a = level(0), b = level(1), c = level(2), d = level(3);
    store_signed(a, b, c, d, levels.small + i);
    if (kMayBeWide && !hn::AllTrue(df, hn::Lt(largest, set(kMostSmall + 1))))
      store_wide(a, b, c, d, levels.small + i, levels.wide + i);
  }
  entries.end(count);
}

void small_at_random(const float* x, std::size_t count, const Steps& steps, std::uint32_t first,
                     const Draws& draws, LevelSpan levels) {
  NoSpread none;
  with_draws(first, draws, [&](auto drawn) HWY_ATTR {
    to_levels_by<false>(PlainLanes(x), count, steps, AtRandom(drawn), none, levels);
  });
}
void wide_at_random(const float* x, std::size_t count, const Steps& steps, std::uint32_t first,
                    const Draws& draws, LevelSpan levels) {
  NoSpread none;
  with_draws(first, draws, [&](auto drawn) HWY_ATTR {
    to_levels_by<true>(PlainLanes(x), count, steps, AtRandom(drawn), none, levels);
  });
}
void spread_at_random(const float* x, std::size_t count, const Steps& steps, std::uint32_t first,
                      const Draws& draws, LevelSpan levels, float* variance, float* squares) {
  Spread sum{LaneSum(variance), LaneSum(squares)};
  with_draws(first, draws, [&](auto drawn) HWY_ATTR {
    to_levels_by<true>(PlainLanes(x), count, steps, AtRandom(drawn), sum, levels);
  });
  sum.variance.store(variance);
  sum.squares.store(squares);
}
void to_levels_nearest(const float* x, std::size_t count, const Steps& steps, LevelSpan levels) {
  NoSpread none;
  to_levels_by<true>(PlainLanes(x), count, steps, ToNearest(), none, levels);
}

// The same for mixed entries, whose levels are subtracted while they are in registers.
void mixed_at_random(const Mixed& block, const Steps& steps, std::uint32_t first,
                     const Draws& draws, LevelSpan levels) {
  NoSpread none;
  with_mixed(block, [&](auto entries) HWY_ATTR {
    with_draws(first, draws, [&](auto drawn) HWY_ATTR {
      to_levels_by<true>(entries, block.count, steps, AtRandom(drawn), none, levels);
    });
  });
}
void mixed_spread_at_random(const Mixed& block, const Steps& steps, std::uint32_t first,
                            const Draws& draws, LevelSpan levels, float* variance, float* squares) {
  Spread sum{LaneSum(variance), LaneSum(squares)};
  with_mixed(block, [&](auto entries) HWY_ATTR {
    with_draws(first, draws, [&](auto drawn) HWY_ATTR {
      to_levels_by<true>(entries, block.count, steps, AtRandom(drawn), sum, levels);
    });
  });
  sum.variance.store(variance);
  sum.squares.store(squares);
}
void mixed_nearest(const Mixed& block, const Steps& steps, LevelSpan levels) {
  NoSpread none;
  with_mixed(block, [&](auto entries) HWY_ATTR {
    to_levels_by<true>(entries, block.count, steps, ToNearest(), none, levels);
  });
}

using SignedBytes = hn::Rebind<std::int8_t, U32>;

HWY_INLINE Ints load_levels(const std::int8_t* small) {
  return hn::PromoteTo(I32(), hn::LoadU(SignedBytes(), small));
}

void add_levels_run(LevelView levels, std::size_t count, Unit unit, float weight, float* y) {
  const F32 df;
  const I32 di;
  const std::size_t lanes = hn::Lanes(df);
  const LevelWorth worth(unit);
  const Values w = set(weight);
  const Ints marker = hn::Set(di, kWide);
  for (std::size_t i = 0; i < count; i += lanes) {
    Ints level = load_levels(levels.small + i);
    const auto beyond = hn::Eq(level, marker);
    if (levels.wide && !hn::AllFalse(di, beyond)) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
      level = hn::IfThenElse(beyond, hn::MaskedLoad(beyond, di, levels.wide + i), level);
#else
      std::int32_t some[16];
      for (std::size_t j = 0; j < lanes; ++j) some[j] = levels[i + j];
      level = hn::LoadU(di, some);
#endif
    }
    add_to(y + i, w, worth.of(level));
  }
}

// What they are worth.
HWY_INLINE Values power_of(Ints level, const Powers& powers) {
  const U32 d;
  const I32 di;
  const Ints size = hn::Abs(level);
  const Ints field = hn::ShiftLeft<23>(hn::Add(size, hn::Set(di, 127 - powers.s)));
  const Ints power = hn::IfThenZeroElse(hn::Eq(size, hn::Zero(di)), field);
  const Word sign = hn::And(hn::BitCast(d, level), hn::Set(d, 0x80000000U));
  return hn::Mul(set(powers.norm), hn::BitCast(F32(), hn::Or(hn::BitCast(d, power), sign)));
}

template <class Entries, class Drawn>
HWY_INLINE void to_powers_by(Entries entries, std::size_t count, const Powers& powers, Drawn draws,
                             std::int8_t* levels) {
  const U32 d;
  const I32 di;
  const std::size_t lanes = hn::Lanes(d);
  const Values one = set(1), by = set(powers.factor), scale = set(powers.scale);
  const auto level = [&](std::size_t at) LACONIC_INLINED {
    const Values v = entries.x(at);
    const Values y = hn::Min(hn::Mul(hn::Abs(v), by), one);
    const Word draw = draws.next(hn::BitCast(d, v));
    // One carry rounds, as in natural compression; y <= 1 ends at the field of 1, 127.
    const Word field = hn::ShiftRight<23>(hn::Add(hn::BitCast(d, y), draws.mantissa(draw)));
    const Ints power = hn::Add(hn::BitCast(di, field), hn::Set(di, powers.s - 127));
    const Values part = hn::Mul(y, scale);  // exact where it is used, below 1
    const auto lowest = hn::RebindMask(di, hn::Lt(uniform(draw), part));
    const auto below = hn::RebindMask(di, hn::Lt(part, one));
    const Ints size = hn::IfThenElse(below, hn::IfThenElseZero(lowest, hn::Set(di, 1)), power);
    const Ints sign = hn::BroadcastSignBit(hn::BitCast(di, v));
    const Ints whole = hn::Sub(hn::Xor(size, sign), sign);
    if (Entries::kLeaves) entries.leave(at, v, power_of(whole, powers));
    return whole;
  };
  for (std::size_t i = 0; i < count; i += 4 * lanes) {
    all_ahead(entries, i, 4 * lanes);
    const Ints a = level(i), b = level(i + lanes), c = level(i + 2 * lanes),
               e = level(i + 3 * lanes);
    store_signed(a, b, c, e, levels + i);
  }
  entries.end(count);
}

void to_powers_run(const float* x, std::size_t count, const Powers& powers, std::uint32_t first,
                   const Draws& draws, std::int8_t* levels) {
  with_draws(first, draws, [&](auto drawn) HWY_ATTR {
    to_powers_by(PlainLanes(x), count, powers, drawn, levels);
  });
}
void mixed_to_powers(const Mixed& block, const Powers& powers, std::uint32_t first,
                     const Draws& draws, std::int8_t* levels) {
  with_mixed(block, [&](auto entries) HWY_ATTR {
    with_draws(first, draws, [&](auto drawn) HWY_ATTR {
      to_powers_by(entries, block.count, powers, drawn, levels);
    });
  });
}

void add_powers_run(const std::int8_t* levels, std::size_t count, const Powers& powers,
                    float weight, float* y) {
  const Values w = set(weight);
  for (std::size_t i = 0; i < count; i += hn::Lanes(U32())) {
    add_to(y + i, w, power_of(load_levels(levels + i), powers));
  }
}

#if HWY_TARGET == HWY_SCALAR
HWY_INLINE std::uint64_t nonzero_word(const std::int8_t* small) {
  std::uint64_t word = 0;
  for (std::size_t i = 0; i < 64; ++i) word |= static_cast<std::uint64_t>(small[i] != 0) << i;
  return word;
}
#else
HWY_INLINE std::uint64_t nonzero_word(const std::int8_t* small) {
  const hn::CappedTag<std::int8_t, 64> d;
  std::uint8_t bits[8];
  for (std::size_t at = 0; at < 64; at += hn::Lanes(d))
    hn::StoreMaskBits(d, hn::Ne(hn::LoadU(d, small + at), hn::Zero(d)), bits + at / 8);
  return load<std::uint64_t>(bits);
}
#endif

// Four positions at a time are written without asking how many there are.
std::size_t nonzero_levels_run(const std::int8_t* small, std::size_t count, std::uint32_t* to) {
  const std::uint32_t* const start = to;
  for (std::size_t i = 0; i < count; i += 64)
    if (const std::uint64_t word = nonzero_word(small + i); word != 0)
      to = put_ones(word, static_cast<std::uint32_t>(i), to);
  return static_cast<std::size_t>(to - start);
}

// Terms come first, at the full width of floats: sums in double have a quarter of it.
void add_spread_run(const float* x, std::size_t count, float step, double* lanes) {
  constexpr std::size_t kPiece = 256;
  const F32 df;
  const Values unit = set(step), one = set(1), whole = set(0x1p24F);
  float terms[kPiece];
  for (std::size_t from = 0; from < count; from += kPiece) {
    const std::size_t part = std::min(kPiece, count - from);
    for (std::size_t i = 0; i < part; i += hn::Lanes(df)) {
      const Values ratio = hn::Div(hn::Abs(hn::LoadU(df, x + from + i)), unit);
      const Values y =
          hn::IfThenElseZero(hn::Lt(ratio, whole), ratio);  // from 2^24 on all are whole
      const Values f = hn::Sub(y, hn::Floor(y));
      hn::StoreU(hn::Mul(f, hn::Sub(one, f)), df, terms + i);
    }
    add_in_lanes(terms, part, lanes, [](auto v) HWY_ATTR { return hn::PromoteTo(Summand(), v); });
  }
}

}  // namespace laconic::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace laconic::kernels {
namespace {

HWY_EXPORT(small_at_random);
HWY_EXPORT(wide_at_random);
HWY_EXPORT(spread_at_random);
HWY_EXPORT(to_levels_nearest);
HWY_EXPORT(mixed_at_random);
HWY_EXPORT(mixed_spread_at_random);
HWY_EXPORT(mixed_nearest);
HWY_EXPORT(add_levels_run);
HWY_EXPORT(to_powers_run);
HWY_EXPORT(mixed_to_powers);
HWY_EXPORT(add_powers_run);
HWY_EXPORT(nonzero_levels_run);
HWY_EXPORT(add_spread_run);

// Calls run(from, part, x) for all of x, times `first`: 1 but for norms that hardly any gradient
// has.
template <class Run>
void in_scaled(std::span<const float> x, float first, Run run) {
  if (first == 1) return run(std::size_t{0}, x);
  float scaled[1024];
  for (std::size_t from = 0; from < x.size(); from += std::size(scaled)) {
    const std::size_t part = std::min(std::size(scaled), x.size() - from);
    for (std::size_t i = 0; i < part; ++i) scaled[i] = x[from + i] * first;
    run(from, std::span<const float>(scaled, part));
  }
}

// Calls run(x, count, position's low half, draws, levels) for whole groups of x in levels. Padding
// gives levels of 0, never wide ones.
template <class Run>
void in_level_groups(std::span<const float> x, float scaled_by, const Draws& draws,
                     std::uint64_t first, LevelSpan levels, Run run) {
  in_scaled(x, scaled_by, [&](std::size_t begin, std::span<const float> x) {
    in_draws(x.size(), draws, first + begin,
             [&](std::size_t from, std::size_t part, std::uint32_t low, const Draws& high) {
               const LevelSpan to = levels.from(begin + from);
               in_groups(
                   part,
                   [&](std::size_t skip, std::size_t count, const float* x, std::int8_t* small) {
                     run(x, count, static_cast<std::uint32_t>(low + skip), high,
                         LevelSpan{small, to.wide ? to.wide + skip : nullptr});
                   },
                   In<float>{x.data() + from}, Out<std::int8_t>{to.small});
             });
  });
}

// The same for mixed entries that need no scaling: run(some, position's low half, draws, levels).
// Returns false, with nothing done, where positions cross a multiple of 2^32.
template <class Run>
bool in_mixed_levels(const Mixed& block, const Draws& draws, std::uint64_t first, LevelSpan levels,
                     Run run) {
  if (first >> 32 != (first + block.count) >> 32) return false;
  const Draws high = draws.fork(first >> 32);
  in_mixed_groups(
      block,
      [&](std::size_t from, const Mixed& some, std::int8_t* small) {
        run(some, static_cast<std::uint32_t>(first + from), high,
            LevelSpan{small, levels.wide ? levels.wide + from : nullptr});
      },
      Out<std::int8_t>{levels.small});
  return true;
}

struct SpreadLanes {
  float variance[kSumLanes] = {}, squares[kSumLanes] = {};

  Spreads sums() const {
    Spreads sums;
    for (const float lane : variance) sums.variance += static_cast<double>(lane);
    for (const float lane : squares) sums.squares += static_cast<double>(lane);
    return sums;
  }
};

Powers powers_of(float norm, int s, Factors factors) {
  return {factors.second, std::ldexp(1.0F, s - 1), norm, s};
}

}  // namespace

Factors factors_of(Scale scale) {
  const float first = scale.norm < 0x1p-80F ? 0x1p80F : scale.norm > 0x1p80F ? 0x1p-80F : 1.0F;
  const float norm = scale.norm * first;
  float second = scale.steps / norm;
  if (norm * second < scale.steps) second = std::nextafter(second, 0x1p127F);
  return {first, second};
}

void to_levels(std::span<const float> x, Scale scale, std::int32_t most, Rounding rounding,
               const Draws& draws, std::uint64_t first, LevelSpan levels) {
  const Factors factors = factors_of(scale);
  const Steps steps{factors.second, static_cast<float>(most), unit_of(scale)};
  in_level_groups(x, factors.first, draws, first, levels,
                  [&](const float* x, std::size_t count, std::uint32_t low, const Draws& high,
                      LevelSpan levels) {
                    if (rounding == Rounding::nearest) HWY_DYNAMIC_DISPATCH(to_levels_nearest)
                    (x, count, steps, levels);
                    else if (most <= kMostSmall)
                        HWY_DYNAMIC_DISPATCH(small_at_random)(x, count, steps, low, high, levels);
                    else HWY_DYNAMIC_DISPATCH(wide_at_random)(x, count, steps, low, high, levels);
                  });
}

bool to_levels_mixed(const Mixed& block, Scale scale, std::int32_t most, Rounding rounding,
                     const Draws& draws, std::uint64_t first, LevelSpan levels) {
  const Factors factors = factors_of(scale);
  const Steps steps{factors.second, static_cast<float>(most), unit_of(scale)};
  return factors.first == 1 &&
         in_mixed_levels(
             block, draws, first, levels,
             [&](const Mixed& some, std::uint32_t low, const Draws& high, LevelSpan levels) {
               if (rounding == Rounding::nearest) HWY_DYNAMIC_DISPATCH(mixed_nearest)
               (some, steps, levels);
               else HWY_DYNAMIC_DISPATCH(mixed_at_random)(some, steps, low, high, levels);
             });
}

Spreads to_levels_and_spread(std::span<const float> x, Scale scale, std::int32_t most,
                             const Draws& draws, std::uint64_t first, LevelSpan levels) {
  const Factors factors = factors_of(scale);
  const Steps steps{factors.second, static_cast<float>(most), {}};
  SpreadLanes lanes;
  in_level_groups(x, factors.first, draws, first, levels,
                  [&](const float* x, std::size_t count, std::uint32_t low, const Draws& high,
                      LevelSpan levels) {
                    HWY_DYNAMIC_DISPATCH(spread_at_random)
                    (x, count, steps, low, high, levels, lanes.variance, lanes.squares);
                  });
  return lanes.sums();
}

std::optional<Spreads> to_levels_and_spread_mixed(const Mixed& block, Scale scale, Unit unit,
                                                  std::int32_t most, const Draws& draws,
                                                  std::uint64_t first, LevelSpan levels) {
  const Factors factors = factors_of(scale);
  const Steps steps{factors.second, static_cast<float>(most), unit};
  SpreadLanes lanes;
  if (factors.first != 1 ||
      !in_mixed_levels(
          block, draws, first, levels,
          [&](const Mixed& some, std::uint32_t low, const Draws& high, LevelSpan levels) {
            HWY_DYNAMIC_DISPATCH(mixed_spread_at_random)
            (some, steps, low, high, levels, lanes.variance, lanes.squares);
          }))
    return {};
  return lanes.sums();
}

void add_levels(LevelView levels, Unit unit, float weight, std::span<float> y) {
  in_groups(
      y.size(),
      [&](std::size_t from, std::size_t count, const std::int8_t* small, float* y) {
        const std::int32_t* wide = levels.wide ? levels.wide + from : nullptr;
        HWY_DYNAMIC_DISPATCH(add_levels_run)(LevelView{small, wide}, count, unit, weight, y);
      },
      In<std::int8_t>{levels.small}, InOut<float>{y.data()});
}

std::uint32_t largest_level(LevelView levels, std::size_t count) {
  std::uint8_t most = 0;  // that of kWide is 128
  for (std::size_t i = 0; i < count; ++i) {
    const std::int8_t level = levels.small[i];
    most = std::max(most, static_cast<std::uint8_t>(level < 0 ? -level : level));
  }
  std::uint32_t largest = most;
  if (largest <= kMostSmall) return largest;
  // Stretches without a wide level are not looked at again, and others without a branch.
  for (std::size_t from = 0; from < count; from += 64) {
    const std::size_t end = std::min(count, from + 64);
    if (std::find(levels.small + from, levels.small + end, kWide) == levels.small + end) continue;
    for (std::size_t i = from; i < end; ++i) {
      const auto is_wide = 0U - static_cast<std::uint32_t>(levels.small[i] == kWide);
      largest = std::max(largest, static_cast<std::uint32_t>(std::abs(levels.wide[i])) & is_wide);
    }
  }
  return largest;
}

std::size_t nonzero_levels(const std::int8_t* small, std::size_t count, std::uint32_t* to) {
  std::size_t number = 0;
  in_groups(
      count,
      [&](std::size_t from, std::size_t part, const std::int8_t* small) {
        const std::size_t here = HWY_DYNAMIC_DISPATCH(nonzero_levels_run)(small, part, to + number);
        for (std::size_t i = 0; from > 0 && i < here; ++i)
          to[number + i] += static_cast<std::uint32_t>(from);
        number += here;
      },
      In<std::int8_t>{small});
  return number;
}

void to_powers(std::span<const float> x, float norm, int s, const Draws& draws, std::uint64_t first,
               std::int8_t* levels) {
  const Factors factors = factors_of({norm, 1});
  const Powers powers = powers_of(norm, s, factors);
  in_level_groups(x, factors.first, draws, first, {levels},
                  [&](const float* x, std::size_t count, std::uint32_t low, const Draws& high,
                      LevelSpan levels) {
                    HWY_DYNAMIC_DISPATCH(to_powers_run)
                    (x, count, powers, low, high, levels.small);
                  });
}

bool to_powers_mixed(const Mixed& block, float norm, int s, const Draws& draws, std::uint64_t first,
                     std::int8_t* levels) {
  const Factors factors = factors_of({norm, 1});
  const Powers powers = powers_of(norm, s, factors);
  return factors.first == 1 && in_mixed_levels(block, draws, first, {levels},
                                               [&](const Mixed& some, std::uint32_t low,
                                                   const Draws& high, LevelSpan levels) {
                                                 HWY_DYNAMIC_DISPATCH(mixed_to_powers)
                                                 (some, powers, low, high, levels.small);
                                               });
}

void add_powers(const std::int8_t* levels, float norm, int s, float weight, std::span<float> y) {
  const Powers powers = powers_of(norm, s, {});
  in_groups(
      y.size(),
      [&](std::size_t, std::size_t count, const std::int8_t* levels, float* y) {
        HWY_DYNAMIC_DISPATCH(add_powers_run)(levels, count, powers, weight, y);
      },
      In<std::int8_t>{levels}, InOut<float>{y.data()});
}

double spread(std::span<const float> x, float step) {
  return sum_in_blocks(x, [step](const float* x, std::size_t count, double* lanes) {
    HWY_DYNAMIC_DISPATCH(add_spread_run)(x, count, step, lanes);
  });
}

}  // namespace laconic::kernels
#endif  // HWY_ONCE

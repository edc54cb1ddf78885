// Rounding to codes in a range on vector lanes, and adding them back.
#include "laconic/kernels/codes.h"

#include <cmath>
#include <limits>

#include "laconic/kernels/reduce.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "laconic/kernels/codes.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "laconic/kernels/mixed-inl.h"
#include "laconic/kernels/rounding-inl.h"

#ifndef LACONIC_KERNELS_CODES_ONCE
#define LACONIC_KERNELS_CODES_ONCE
namespace laconic::kernels {

// How an entry becomes a place among the codes, and what these are worth.
struct Ruler {
  float fit, start, factor, last;
  float low, high, share;
};

}  // namespace laconic::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace laconic::kernels::HWY_NAMESPACE {

// What codes are worth. Rounding may lead past the ends, and there to Inf.
class CodeWorth {
 public:
  HWY_INLINE explicit CodeWorth(const Ruler& ruler)
      : least_(set(ruler.low)), most_(set(ruler.high)), by_(set(ruler.share)) {}
  HWY_INLINE Values of(Ints code) const {
    const Values t = hn::Mul(hn::ConvertTo(F32(), code), by_);
    const Values value = hn::Add(hn::Mul(least_, hn::Sub(set(1), t)), hn::Mul(most_, t));
    return hn::Min(hn::Max(value, least_), most_);
  }

 private:
  Values least_, most_, by_;
};

template <class Entries, class Rounder>
HWY_INLINE void to_codes_by(Entries entries, std::size_t count, const Ruler& ruler, Rounder rounder,
                            std::uint8_t* codes) {
  const F32 df;
  const std::size_t lanes = hn::Lanes(df);
  const Values fit = set(ruler.fit), start = set(ruler.start), factor = set(ruler.factor);
  const Values top = set(ruler.last), zero = hn::Zero(df);
  const CodeWorth worth(ruler);
  const auto code = [&](std::size_t at) LACONIC_INLINED {
    const Values x = entries.x(at);
    const Values place = hn::Mul(hn::Sub(hn::Mul(x, fit), start), factor);
    const Ints whole = whole_part(hn::Min(rounder.add(hn::Max(place, zero), zero), top));
    // Receivers add to 0, which makes 0 of -0.
    if (Entries::kLeaves) entries.leave(at, x, hn::Add(zero, worth.of(whole)));
    return whole;
  };
  for (std::size_t i = 0; i < count; i += 4 * lanes) {
    all_ahead(entries, i, 4 * lanes);
    const Ints a = code(i), b = code(i + lanes), c = code(i + 2 * lanes), d = code(i + 3 * lanes);
    store_unsigned(a, b, c, d, codes + i);
  }
  entries.end(count);
}

void to_codes_at_random(const float* x, std::size_t count, const Ruler& ruler, std::uint32_t first,
                        const Draws& draws, std::uint8_t* codes) {
  with_draws(first, draws, [&](auto drawn) HWY_ATTR {
    to_codes_by(PlainLanes(x), count, ruler, AtRandom(drawn), codes);
  });
}
void to_codes_nearest(const float* x, std::size_t count, const Ruler& ruler, std::uint8_t* codes) {
  to_codes_by(PlainLanes(x), count, ruler, ToNearest(), codes);
}
void mixed_at_random(const Mixed& block, const Ruler& ruler, std::uint32_t first,
                     const Draws& draws, std::uint8_t* codes) {
  with_mixed(block, [&](auto entries) HWY_ATTR {
    with_draws(first, draws, [&](auto drawn) HWY_ATTR {
      to_codes_by(entries, block.count, ruler, AtRandom(drawn), codes);
    });
  });
}
void mixed_nearest(const Mixed& block, const Ruler& ruler, std::uint8_t* codes) {
  with_mixed(block, [&](auto entries)
                        HWY_ATTR { to_codes_by(entries, block.count, ruler, ToNearest(), codes); });
}

void add_codes_run(const std::uint8_t* codes, std::size_t count, const Ruler& ruler, float weight,
                   float* y) {
  const CodeWorth worth(ruler);
  const Values w = set(weight);
  for (std::size_t i = 0; i < count; i += hn::Lanes(F32())) {
    const Word code = hn::PromoteTo(U32(), hn::LoadU(Bytes(), codes + i));
    add_to(y + i, w, worth.of(hn::BitCast(I32(), code)));
  }
}

// Extends the range by `count` entries, and the largest magnitude.
void extend_range(const float* x, std::size_t count, Range& range, std::uint32_t& magnitude) {
  const U32 d;
  const F32 df;
  const std::size_t lanes = hn::Lanes(df);
  Values low = set(range.low), high = set(range.high), low2 = low, high2 = high;
  Word largest = hn::Zero(d);
  const Word mask = hn::Set(d, 0x7fffffffU);
  for (std::size_t i = 0; i < count; i += 2 * lanes) {
    for (std::size_t at = i; at < i + 2 * lanes; at += 16) fetch_ahead(x + at + kReadAhead);
    const Values a = hn::LoadU(df, x + i), b = hn::LoadU(df, x + i + lanes);
    low = hn::Min(low, a);
    high = hn::Max(high, a);
    low2 = hn::Min(low2, b);
    high2 = hn::Max(high2, b);
    largest = hn::Max(largest,
                      hn::Max(hn::And(hn::BitCast(d, a), mask), hn::And(hn::BitCast(d, b), mask)));
  }
  range.low = hn::GetLane(hn::MinOfLanes(df, hn::Min(low, low2)));
  range.high = hn::GetLane(hn::MaxOfLanes(df, hn::Max(high, high2)));
  magnitude = hn::GetLane(hn::MaxOfLanes(d, largest));
}

}  // namespace laconic::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace laconic::kernels {
namespace {

HWY_EXPORT(to_codes_at_random);
HWY_EXPORT(to_codes_nearest);
HWY_EXPORT(mixed_at_random);
HWY_EXPORT(mixed_nearest);
HWY_EXPORT(add_codes_run);
HWY_EXPORT(extend_range);

float last_code(unsigned bits) { return static_cast<float>((1U << bits) - 1); }

Ruler ruler_of(float low, float high, unsigned bits) {
  const float range = high - low;
  const float fit = !(range <= std::numeric_limits<float>::max()) ? 0.5F
                    : range < 0x1p-100F                           ? 0x1p64F
                                                                  : 1.0F;
  Ruler ruler{fit, fit * low, 0, last_code(bits), low, high, 1 / last_code(bits)};
  const float fitted = fit * high - fit * low;
  ruler.factor = ruler.last / fitted;
  if (fitted * ruler.factor < ruler.last) ruler.factor = std::nextafter(ruler.factor, 0x1p127F);
  return ruler;
}

}  // namespace

void to_codes(std::span<const float> x, float low, float high, unsigned bits, Rounding rounding,
              const Draws& draws, std::uint64_t first, std::uint8_t* codes) {
  const Ruler ruler = ruler_of(low, high, bits);
  if (rounding == Rounding::nearest)
    return in_groups(
        x.size(),
        [&](std::size_t, std::size_t count, const float* x, std::uint8_t* codes) {
          HWY_DYNAMIC_DISPATCH(to_codes_nearest)(x, count, ruler, codes);
        },
        In<float>{x.data()}, Out<std::uint8_t>{codes});
  in_draws(x.size(), draws, first,
           [&](std::size_t from, std::size_t part, std::uint32_t at, const Draws& upper) {
             in_groups(
                 part,
                 [&](std::size_t skip, std::size_t count, const float* x, std::uint8_t* codes) {
                   HWY_DYNAMIC_DISPATCH(to_codes_at_random)
                   (x, count, ruler, static_cast<std::uint32_t>(at + skip), upper, codes);
                 },
                 In<float>{x.data() + from}, Out<std::uint8_t>{codes + from});
           });
}

bool to_codes_mixed(const Mixed& block, float low, float high, unsigned bits, Rounding rounding,
                    const Draws& draws, std::uint64_t first, std::uint8_t* codes) {
  if (first >> 32 != (first + block.count) >> 32) return false;
  const Ruler ruler = ruler_of(low, high, bits);
  const Draws upper = draws.fork(first >> 32);
  in_mixed_groups(
      block,
      [&](std::size_t from, const Mixed& some, std::uint8_t* codes) {
        if (rounding == Rounding::nearest)
          HWY_DYNAMIC_DISPATCH(mixed_nearest)(some, ruler, codes);
        else
          HWY_DYNAMIC_DISPATCH(mixed_at_random)
        (some, ruler, static_cast<std::uint32_t>(first + from), upper, codes);
      },
      Out<std::uint8_t>{codes});
  return true;
}

void add_codes(const std::uint8_t* codes, float low, float high, unsigned bits, float weight,
               std::span<float> y) {
  Ruler ruler{};
  ruler.low = low, ruler.high = high, ruler.share = 1 / last_code(bits);
  in_groups(
      y.size(),
      [&](std::size_t, std::size_t count, const std::uint8_t* codes, float* y) {
        HWY_DYNAMIC_DISPATCH(add_codes_run)(codes, count, ruler, weight, y);
      },
      In<std::uint8_t>{codes}, InOut<float>{y.data()});
}

Range range_of(std::span<const float> x) {
  Range range{x[0], x[0], true};
  std::uint32_t largest = 0;
  const std::size_t whole = x.size() / kGroup * kGroup;  // the padding of a group would count
  HWY_DYNAMIC_DISPATCH(extend_range)(x.data(), whole, range, largest);
  for (const float value : x.subspan(whole))
    range = {std::min(range.low, value), std::max(range.high, value), true};
  range.finite = largest < kInfinity && all_finite(x.subspan(whole));
  return {range.low + 0.0F, range.high + 0.0F, range.finite};  // -0 + 0 is 0
}

}  // namespace laconic::kernels
#endif  // HWY_ONCE

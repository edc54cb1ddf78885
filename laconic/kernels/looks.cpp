// Mixing, looking at what comes of it, and keeping that or not.
#include "laconic/kernels/looks.h"

#include <algorithm>

#include "laconic/kernels/reduce.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "laconic/kernels/looks.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "laconic/kernels/mixed-inl.h"
#include "laconic/kernels/rounding-inl.h"
#include "laconic/kernels/sums-inl.h"

#ifndef LACONIC_KERNELS_LOOKS_ONCE
#define LACONIC_KERNELS_LOOKS_ONCE
namespace laconic::kernels {

// What clipping needs, in the lanes of sums.
struct Moments {
  double squares[kSumLanes] = {}, sums[kSumLanes] = {};
  std::uint32_t largest = 0;

  Measures all() const {
    Measures all{.largest = largest};
    for (const double lane : squares) all.squares += lane;
    for (const double lane : sums) all.sum += lane;
    return all;
  }
};

}  // namespace laconic::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace laconic::kernels::HWY_NAMESPACE {

// look.add(v, number) for all vectors, the number that among the lanes of a sum.
template <class Look, class Entries>
HWY_INLINE void look_at(std::size_t count, Look& look, Entries entries) {
  constexpr std::size_t lanes = hn::MaxLanes(F32());
  for (std::size_t i = 0; i < count; i += kSumLanes) {
    entries.ahead(i);
    for (std::size_t at = 0; at < kSumLanes; at += lanes) {
      const Values x = entries.x(i + at);
      if constexpr (Entries::kLeaves) entries.keep(i + at, x);
      look.add(x, at / lanes);
    }
  }
  entries.end(count);
}
template <class Look>
HWY_INLINE void look_at(const Mixed& block, Look& look) {
  if (!block.left)
    look_at(block.count, look, MixedLanes<Nowhere>(block));
  else if (block.streams)
    look_at(block.count, look, MixedLanes<Streamed>(block));
  else
    look_at(block.count, look, MixedLanes<Cached>(block));
}

HWY_INLINE Word magnitude_of(Values x) {
  return hn::And(hn::BitCast(U32(), x), hn::Set(U32(), 0x7fffffffU));
}

struct Largest {
  Word largest;
  HWY_INLINE void add(Values x, std::size_t) { largest = hn::Max(largest, magnitude_of(x)); }
};
std::uint32_t largest_mixed(const Mixed& block) {
  Largest look{hn::Zero(U32())};
  look_at(block, look);
  return hn::GetLane(hn::MaxOfLanes(U32(), look.largest));
}

struct Ends {
  Values low, high;
  Word largest;
  HWY_INLINE void add(Values x, std::size_t) {
    low = hn::Min(low, x);
    high = hn::Max(high, x);
    largest = hn::Max(largest, magnitude_of(x));
  }
};
void range_mixed(const Mixed& block, Range& range, std::uint32_t& magnitude) {
  Ends look{set(range.low), set(range.high), hn::Zero(U32())};
  look_at(block, look);
  range.low = hn::GetLane(hn::MinOfLanes(F32(), look.low));
  range.high = hn::GetLane(hn::MaxOfLanes(F32(), look.high));
  magnitude = hn::GetLane(hn::MaxOfLanes(U32(), look.largest));
}

// Sums in 16 lanes of double, two vectors for each of floats.
#if HWY_TARGET == HWY_SCALAR
using Doubles = hn::CappedTag<double, 1>;
#else
using Doubles = hn::Repartition<double, F32>;
#endif
class DoubleSums {
 public:
  static constexpr std::size_t kWidth = hn::MaxLanes(Doubles());

  HWY_INLINE explicit DoubleSums(const double* lanes) {
    for (std::size_t v = 0; v < kSumLanes / kWidth; ++v)
      sum_[v] = hn::LoadU(Doubles(), lanes + v * kWidth);
  }
  // term(double) of every float.
  template <class Term>
  HWY_INLINE void add(Values x, std::size_t number, Term term) {
    const Doubles d;
#if HWY_TARGET == HWY_SCALAR
    sum_[number] = hn::Add(sum_[number], term(hn::PromoteTo(d, x)));
#else
    const hn::Rebind<float, Doubles> half;
    Terms& low = sum_[2 * number];
    Terms& high = sum_[2 * number + 1];
    low = hn::Add(low, term(hn::PromoteTo(d, hn::LowerHalf(half, x))));
    high = hn::Add(high, term(hn::PromoteTo(d, hn::UpperHalf(half, x))));
#endif
  }
  HWY_INLINE void store(double* lanes) const {
    for (std::size_t v = 0; v < kSumLanes / kWidth; ++v)
      hn::StoreU(sum_[v], Doubles(), lanes + v * kWidth);
  }

 private:
  using Terms = hn::Vec<Doubles>;
  Terms sum_[kSumLanes / kWidth];
};

struct Squares {
  DoubleSums sums;
  HWY_INLINE void add(Values x, std::size_t number) {
    sums.add(x, number, [](auto v) LACONIC_INLINED { return hn::Mul(v, v); });
  }
};
struct Magnitudes {
  DoubleSums sums;
  HWY_INLINE void add(Values x, std::size_t number) {
    sums.add(hn::Abs(x), number, [](auto v) LACONIC_INLINED { return v; });
  }
};
void add_squares_mixed(const Mixed& block, double* lanes) {
  Squares look{DoubleSums(lanes)};
  look_at(block, look);
  look.sums.store(lanes);
}
void add_magnitudes_mixed(const Mixed& block, double* lanes) {
  Magnitudes look{DoubleSums(lanes)};
  look_at(block, look);
  look.sums.store(lanes);
}

// All that clipping needs, in one sweep.
struct Clip {
  Word largest;
  DoubleSums squares, sums;
  HWY_INLINE explicit Clip(const Moments& lanes)
      : largest(hn::Zero(U32())), squares(lanes.squares), sums(lanes.sums) {}
  HWY_INLINE void add(Values x, std::size_t number) {
    largest = hn::Max(largest, magnitude_of(x));
    squares.add(x, number, [](auto v) LACONIC_INLINED { return hn::Mul(v, v); });
    sums.add(x, number, [](auto v) LACONIC_INLINED { return v; });
  }
  HWY_INLINE void store(Moments& lanes) const {
    lanes.largest = std::max(lanes.largest, hn::GetLane(hn::MaxOfLanes(U32(), largest)));
    squares.store(lanes.squares);
    sums.store(lanes.sums);
  }
};
void add_moments(const float* x, std::size_t count, Moments& lanes) {
  Clip look(lanes);
  look_at(count, look, PlainLanes(x));
  look.store(lanes);
}
void add_moments_mixed(const Mixed& block, Moments& lanes) {
  Clip look(lanes);
  look_at(block, look);
  look.store(lanes);
}

}  // namespace laconic::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace laconic::kernels {
namespace {

HWY_EXPORT(largest_mixed);
HWY_EXPORT(range_mixed);
HWY_EXPORT(add_squares_mixed);
HWY_EXPORT(add_magnitudes_mixed);
HWY_EXPORT(add_moments);
HWY_EXPORT(add_moments_mixed);

// Calls run(some) for groups of a block, the last one padded with zeros. What in_mixed_groups needs
// for `left` is there even where nothing is kept.
template <class Run>
void in_kept_groups(const Mixed& block, Run run) {
  if (block.left) return in_mixed_groups(block, [&](std::size_t, const Mixed& some) { run(some); });
  in_groups(
      block.count,
      [&](std::size_t, std::size_t count, const float* fresh, const float* kept) {
        Mixed some = block;
        some.count = count, some.fresh = fresh, some.kept = kept;
        run(some);
      },
      In<float>{block.fresh}, In<float>{block.kept});
}

template <class Add>
double sum_of(const Mixed& block, Add add) {
  double lanes[kSumLanes] = {}, sum = 0;
  in_kept_groups(block, [&](const Mixed& some) { add(some, lanes); });
  for (const double lane : lanes) sum += lane;
  return sum;
}

}  // namespace

std::uint32_t largest_magnitude(const Mixed& block) {
  std::uint32_t largest = 0;
  in_kept_groups(block, [&](const Mixed& some) {
    largest = std::max(largest, HWY_DYNAMIC_DISPATCH(largest_mixed)(some));
  });
  return largest;
}

Range range_of(const Mixed& block) {
  const std::size_t whole = block.count / kGroup * kGroup, rest = block.count - whole;
  float x[kGroup];
  mix(block.a, block.fresh, block.b, block.kept, {x, 1});
  Range range{x[0], x[0], true};
  std::uint32_t largest = 0;
  if (whole > 0) {
    Mixed some = block;
    some.count = whole;
    HWY_DYNAMIC_DISPATCH(range_mixed)(some, range, largest);
  }
  if (rest > 0) {
    mix(block.a, block.fresh + whole, block.b, block.kept + whole, {x, rest});
    if (block.left) std::copy_n(x, rest, block.left + whole);
    const Range last = range_of(std::span<const float>(x, rest));
    range = {std::min(range.low, last.low), std::max(range.high, last.high), last.finite};
  }
  range.finite = range.finite && largest < kInfinity;
  return {range.low + 0.0F, range.high + 0.0F, range.finite};  // -0 + 0 is 0
}

double sum_of_squares(const Mixed& block) {
  return sum_of(block, [](const Mixed& some, double* lanes) {
    HWY_DYNAMIC_DISPATCH(add_squares_mixed)(some, lanes);
  });
}

double sum_of_magnitudes(const Mixed& block) {
  return sum_of(block, [](const Mixed& some, double* lanes) {
    HWY_DYNAMIC_DISPATCH(add_magnitudes_mixed)(some, lanes);
  });
}

Measures moments_of(std::span<const float> x) {
  Moments lanes;
  in_groups(
      x.size(),
      [&](std::size_t, std::size_t count, const float* x) {
        HWY_DYNAMIC_DISPATCH(add_moments)(x, count, lanes);
      },
      In<float>{x.data()});
  return lanes.all();
}

Measures moments_of(const Mixed& block) {
  Moments lanes;
  in_kept_groups(block, [&](const Mixed& some) {
    HWY_DYNAMIC_DISPATCH(add_moments_mixed)(some, lanes);
  });
  return lanes.all();
}

}  // namespace laconic::kernels
#endif  // HWY_ONCE

// Sums that may reach the wire: the same number on every instruction set, because there are 16
// virtual lanes of double whatever the vector width. Included once per instruction set, after
// hwy/foreach_target.h: hence the guard that toggles.
#ifndef LACONIC_KERNELS_SUMS_ONCE
#define LACONIC_KERNELS_SUMS_ONCE

#include <algorithm>
#include <span>

#include "laconic/kernels/groups.h"

namespace laconic::kernels {

inline constexpr std::size_t kSumLanes = 16;

// Sums blocks of 4096 entries in lanes, which add(x, count, lanes) adds to; lanes, then blocks, are
// added in index order.
template <class Add>
double sum_in_blocks(std::span<const float> x, Add add) {
  constexpr std::size_t kBlock = 4096;
  double sum = 0;
  for (std::size_t from = 0; from < x.size(); from += kBlock) {
    double lanes[kSumLanes] = {};
    in_groups(
        std::min(kBlock, x.size() - from),
        [&](std::size_t, std::size_t count, const float* x) { add(x, count, lanes); },
        In<float>{x.data() + from});
    double block = 0;
    for (const double lane : lanes) block += lane;
    sum += block;
  }
  return sum;
}

}  // namespace laconic::kernels
#endif  // LACONIC_KERNELS_SUMS_ONCE

#if defined(LACONIC_KERNELS_SUMS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef LACONIC_KERNELS_SUMS_INL_H
#undef LACONIC_KERNELS_SUMS_INL_H
#else
#define LACONIC_KERNELS_SUMS_INL_H
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace laconic::kernels::HWY_NAMESPACE {

// At most four doubles: four sums side by side are then at most the 16 lanes, and hide the latency
// of the adder.
using Summand = hwy::HWY_NAMESPACE::CappedTag<double, 4>;
using SummandOf = hwy::HWY_NAMESPACE::Rebind<float, Summand>;

// Adds term(floats), a vector of doubles, of `count` entries to the lanes: entry i goes to lane
// i % 16. `count` is a multiple of 16.
template <class Term>
HWY_INLINE void add_in_lanes(const float* x, std::size_t count, double* lanes, Term term) {
  namespace hn = hwy::HWY_NAMESPACE;
  const Summand d;
  const SummandOf df;
  const std::size_t width = hn::Lanes(d);
  for (std::size_t lane = 0; lane < kSumLanes; lane += 4 * width) {
    double* to = lanes + lane;
    auto a = hn::LoadU(d, to), b = hn::LoadU(d, to + width);
    auto c = hn::LoadU(d, to + 2 * width), e = hn::LoadU(d, to + 3 * width);
    for (const float* from = x + lane; from < x + count; from += kSumLanes) {
      a = hn::Add(a, term(hn::LoadU(df, from)));
      b = hn::Add(b, term(hn::LoadU(df, from + width)));
      c = hn::Add(c, term(hn::LoadU(df, from + 2 * width)));
      e = hn::Add(e, term(hn::LoadU(df, from + 3 * width)));
    }
    hn::StoreU(a, d, to);
    hn::StoreU(b, d, to + width);
    hn::StoreU(c, d, to + 2 * width);
    hn::StoreU(e, d, to + 3 * width);
  }
}

}  // namespace laconic::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // the guard that toggles

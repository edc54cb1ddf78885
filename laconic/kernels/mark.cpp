// Marks straight from the compares, and values by Compress: no list of positions in between.
#include "laconic/kernels/mark.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "laconic/kernels/stream.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "laconic/kernels/mark.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "laconic/kernels/mixed-inl.h"

#ifndef LACONIC_KERNELS_MARK_ONCE
#define LACONIC_KERNELS_MARK_ONCE
namespace laconic::kernels {

// The least number that no magnitude equals while a cut has no ties left.
inline std::int32_t tied(const Cut& cut) {
  return cut.ties > 0 ? static_cast<std::int32_t>(cut.value) : -1;
}

// Of the entries that equal their cut, one by one, those that are still wanted.
inline std::uint64_t keep_ties(std::uint64_t equal, const Mixture& x, std::size_t from, float scale,
                               Cut& above, Cut& below) {
  std::uint64_t kept = 0;
  for (; equal != 0; equal &= equal - 1) {
    const auto i = static_cast<std::size_t>(std::countr_zero(equal));
    Cut& cut = std::bit_cast<std::uint32_t>(scale * x.at(from + i)) >> 31 ? below : above;
    if (cut.ties == 0) continue;
    --cut.ties;
    kept |= equal & -equal;
  }
  return kept;
}

}  // namespace laconic::kernels
#endif  // LACONIC_KERNELS_MARK_ONCE

HWY_BEFORE_NAMESPACE();
namespace laconic::kernels::HWY_NAMESPACE {

using Ints = hn::RebindToSigned<F32>;

// The lanes of a mask as bits.
template <class Mask>
HWY_INLINE std::uint64_t lanes_of(Mask mask) {
  std::uint8_t bytes[8] = {};
  hn::StoreMaskBits(Ints(), mask, bytes);
  return hn::Lanes(Ints()) <= 8 ? bytes[0] : bytes[0] | std::uint64_t{bytes[1]} << 8;
}

// Whole groups of 64 entries.
template <bool kKept, class Left>
HWY_INLINE std::uint32_t mark_groups(const Mixture x, std::size_t count, const Leaving leaving,
                                     float factor, Cut& above, Cut& below, std::uint64_t* marks) {
  const Ints d;
  const F32 df;
  const auto a = hn::Set(df, x.a), b = hn::Set(df, x.b), c = hn::Set(df, leaving.c);
  const auto scale = hn::Set(df, factor);
  const auto magnitude = hn::Set(d, 0x7fffffff), zero = hn::Zero(d);
  const auto over = hn::Set(d, static_cast<std::int32_t>(above.value));
  const auto under = hn::Set(d, static_cast<std::int32_t>(below.value));
  const std::size_t lanes = hn::Lanes(d);
  auto most = zero;
  Left left(leaving.to);
  for (std::size_t from = 0; from < count; from += 64) {
    const bool ties = above.ties + below.ties > 0;
    const auto equal_over = hn::Set(d, tied(above)), equal_under = hn::Set(d, tied(below));
    std::uint64_t word = 0, equal = 0;
    for (std::size_t i = 0; i < 64; i += lanes) {
      const std::size_t at = from + i;
      if (i % 16 == 0) fetch_ahead(x.fresh + at + kReadAhead);
      if (kKept && i % 16 == 0) fetch_ahead(x.kept + at + kReadAhead);
      auto mixed = hn::Mul(a, hn::LoadU(df, x.fresh + at));
      if (kKept) mixed = hn::Add(mixed, hn::Mul(b, hn::LoadU(df, x.kept + at)));
      left.put(at, hn::Mul(c, mixed));
      const auto bits = hn::BitCast(d, hn::Mul(scale, mixed));
      const auto m = hn::And(bits, magnitude);
      const auto negative = hn::Lt(bits, zero);
      most = hn::Max(most, m);
      word |= lanes_of(hn::Gt(m, hn::IfThenElse(negative, under, over))) << i;
      if (ties)
        equal |= lanes_of(hn::Eq(m, hn::IfThenElse(negative, equal_under, equal_over))) << i;
    }
    if (equal != 0) {
      const auto number = static_cast<std::size_t>(std::popcount(equal));
      if (&above == &below && above.ties >= number) {
        above.ties -= number;
        word |= equal;
      } else {
        word |= keep_ties(equal, x, from, factor, above, below);
      }
    }
    marks[from / 64] = word;
  }
  left.end(count);
  return static_cast<std::uint32_t>(hn::GetLane(hn::MaxOfLanes(d, most)));
}

std::uint32_t mark_run(const Mixture& x, std::size_t count, const Leaving& left, float scale,
                       Cut& above, Cut& below, std::uint64_t* marks) {
  if (!left.to)
    return x.kept ? mark_groups<true, Nowhere>(x, count, left, scale, above, below, marks)
                  : mark_groups<false, Nowhere>(x, count, left, scale, above, below, marks);
  if (left.streamed)
    return x.kept ? mark_groups<true, Streamed>(x, count, left, scale, above, below, marks)
                  : mark_groups<false, Streamed>(x, count, left, scale, above, below, marks);
  return x.kept ? mark_groups<true, Cached>(x, count, left, scale, above, below, marks)
                : mark_groups<false, Cached>(x, count, left, scale, above, below, marks);
}

// Words of which each has all its entries. Whole vectors are stored while there is room for them
// before `end`, where the marked entries end.
std::size_t take_run(const float* x, const std::uint64_t* marks, std::size_t words,
                     std::uint8_t* to, const std::uint8_t* end) {
  const F32 df;
  const Ints d;
  const std::size_t lanes = hn::Lanes(df);
  std::uint8_t* const start = to;
  for (std::size_t w = 0; w < words; ++w) {
    const std::uint64_t word = marks[w];
    for (std::size_t i = 0; i < 64; i += lanes) {
      if (i % 16 == 0) fetch_ahead(x + 64 * w + i + kReadAhead);
      const std::uint64_t bits = word >> i;
      const auto taken = hn::LoadMaskBits(d, reinterpret_cast<const std::uint8_t*>(&bits));
      const auto values = hn::Compress(hn::LoadU(df, x + 64 * w + i), hn::RebindMask(df, taken));
      const std::size_t bytes = hn::CountTrue(d, taken) * sizeof(float);
      if (HWY_TARGET != HWY_SCALAR && static_cast<std::size_t>(end - to) >= lanes * sizeof(float)) {
        hn::StoreU(values, df, reinterpret_cast<float*>(to));
      } else {
        float last[16];
        hn::StoreU(values, df, last);
        std::memcpy(to, last, bytes);
      }
      to += bytes;
    }
  }
  return static_cast<std::size_t>(to - start) / sizeof(float);
}

std::size_t count_run(const std::uint64_t* marks, std::size_t words) {
  std::size_t sum = 0;
  for (std::size_t i = 0; i < words; ++i) sum += static_cast<std::size_t>(std::popcount(marks[i]));
  return sum;
}

}  // namespace laconic::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace laconic::kernels {
namespace {

HWY_EXPORT(mark_run);
HWY_EXPORT(take_run);
HWY_EXPORT(count_run);

}  // namespace

std::uint32_t mark(const Mixture& x, std::size_t count, const Leaving& left, float scale,
                   Cut& above, Cut& below, std::uint64_t* marks) {
  const std::size_t whole = count / 64 * 64, rest = count % 64;
  Leaving groups = left;
  groups.streamed &= reinterpret_cast<std::uintptr_t>(left.to) % 16 == 0;
  std::uint32_t largest = 0;
  if (whole > 0)
    largest = HWY_DYNAMIC_DISPATCH(mark_run)(x, whole, groups, scale, above, below, marks);
  if (rest == 0) return largest;
  // The last ones on padded copies: a zero is never kept.
  float fresh[64] = {}, kept[64] = {}, to[64];
  std::copy_n(x.fresh + whole, rest, fresh);
  if (x.kept) std::copy_n(x.kept + whole, rest, kept);
  const Mixture padded{fresh, x.kept ? kept : nullptr, x.a, x.b};
  const Leaving some{left.to ? to : nullptr, left.c, false};
  largest = std::max(largest, HWY_DYNAMIC_DISPATCH(mark_run)(padded, 64, some, scale, above, below,
                                                             marks + whole / 64));
  if (left.to) std::copy_n(to, rest, left.to + whole);
  return largest;
}

std::size_t take_marked(std::span<const float> x, const std::uint64_t* marks, std::uint8_t* to) {
  const std::size_t words = x.size() / 64, rest = x.size() % 64;
  const std::size_t number = HWY_DYNAMIC_DISPATCH(count_run)(marks, words + (rest > 0));
  const std::uint8_t* const end = to + number * sizeof(float);
  const std::size_t taken = HWY_DYNAMIC_DISPATCH(take_run)(x.data(), marks, words, to, end);
  if (rest > 0) {
    float last[64] = {};
    std::copy_n(x.data() + 64 * words, rest, last);
    HWY_DYNAMIC_DISPATCH(take_run)(last, marks + words, 1, to + taken * sizeof(float), end);
  }
  return number;
}

}  // namespace laconic::kernels
#endif  // HWY_ONCE

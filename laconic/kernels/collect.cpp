// One loop for what would be three: an entry is read once and, where it is left, written once. On
// arrays beyond the caches this takes two thirds of the time of doing it block by block.
#include "laconic/kernels/collect.h"

#include <algorithm>
#include <bit>
#include <type_traits>

#include "laconic/kernels/groups.h"
#include "laconic/kernels/ones.h"
#include "laconic/kernels/stream.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "laconic/kernels/collect.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "laconic/kernels/mixed-inl.h"
#include "laconic/kernels/ones-inl.h"

HWY_BEFORE_NAMESPACE();
namespace laconic::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Ints = hn::CappedTag<std::int32_t, 16>;
using Reals = hn::RebindToFloat<Ints>;

// The lanes of a mask as bits.
template <class Mask>
HWY_INLINE std::uint64_t bits_of(Mask mask) {
  std::uint8_t bytes[8] = {};
  hn::StoreMaskBits(Ints(), mask, bytes);
  return hn::Lanes(Ints()) <= 8 ? bytes[0] : bytes[0] | std::uint64_t{bytes[1]} << 8;
}

// Where the positions and values of large entries go next, and the largest magnitude so far.
struct Found {
  std::uint32_t* position;
  float* value;
  std::uint32_t largest;
};

// Which of some groups' entries are large, a word each; bit g of `any` is set where word g is not
// 0.
inline constexpr std::size_t kGroups = 64;
inline constexpr std::size_t kMany = 8;  // one of so many: vectors are then sooner done than ones
struct Reached {
  std::uint64_t words[kGroups];
  std::uint64_t any = 0;
};

// Writes the positions of all bits. Where few words have any, only those are looked at.
HWY_INLINE std::uint32_t* put_positions(const Reached& reached, std::size_t groups,
                                        std::uint32_t at, std::uint32_t* to) {
  const auto put = [&](std::size_t g) HWY_ATTR {
    to = put_ones(reached.words[g], at + static_cast<std::uint32_t>(kGroup * g), to);
  };
  if (static_cast<std::size_t>(std::popcount(reached.any)) > groups / 4) {
    for (std::size_t g = 0; g < groups; ++g) put(g);
  } else {
    for (std::uint64_t any = reached.any; any != 0; any &= any - 1)
      put(static_cast<std::size_t>(std::countr_zero(any)));
  }
  return to;
}

// The large ones of `count` entries from `from` on, vector by vector: no more than there are
// entries is overwritten.
template <bool kKept>
HWY_INLINE void put_vectors(const Mixture& x, std::size_t from, std::size_t count,
                            const Reached& reached, float factor, std::uint32_t base,
                            Found& found) {
  const Ints d;
  const Reals df;
  const hn::RebindToUnsigned<Ints> du;
  const auto a = hn::Set(df, x.a), b = hn::Set(df, x.b), scale = hn::Set(df, factor);
  const auto steps = hn::Iota(du, 0);
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    const std::uint64_t bits = reached.words[i / kGroup] >> i % kGroup;
    const auto keeps = hn::LoadMaskBits(d, reinterpret_cast<const std::uint8_t*>(&bits));
    auto mixed = hn::Mul(a, hn::LoadU(df, x.fresh + from + i));
    if (kKept) mixed = hn::Add(mixed, hn::Mul(b, hn::LoadU(df, x.kept + from + i)));
    const auto at = hn::Add(steps, hn::Set(du, base + static_cast<std::uint32_t>(from + i)));
    hn::StoreU(hn::Compress(at, hn::RebindMask(du, keeps)), du, found.position);
    hn::StoreU(hn::Compress(hn::Mul(scale, mixed), hn::RebindMask(df, keeps)), df, found.value);
    const std::size_t number = hn::CountTrue(d, keeps);
    found.position += number;
    found.value += number;
  }
}

// Whether more than one of kMany entries is large.
HWY_INLINE bool are_many(const Reached& reached, std::size_t groups, std::size_t count) {
  if (static_cast<std::size_t>(std::popcount(reached.any)) <= groups / 2) return false;
  std::size_t ones = 0;
  for (std::size_t g = 0; g < groups; ++g)
    ones += static_cast<std::size_t>(std::popcount(reached.words[g]));
  return ones > count / kMany;
}

// The large ones of `count` entries from `from` on.
template <bool kKept>
HWY_INLINE void put(const Mixture& x, std::size_t from, std::size_t count, const Reached& reached,
                    float factor, std::uint32_t base, Found& found) {
  const std::size_t groups = (count + kGroup - 1) / kGroup;
  if (reached.any == 0) return;
  if (are_many(reached, groups, count))
    return put_vectors<kKept>(x, from, count, reached, factor, base, found);
  std::uint32_t* const end =
      put_positions(reached, groups, base + static_cast<std::uint32_t>(from), found.position);
  for (; found.position < end; ++found.position) {
    const std::size_t at = *found.position - base;
    const float value = kKept ? x.a * x.fresh[at] + x.b * x.kept[at] : x.a * x.fresh[at];
    *found.value++ = factor * value;
  }
}

// Whole vectors, from entry `from` up to `to`: entries of at least `above` as signed integers, and
// negative ones of at least `below`, which has the sign bit. The compares of 64 entries are one
// word; positions are made of these words, and values of positions, while the entries are in the
// first-level cache.
template <bool kKept, class Left>
HWY_INLINE Found vectors(const Mixture x, std::size_t from, std::size_t to, const Leaving left,
                         float factor, std::int32_t above, std::int32_t below, std::uint32_t base,
                         Found found) {
  const Ints d;
  const Reals df;
  const float *fresh = x.fresh, *kept = x.kept;
  const auto a = hn::Set(df, x.a), b = hn::Set(df, x.b), c = hn::Set(df, left.c);
  const auto scale = hn::Set(df, factor);
  const auto under = hn::Set(d, above - 1), least_negative = hn::Set(d, below);
  const auto zero = hn::Zero(d), magnitude = hn::Set(d, 0x7fffffff);
  const std::size_t lanes = hn::Lanes(d);
  auto most = hn::Set(d, static_cast<std::int32_t>(found.largest));
  const std::size_t start = from;
  Left to_left(left.to + start);
  const auto group = [&](std::size_t begin, std::size_t count) HWY_ATTR {
    std::uint64_t reached = 0;
    for (std::size_t i = 0; i < count; i += lanes) {
      if (i % 16 == 0) fetch_ahead(fresh + begin + i + kReadAhead);
      if (kKept && i % 16 == 0) fetch_ahead(kept + begin + i + kReadAhead);
      auto mixed = hn::Mul(a, hn::LoadU(df, fresh + begin + i));
      if (kKept) mixed = hn::Add(mixed, hn::Mul(b, hn::LoadU(df, kept + begin + i)));
      to_left.put(begin + i - start, hn::Mul(c, mixed));
      const auto bits = hn::BitCast(d, hn::Mul(scale, mixed));
      most = hn::Max(most, hn::And(bits, magnitude));
      const auto negative = hn::AndNot(hn::Lt(bits, least_negative), hn::Lt(bits, zero));
      reached |= bits_of(hn::Or(hn::Gt(bits, under), negative)) << i;
    }
    return reached;
  };
  for (; from < to; from += kGroups * kGroup) {
    Reached reached;
    const std::size_t end = std::min(to, from + kGroups * kGroup);
    const std::size_t whole = (end - from) / kGroup, rest = (end - from) % kGroup;
    for (std::size_t g = 0; g < whole; ++g) {
      reached.words[g] = group(from + g * kGroup, kGroup);
      reached.any |= static_cast<std::uint64_t>(reached.words[g] != 0) << g;
    }
    if (rest > 0) {
      reached.words[whole] = group(end - rest, rest);
      reached.any |= static_cast<std::uint64_t>(reached.words[whole] != 0) << whole;
    }
    put<kKept>(x, from, end - from, reached, factor, base, found);
  }
  if (from > start) to_left.end(to - start);
  found.largest = static_cast<std::uint32_t>(hn::GetLane(hn::MaxOfLanes(d, most)));
  return found;
}

void collect_vectors(const Mixture& x, std::size_t from, std::size_t to, const Leaving& left,
                     float scale, std::int32_t above, std::int32_t below, std::uint32_t base,
                     std::uint32_t** position, float** value, std::uint32_t* largest) {
  const auto run = [&](auto kept, auto leaves) HWY_ATTR {
    const Found found = vectors<kept(), typename decltype(leaves)::type>(
        x, from, to, left, scale, above, below, base, {*position, *value, *largest});
    *position = found.position;
    *value = found.value;
    *largest = found.largest;
  };
  constexpr std::true_type yes;
  constexpr std::false_type no;
  constexpr std::type_identity<Nowhere> nowhere;
  constexpr std::type_identity<Streamed> streamed;
  constexpr std::type_identity<Cached> cached;
  if (!left.to) return x.kept ? run(yes, nowhere) : run(no, nowhere);
  if (left.streamed) return x.kept ? run(yes, streamed) : run(no, streamed);
  x.kept ? run(yes, cached) : run(no, cached);
}

std::size_t vector_lanes() { return hn::Lanes(Reals()); }

}  // namespace laconic::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace laconic::kernels {
namespace {

HWY_EXPORT(collect_vectors);
HWY_EXPORT(vector_lanes);

// Entries before the first that can be streamed, at a multiple of 16 bytes. Arrays begin at one, so
// that blocks have none: with entries stored into the cache between blocks, sweeps that leave took
// a quarter longer.
std::size_t before_aligned(const Leaving& left, std::size_t count) {
  if (!left.to || !left.streamed) return 0;
  const std::size_t past = reinterpret_cast<std::uintptr_t>(left.to) % 16;
  return std::min(count, past == 0 ? 0 : (16 - past) / sizeof(float));
}

}  // namespace

std::uint32_t collect(const Mixture& x, std::size_t count, const Leaving& left, float scale,
                      Bounds bounds, std::uint32_t base, Array<std::uint32_t>& positions,
                      Array<float>& values) {
  const auto above = static_cast<std::int32_t>(bounds.above);
  const auto below = static_cast<std::int32_t>(bounds.below | 0x80000000U);
  std::uint32_t *position = positions.grow(count + kSpareOnes), largest = 0;
  float* value = values.grow(count);
  // Entries that are no whole vector, one by one.
  const auto few = [&](std::size_t from, std::size_t end) {
    for (std::size_t i = from; i < end; ++i) {
      const float mixed = x.kept ? x.a * x.fresh[i] + x.b * x.kept[i] : x.a * x.fresh[i];
      if (left.to) left.to[i] = left.c * mixed;
      const auto bits = std::bit_cast<std::int32_t>(scale * mixed);
      largest = std::max(largest, static_cast<std::uint32_t>(bits) & 0x7fffffffU);
      if (bits < above && (bits >= 0 || bits < below)) continue;
      *position++ = static_cast<std::uint32_t>(base + i);
      *value++ = scale * mixed;
    }
  };
  const std::size_t lanes = HWY_DYNAMIC_DISPATCH(vector_lanes)();
  const std::size_t begin = before_aligned(left, count);
  const std::size_t end = begin + (count - begin) / lanes * lanes;
  few(0, begin);
  HWY_DYNAMIC_DISPATCH(collect_vectors)
  (x, begin, end, left, scale, above, below, base, &position, &value, &largest);
  few(end, count);
  const auto size = static_cast<std::size_t>(position - positions.data());
  positions.truncate(size);
  values.truncate(size);
  return largest;
}

}  // namespace laconic::kernels
#endif  // HWY_ONCE

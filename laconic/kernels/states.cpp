// The states of a range coder on vector lanes.
#include "laconic/kernels/states.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "laconic/kernels/states.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#ifndef LACONIC_KERNELS_STATES_ONCE
#define LACONIC_KERNELS_STATES_ONCE
namespace laconic::kernels {

// For every choice of eight lanes: how many of those chosen are before each.
struct Ranks {
  std::uint8_t before[256][8] = {};

  constexpr Ranks() {
    for (unsigned chosen = 0; chosen < 256; ++chosen)
      for (unsigned lane = 1; lane < 8; ++lane)
        before[chosen][lane] =
            static_cast<std::uint8_t>(before[chosen][lane - 1] + (chosen >> (lane - 1) & 1));
  }
};
inline constexpr Ranks kRanks;

}  // namespace laconic::kernels
#endif  // LACONIC_KERNELS_STATES_ONCE

HWY_BEFORE_NAMESPACE();
namespace laconic::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR || HWY_HAVE_SCALABLE

std::size_t take_run(std::span<std::uint32_t>, const std::uint8_t*&, const std::uint8_t*,
                     std::span<const std::uint8_t>, const ContextShares*, std::uint8_t*) {
  return 0;
}

std::size_t put_run(std::span<std::uint32_t>, std::span<const std::uint16_t> symbols,
                    const ContextCode*, std::uint8_t*&) {
  return symbols.size();
}

#else

constexpr std::size_t kMany = 16;  // states that are taken together
using U32 = hn::CappedTag<std::uint32_t, kMany>;
using I32 = hn::RebindToSigned<U32>;
using F32 = hn::RebindToFloat<U32>;
using Pairs = hn::Repartition<std::uint16_t, U32>;  // two to a lane of 32 bits
using Halves = hn::Rebind<std::uint16_t, U32>;      // one for each lane
using Bytes = hn::Rebind<std::uint8_t, U32>;
using Word = hn::Vec<U32>;
using Ints = hn::Vec<I32>;
using Values = hn::Vec<F32>;
using Pair = hn::Vec<Pairs>;

constexpr std::size_t kLanes = hn::MaxLanes(U32());
constexpr std::size_t kAhead = 128;  // entries: what was looked up must have reached the cache

HWY_INLINE Ints ints(Word x) { return hn::BitCast(I32(), x); }
HWY_INLINE Word set(std::uint32_t x) { return hn::Set(U32(), x); }

// The shares of every fourth context, of so many: each in one block of 128 bits.
template <std::size_t kBlocks>
HWY_INLINE auto rows_of(const std::uint8_t* contexts, const ContextShares* shares) {
  const hn::CappedTag<std::uint32_t, 4 * kBlocks> d;
  if constexpr (kBlocks == 1)
    return hn::Load(d, reinterpret_cast<const std::uint32_t*>(shares[*contexts].begin));
  else
    return hn::Combine(d, rows_of<kBlocks / 2>(contexts + 2 * kBlocks, shares),
                       rows_of<kBlocks / 2>(contexts, shares));
}

// The begins of symbols 2 k and 2 k + 1 of every entry of a vector in begins[k].
HWY_INLINE void load_begins(const std::uint8_t* contexts, const ContextShares* shares,
                            Pair (&begins)[4]) {
  const U32 d;
  const hn::Repartition<std::uint64_t, U32> wide;
  constexpr std::size_t kBlocks = kLanes / 4;
  const Word a = rows_of<kBlocks>(contexts, shares), b = rows_of<kBlocks>(contexts + 1, shares),
             c = rows_of<kBlocks>(contexts + 2, shares), e = rows_of<kBlocks>(contexts + 3, shares);
  const auto ab = hn::BitCast(wide, hn::InterleaveLower(d, a, b));
  const auto ce = hn::BitCast(wide, hn::InterleaveLower(d, c, e));
  const auto above = hn::BitCast(wide, hn::InterleaveUpper(d, a, b));
  const auto below = hn::BitCast(wide, hn::InterleaveUpper(d, c, e));
  begins[0] = hn::BitCast(Pairs(), hn::InterleaveLower(wide, ab, ce));
  begins[1] = hn::BitCast(Pairs(), hn::InterleaveUpper(wide, ab, ce));
  begins[2] = hn::BitCast(Pairs(), hn::InterleaveLower(wide, above, below));
  begins[3] = hn::BitCast(Pairs(), hn::InterleaveUpper(wide, above, below));
}

// States below the least take the next words, in the order of lanes.
HWY_INLINE Word refilled(Word x, const std::uint8_t*& at) {
  const auto low = hn::Lt(ints(x), hn::Set(I32(), static_cast<std::int32_t>(kLeastState)));
  const Word words =
      hn::PromoteTo(U32(), hn::LoadU(Halves(), reinterpret_cast<const std::uint16_t*>(at)));
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
  const __mmask16 lanes = low.raw;
  at += 2 * hwy::PopCount(static_cast<std::uint64_t>(lanes));
  return Word{_mm512_mask_or_epi32(x.raw, lanes, _mm512_slli_epi32(x.raw, 16),
                                   _mm512_maskz_expand_epi32(lanes, words.raw))};
#else
  std::uint8_t lanes[8];
  hn::StoreMaskBits(I32(), low, lanes);
  at += 2 * hn::CountTrue(I32(), low);
  const Word ranks = hn::PromoteTo(U32(), hn::LoadU(Bytes(), kRanks.before[lanes[0]]));
  const Word mine = hn::TableLookupLanes(words, hn::IndicesFromVec(U32(), ranks));
  return hn::IfThenElse(hn::RebindMask(U32(), low), hn::Or(hn::ShiftLeft<16>(x), mine), x);
#endif
}

// Of the differences slot - begin in 16 bits, the least is that of the symbol, those of symbols
// behind it have the top bit, and the greatest of these is that of the next.
HWY_INLINE Word taken(Word x, const Pair (&begins)[4], std::uint8_t* symbols) {
  const U32 d;
  const Pairs pairs;
  const Word slot = hn::And(x, set(kShares - 1));
  const Pair both = hn::BitCast(pairs, hn::Or(slot, hn::ShiftLeft<16>(slot)));
  const Pair a = hn::Sub(both, begins[0]), b = hn::Sub(both, begins[1]),
             c = hn::Sub(both, begins[2]), e = hn::Sub(both, begins[3]);
  const Word least = hn::BitCast(d, hn::Min(hn::Min(a, b), hn::Min(c, e)));
  const Word most = hn::BitCast(d, hn::Max(hn::Max(a, b), hn::Max(c, e)));
  const Pair behind = hn::Add(hn::Add(hn::ShiftRight<15>(a), hn::ShiftRight<15>(b)),
                              hn::Add(hn::ShiftRight<15>(c), hn::ShiftRight<15>(e)));
  const Word low = set(0xffff);
  const Word inside = hn::Min(hn::And(least, low), hn::ShiftRight<16>(least));
  const Word next = hn::Max(hn::Max(hn::And(most, low), hn::ShiftRight<16>(most)),
                            hn::Add(slot, set(0x10000 - kShares)));
  const Word share = hn::And(hn::Sub(inside, next), low);
  const Word others = hn::BitCast(d, behind);
  const Word symbol =
      hn::Sub(set(kContextSymbols - 1), hn::Add(hn::And(others, low), hn::ShiftRight<16>(others)));
  hn::StoreU(hn::DemoteTo(Bytes(), ints(symbol)), Bytes(), symbols);
  return hn::Add(hn::Mul(share, hn::ShiftRight<kShareBits>(x)), inside);
}

// The symbol that has all shares, or -1.
int only_symbol(const ContextShares& shares) {
  for (std::size_t symbol = 0; symbol < kContextSymbols; ++symbol)
    if (shares.share(symbol) == kShares) return static_cast<int>(symbol);
  return -1;
}

// `count` is 16 or 32.
HWY_INLINE bool all_zeros(const std::uint8_t* bytes, std::size_t count) {
  const hn::CappedTag<std::uint8_t, 16> d;
  auto any = hn::Zero(d);
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) any = hn::Or(any, hn::LoadU(d, bytes + i));
  return hn::AllTrue(d, hn::Eq(any, hn::Zero(d)));
}

template <std::size_t kStates>
HWY_INLINE std::size_t take_by(std::uint32_t* states, const std::uint8_t*& at_now,
                               const std::uint8_t* end, std::span<const std::uint8_t> contexts,
                               const ContextShares* shares, std::uint8_t* symbols) {
  constexpr std::size_t kVectors = kStates / kLanes;
  const std::size_t most = contexts.size() / kStates * kStates;
  Word x[kVectors];
  for (std::size_t v = 0; v < kVectors; ++v) x[v] = hn::LoadU(U32(), states + v * kLanes);
  const std::uint8_t* at = at_now;
  std::size_t i = 0;
  const int only = only_symbol(shares[0]);
  for (; i < most && static_cast<std::size_t>(end - at) >= kStepBytes; i += kStates) {
    // A symbol that takes all shares leaves its state as it is. Rows of zeros make many of them.
    if (only >= 0 && all_zeros(contexts.data() + i, kStates)) {
      std::fill_n(symbols + i, kStates, static_cast<std::uint8_t>(only));
      continue;
    }
    for (std::size_t v = 0; v < kVectors; ++v) {
      Pair begins[4];
      load_begins(contexts.data() + i + v * kLanes, shares, begins);
      x[v] = refilled(taken(x[v], begins, symbols + i + v * kLanes), at);
    }
  }
  for (std::size_t v = 0; v < kVectors; ++v) hn::StoreU(x[v], U32(), states + v * kLanes);
  at_now = at;
  return i;
}

std::size_t take_run(std::span<std::uint32_t> states, const std::uint8_t*& at,
                     const std::uint8_t* end, std::span<const std::uint8_t> contexts,
                     const ContextShares* shares, std::uint8_t* symbols) {
  return states.size() == kMany
             ? take_by<kMany>(states.data(), at, end, contexts, shares, symbols)
             : take_by<2 * kMany>(states.data(), at, end, contexts, shares, symbols);
}

// floor(x / share) or one less, for 2 <= x / share < 2^17: x / share - 1/2 in halves, as the
// mantissa of a number from 2^22 on. Rounding moves it by less than 1/32 before.
HWY_INLINE Word nearly_divided(Word x, Values inverse) {
  const F32 d;
  const Values rough =
      hn::Add(hn::Mul(hn::ConvertTo(d, ints(x)), inverse), hn::Set(d, 0x1p22F - 0.5F));
  return hn::ShiftRight<1>(hn::And(hn::BitCast(U32(), rough), set((1U << 22) - 1)));
}

// A state after it took a symbol, of a state below share * 2^17.
HWY_INLINE Word grown(Word x, Word begin, Word share) {
  const F32 df;
  const Word others = hn::Sub(set(kShares), share);
  const Values inverse = hn::Div(hn::Set(df, 1), hn::ConvertTo(df, ints(share)));
  const Word whole = nearly_divided(x, inverse);
  const Word left = hn::Sub(x, hn::Mul(whole, share));
  const Word nearly = hn::Add(hn::Add(x, begin), hn::Mul(whole, others));
  const auto one_less = hn::Gt(ints(left), ints(hn::Sub(share, set(1))));
  return hn::Add(nearly, hn::IfThenElseZero(hn::RebindMask(U32(), one_less), others));
}

// Codes of a few symbols, looked up ahead: a gather would take longer.
struct Codes {
  alignas(64) ContextCode codes[kMany];

  HWY_INLINE void fill(const std::uint16_t* symbols, const ContextCode* all) {
    HWY_UNROLL(16)
    for (std::size_t i = 0; i < kMany; ++i) codes[i] = all[symbols[i]];
  }
};

// Whether sixteen symbols are all the one of context 0 that has all shares: states stay as they
// are.
HWY_INLINE bool all_without_state(const std::uint16_t* symbols, const ContextCode* codes) {
  const hn::CappedTag<std::uint16_t, kMany> d;
  const std::uint16_t one = *symbols;
  if (one >= kContextSymbols || codes[one] >> 16 != kShares) return false;
  auto same = hn::Eq(hn::Zero(d), hn::Zero(d));
  for (std::size_t i = 0; i < kMany; i += hn::Lanes(d))
    same = hn::And(same, hn::Eq(hn::LoadU(d, symbols + i), hn::Set(d, one)));
  return hn::AllTrue(d, same);
}

template <std::size_t kStates>
HWY_INLINE void put_by(std::uint32_t* states, std::span<const std::uint16_t> symbols,
                       const ContextCode* codes, std::uint8_t*& to_now) {
  constexpr std::size_t kVectors = kStates / kLanes;
  const U32 d;
  const Halves halves;
  Codes ahead[kAhead / kMany];
  const std::size_t most = symbols.size();
  for (std::size_t i = most; i > most - std::min(most, kAhead); i -= kMany)
    ahead[i % kAhead / kMany].fill(symbols.data() + i - kMany, codes);
  Word x[kVectors];
  for (std::size_t v = 0; v < kVectors; ++v) x[v] = hn::LoadU(d, states + v * kLanes);
  auto* to = reinterpret_cast<std::uint16_t*>(to_now);
  for (std::size_t end = most; end > 0; end -= kStates)
    for (std::size_t part = kStates; part > 0; part -= kMany) {
      const std::size_t i = end - kStates + part;
      Codes& now = ahead[i % kAhead / kMany];
      const bool idle = all_without_state(symbols.data() + i - kMany, codes);
      for (std::size_t lane = kMany; !idle && lane > 0; lane -= kLanes) {
        Word& mine = x[(part - kMany + lane - kLanes) / kLanes];
        const Word code = hn::Load(d, now.codes + lane - kLanes);
        const Word begin = hn::And(code, set(0xffff)), share = hn::ShiftRight<16>(code);
        const auto gives =
            hn::Gt(ints(hn::ShiftRight<31 - kShareBits>(mine)), ints(hn::Sub(share, set(1))));
        const Ints words = hn::Compress(ints(hn::And(mine, set(0xffff))), gives);
        const std::size_t count = hn::CountTrue(I32(), gives);
        to -= count;
        hn::BlendedStore(hn::DemoteTo(halves, words), hn::FirstN(halves, count), halves, to);
        mine = grown(hn::IfThenElse(hn::RebindMask(d, gives), hn::ShiftRight<16>(mine), mine),
                     begin, share);
      }
      if (i > kAhead) now.fill(symbols.data() + i - kAhead - kMany, codes);
    }
  for (std::size_t v = 0; v < kVectors; ++v) hn::StoreU(x[v], d, states + v * kLanes);
  to_now = reinterpret_cast<std::uint8_t*>(to);
}

std::size_t put_run(std::span<std::uint32_t> states, std::span<const std::uint16_t> symbols,
                    const ContextCode* codes, std::uint8_t*& to) {
  if (states.size() == kMany)
    put_by<kMany>(states.data(), symbols, codes, to);
  else
    put_by<2 * kMany>(states.data(), symbols, codes, to);
  return 0;
}

#endif

}  // namespace laconic::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace laconic::kernels {
namespace {

HWY_EXPORT(take_run);
HWY_EXPORT(put_run);

}  // namespace

std::size_t take_symbols(std::span<std::uint32_t> states, const std::uint8_t*& at,
                         const std::uint8_t* end, std::span<const std::uint8_t> contexts,
                         const ContextShares* shares, std::uint8_t* symbols) {
  return HWY_DYNAMIC_DISPATCH(take_run)(states, at, end, contexts, shares, symbols);
}

std::size_t put_symbols(std::span<std::uint32_t> states, std::span<const std::uint16_t> symbols,
                        const ContextCode* codes, std::uint8_t*& to) {
  return HWY_DYNAMIC_DISPATCH(put_run)(states, symbols, codes, to);
}

}  // namespace laconic::kernels
#endif  // HWY_ONCE

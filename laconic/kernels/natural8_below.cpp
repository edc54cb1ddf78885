// What lies far below the window needs many coins: they are tossed for all such entries of a block
// at a time, and after each only those go on that may still come up.
#include "laconic/kernels/natural8_below.h"

#include <array>
#include <bit>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "laconic/kernels/natural8_below.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "laconic/kernels/rounding-inl.h"

#ifndef LACONIC_KERNELS_NATURAL8_BELOW_ONCE
#define LACONIC_KERNELS_NATURAL8_BELOW_ONCE
namespace laconic::kernels {

// Entries that coins will decide: of each its place below the bit of its sign, and its distance.
// Both have room for a vector more.
struct Tossed {
  std::uint32_t place[kWindow + 16], distance[kWindow + 16];
  std::size_t count = 0;
};
// After the first coin: `at` is the place and, from bit 32 on, the distance; and the key. Both have
// room for kSpareCoins more.
inline constexpr std::size_t kSpareCoins = 8;
struct Undecided {
  std::uint64_t at[kWindow + kSpareCoins], key[kWindow + kSpareCoins];
  std::size_t count = 0;
};
inline constexpr std::uint64_t kPlace = (1U << 31) - 1;

// A round of tosses: the coins' number as Key::bits mixes it, the distance that has had all of them
// then, and the codes of what comes up.
struct Round {
  std::uint64_t number, distance;
  std::uint8_t* codes;
};
inline void come_up(std::uint64_t at, std::uint8_t* codes) {
  codes[at & kPlace] = at >> 31 & 1 ? 0x81 : 0x01;
}

// As in base/key.h, on words.
inline constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15ULL, kDraw = 0xd1b54a32d192ed03ULL;
inline constexpr std::uint64_t kMix0 = 0xbf58476d1ce4e5b9ULL, kMix1 = 0x94d049bb133111ebULL;
constexpr std::uint64_t mixed(std::uint64_t z) {
  z = (z ^ (z >> 30)) * kMix0;
  z = (z ^ (z >> 27)) * kMix1;
  return z ^ (z >> 31);
}

// Where AVX2 compresses: the bits that are set in a byte, lowest first, a byte each; and of four
// bits for words of 64 bits, two numbers each.
inline constexpr std::array<std::uint64_t, 256> kSet = [] {
  std::array<std::uint64_t, 256> table{};
  for (unsigned bits = 0; bits < 256; ++bits)
    for (unsigned i = 0, to = 0; i < 8; ++i)
      if (bits >> i & 1) table[bits] |= std::uint64_t{i} << 8 * to++;
  return table;
}();
inline constexpr std::array<std::uint64_t, 16> kSetWords = [] {
  std::array<std::uint64_t, 16> table{};
  for (unsigned bits = 0; bits < 16; ++bits)
    for (unsigned i = 0, to = 0; i < 4; ++i)
      if (bits >> i & 1) table[bits] |= std::uint64_t{2 * i | (2 * i + 1) << 8} << 16 * to++;
  return table;
}();

}  // namespace laconic::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace laconic::kernels::HWY_NAMESPACE {

// So many bits of a draw, as Draws::some.
HWY_INLINE Word some24(Word draw, const Hashed&) {
  return hn::And(draw, hn::Set(U32(), (1U << 24) - 1));
}
HWY_INLINE Word some24(Word draw, const Stratified&) { return hn::ShiftRight<8>(draw); }

// Whether entries come up, before any coin.
template <class Drawn>
struct ComesUp {
  Drawn draws;
  HWY_INLINE hn::Mask<U32> operator()(Word bits, Word significand, Word, bool subnormal) {
    const Word draw = draws.next(bits);
    return hn::Lt(subnormal ? draws.mantissa(draw) : some24(draw, draws), significand);
  }
};
struct IsNearer {
  HWY_INLINE hn::Mask<U32> operator()(Word, Word significand, Word distance, bool subnormal) const {
    const U32 d;
    if (subnormal) return hn::Gt(significand, hn::Set(d, 1U << 22));
    return hn::And(hn::Gt(significand, hn::Set(d, 1U << 23)), hn::Eq(distance, hn::Set(d, 1)));
  }
};

// Among codes of what is decided: this one stays.
constexpr std::uint8_t kStays = 2;

HWY_INLINE void store_decided(const Four& decided, std::uint8_t* codes) {
#if HWY_TARGET == HWY_SCALAR
  std::uint8_t some[4];
  store_bytes(decided, some);
  for (std::size_t j = 0; j < 4; ++j)
    if (some[j] != kStays) codes[j] = some[j];
#else
  const hn::Repartition<std::uint8_t, U32> d;
  std::uint8_t some[hn::MaxLanes(d)];
  store_bytes(decided, some);
  const auto v = hn::LoadU(d, some);
  hn::StoreU(hn::IfThenElse(hn::Eq(v, hn::Set(d, kStays)), hn::LoadU(d, codes), v), d, codes);
#endif
}

// Puts entries from..from + four vectors aside whose distance is not 0.
#if HWY_TARGET == HWY_AVX3
HWY_INLINE void put_aside(const float* x, const Four& distances, std::size_t from, Tossed& to) {
  const auto put = [&](Word distance, std::size_t skip) LACONIC_INLINED {
    const U32 d;
    const Word sign = hn::And(load_bits(x + skip), hn::Set(d, 0x80000000U));
    const Word place = hn::Or(sign, hn::Iota(d, static_cast<std::uint32_t>(from + skip)));
    const __mmask16 some = _mm512_test_epi32_mask(distance.raw, distance.raw);
    _mm512_storeu_si512(to.place + to.count, _mm512_maskz_compress_epi32(some, place.raw));
    _mm512_storeu_si512(to.distance + to.count, _mm512_maskz_compress_epi32(some, distance.raw));
    to.count += static_cast<std::size_t>(std::popcount(unsigned{some}));
  };
  put(distances.a, 0);
  put(distances.b, 16);
  put(distances.c, 32);
  put(distances.d, 48);
}
#elif HWY_TARGET == HWY_AVX2
HWY_INLINE __m256i order_of(std::uint64_t bytes) {
  return _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<long long>(bytes)));
}
HWY_INLINE void store_in(__m256i order, __m256i v, void* to) {
  _mm256_storeu_si256(static_cast<__m256i*>(to), _mm256_permutevar8x32_epi32(v, order));
}
HWY_INLINE void put_aside(const float* x, const Four& distances, std::size_t from, Tossed& to) {
  const auto put = [&](Word distance, std::size_t skip) LACONIC_INLINED {
    const U32 d;
    const Word sign = hn::And(load_bits(x + skip), hn::Set(d, 0x80000000U));
    const Word place = hn::Or(sign, hn::Iota(d, static_cast<std::uint32_t>(from + skip)));
    const __m256i none = _mm256_cmpeq_epi32(distance.raw, _mm256_setzero_si256());
    const unsigned some =
        ~static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(none))) & 0xffU;
    const __m256i order = order_of(kSet[some]);
    store_in(order, place.raw, to.place + to.count);
    store_in(order, distance.raw, to.distance + to.count);
    to.count += static_cast<std::size_t>(std::popcount(some));
  };
  put(distances.a, 0);
  put(distances.b, 8);
  put(distances.c, 16);
  put(distances.d, 24);
}
#else
HWY_INLINE void put_aside(const float* x, const Four& distances, std::size_t from, Tossed& to) {
  const std::size_t lanes = hn::Lanes(U32());
  std::uint32_t some[4 * hn::MaxLanes(U32())];
  hn::StoreU(distances.a, U32(), some);
  hn::StoreU(distances.b, U32(), some + lanes);
  hn::StoreU(distances.c, U32(), some + 2 * lanes);
  hn::StoreU(distances.d, U32(), some + 3 * lanes);
  std::int8_t bytes[kGroup] = {};
  store_signed(distances, bytes);
  std::uint64_t words[4 * hn::MaxLanes(U32()) / 8 + 1] = {};
  std::memcpy(words, bytes, 4 * lanes);
  for (std::size_t w = 0; w < (4 * lanes + 7) / 8; ++w)
    for (std::uint64_t word = words[w]; word != 0;) {
      const std::size_t byte = static_cast<std::size_t>(std::countr_zero(word)) / 8;
      word &= ~(std::uint64_t{0xff} << 8 * byte);
      const std::size_t i = 8 * w + byte;
      to.place[to.count] =
          static_cast<std::uint32_t>(from + i) | (std::bit_cast<std::uint32_t>(x[i]) & 0x80000000U);
      to.distance[to.count++] = some[i];
    }
}
#endif

// Codes of what is decided, and what coins decide, of entries that begin `at` of a window.
template <class Up>
HWY_INLINE void below_by(const float* x, std::size_t count, std::uint32_t base, Up up,
                         std::uint8_t* codes, std::size_t at, Tossed& aside) {
  const U32 d;
  const std::size_t lanes = hn::Lanes(d);
  const Word zero = hn::Zero(d), one = hn::Set(d, 1), sign_bit = hn::Set(d, 0x80000000U);
  const Word least = hn::Set(d, ((base + 1) << 23) - 1), implied = hn::Set(d, 1U << 23);
  const Word above = hn::Set(d, base + 1), stays = hn::Set(d, kStays);
  const auto decide = [&](std::size_t i, Word& tossed) LACONIC_INLINED {
    const Word bits = load_bits(x + i), magnitude = hn::AndNot(sign_bit, bits);
    const auto below = hn::Lt(hn::Sub(magnitude, one), least);
    const Word fraction = hn::And(magnitude, hn::Sub(implied, one));
    const Word significand =
        hn::Or(fraction, hn::IfThenZeroElse(hn::Lt(magnitude, implied), implied));
    const Word distance = hn::Sub(above, hn::Max(hn::ShiftRight<23>(magnitude), one));
    const Word comes = hn::IfThenElseZero(up(bits, significand, distance, base == 0), one);
    const Word far = hn::IfThenElseZero(hn::Gt(distance, one), comes);
    const Word level = hn::Or(one, hn::ShiftRight<24>(hn::And(bits, sign_bit)));
    tossed = hn::IfThenElseZero(below, hn::IfThenElseZero(hn::Gt(far, zero), distance));
    return hn::IfThenElse(below, hn::IfThenElseZero(hn::Gt(comes, far), level), stays);
  };
  for (std::size_t i = 0; i < count; i += 4 * lanes) {
    Four decided, tossed;
    decided.a = decide(i, tossed.a);
    decided.b = decide(i + lanes, tossed.b);
    decided.c = decide(i + 2 * lanes, tossed.c);
    decided.d = decide(i + 3 * lanes, tossed.d);
    store_decided(decided, codes + i);
    put_aside(x + i, tossed, at + i, aside);
  }
}

void below_at_random(const float* x, std::size_t count, std::uint32_t first, const Draws& draws,
                     std::uint32_t base, std::uint8_t* codes, std::size_t at, Tossed& aside) {
  with_draws(first, draws, [&](auto drawn) HWY_ATTR {
    below_by(x, count, base, ComesUp<decltype(drawn)>{drawn}, codes, at, aside);
  });
}
// No coin is tossed.
void below_nearest(const float* x, std::size_t count, std::uint32_t base, std::uint8_t* codes) {
  Tossed none;
  below_by(x, count, base, IsNearer(), codes, 0, none);
}

#if HWY_TARGET == HWY_AVX3
using U64 = hn::CappedTag<std::uint64_t, 8>;

HWY_INLINE hn::Vec<U64> mixed(hn::Vec<U64> z) {
  const U64 d;
  z = hn::Mul(hn::Xor(z, hn::ShiftRight<30>(z)), hn::Set(d, kMix0));
  z = hn::Mul(hn::Xor(z, hn::ShiftRight<27>(z)), hn::Set(d, kMix1));
  return hn::Xor(z, hn::ShiftRight<31>(z));
}

// Keeps those whose coin comes up. Registers are compressed and stored whole: compressing into
// memory takes many times as long on some processors, and Highway's own copies a table each time.
HWY_INLINE void keep_up(hn::Vec<U64> at, hn::Vec<U64> key, const Round& round, std::size_t have,
                        Undecided& left, std::size_t& to) {
  const auto coin = mixed(hn::Xor(key, hn::Set(U64(), round.number)));
  const unsigned all = have < 8 ? (1U << have) - 1 : 0xffU;
  const unsigned up = _mm512_testn_epi64_mask(coin.raw, _mm512_set1_epi64(1)) & all;
  const auto distance = hn::ShiftRight<32>(at);
  const unsigned done =
      _mm512_cmpeq_epi64_mask(distance.raw, hn::Set(U64(), round.distance).raw) & up;
  const auto kept = static_cast<__mmask8>(up & ~done);
  if (done != 0) {
    std::uint64_t some[8];
    _mm512_storeu_si512(some, _mm512_maskz_compress_epi64(static_cast<__mmask8>(done), at.raw));
    for (int i = 0; i < std::popcount(done); ++i) come_up(some[i], round.codes);
  }
  _mm512_storeu_si512(left.at + to, _mm512_maskz_compress_epi64(kept, at.raw));
  _mm512_storeu_si512(left.key + to, _mm512_maskz_compress_epi64(kept, key.raw));
  to += static_cast<std::size_t>(std::popcount(unsigned{kept}));
}
void toss_first(const Tossed& aside, std::uint64_t first, std::uint64_t own, const Round& round,
                Undecided& left) {
  const U64 d;
  const hn::Rebind<std::uint32_t, U64> half;
  std::size_t to = 0;
  for (std::size_t i = 0; i < aside.count; i += hn::Lanes(d)) {
    const auto distance = hn::PromoteTo(d, hn::LoadU(half, aside.distance + i));
    const auto at =
        hn::Or(hn::PromoteTo(d, hn::LoadU(half, aside.place + i)), hn::ShiftLeft<32>(distance));
    const auto position = hn::Add(hn::And(at, hn::Set(d, kPlace)), hn::Set(d, first + kGolden));
    const auto key = mixed(hn::Add(hn::Set(d, own), mixed(position)));
    keep_up(at, key, round, aside.count - i, left, to);
  }
  left.count = to;
}
void toss(const Round& round, Undecided& left) {
  const U64 d;
  std::size_t to = 0;
  for (std::size_t i = 0; i < left.count; i += hn::Lanes(d))
    keep_up(hn::LoadU(d, left.at + i), hn::LoadU(d, left.key + i), round, left.count - i, left, to);
  left.count = to;
}
#elif HWY_TARGET == HWY_AVX2
using U64 = hn::CappedTag<std::uint64_t, 4>;

// Words are mixed four at a time, from products of 32 bits.
HWY_INLINE hn::Vec<U64> mixed(hn::Vec<U64> z) {
  const U64 d;
  z = hn::Mul(hn::Xor(z, hn::ShiftRight<30>(z)), hn::Set(d, kMix0));
  z = hn::Mul(hn::Xor(z, hn::ShiftRight<27>(z)), hn::Set(d, kMix1));
  return hn::Xor(z, hn::ShiftRight<31>(z));
}
// As above, by a table.
HWY_INLINE void keep_up(hn::Vec<U64> at, hn::Vec<U64> key, const Round& round, std::size_t have,
                        Undecided& left, std::size_t& to) {
  const U64 d;
  const auto coin = mixed(hn::Xor(key, hn::Set(d, round.number)));
  const auto bits_of = [](__m256i v) LACONIC_INLINED {
    return static_cast<unsigned>(_mm256_movemask_pd(_mm256_castsi256_pd(v)));
  };
  const unsigned all = have < 4 ? (1U << have) - 1 : 0xfU;
  const unsigned up = ~bits_of(_mm256_slli_epi64(coin.raw, 63)) & all;
  const auto distance = hn::ShiftRight<32>(at);
  const unsigned done =
      bits_of(_mm256_cmpeq_epi64(distance.raw, hn::Set(d, round.distance).raw)) & up;
  if (done != 0) {
    std::uint64_t some[4];
    hn::StoreU(at, d, some);
    for (unsigned i = 0; i < 4; ++i)
      if (done >> i & 1) come_up(some[i], round.codes);
  }
  const __m256i order = order_of(kSetWords[up & ~done]);
  store_in(order, at.raw, left.at + to);
  store_in(order, key.raw, left.key + to);
  to += static_cast<std::size_t>(std::popcount(up & ~done));
}
void toss_first(const Tossed& aside, std::uint64_t first, std::uint64_t own, const Round& round,
                Undecided& left) {
  const U64 d;
  const hn::Rebind<std::uint32_t, U64> half;
  std::size_t to = 0;
  for (std::size_t i = 0; i < aside.count; i += 4) {
    const auto distance = hn::PromoteTo(d, hn::LoadU(half, aside.distance + i));
    const auto at =
        hn::Or(hn::PromoteTo(d, hn::LoadU(half, aside.place + i)), hn::ShiftLeft<32>(distance));
    const auto position = hn::Add(hn::And(at, hn::Set(d, kPlace)), hn::Set(d, first + kGolden));
    const auto key = mixed(hn::Add(hn::Set(d, own), mixed(position)));
    keep_up(at, key, round, aside.count - i, left, to);
  }
  left.count = to;
}
void toss(const Round& round, Undecided& left) {
  const U64 d;
  std::size_t to = 0;
  for (std::size_t i = 0; i < left.count; i += 4)
    keep_up(hn::LoadU(d, left.at + i), hn::LoadU(d, left.key + i), round, left.count - i, left, to);
  left.count = to;
}
#else
HWY_INLINE void keep_up(std::uint64_t at, std::uint64_t key, std::uint64_t coin, const Round& round,
                        Undecided& left, std::size_t& to) {
  left.at[to] = at;
  left.key[to] = key;
  std::size_t up = ~coin & 1;
  if (at >> 32 == round.distance) {
    if (up == 1) come_up(at, round.codes);
    up = 0;
  }
  to += up;
}
void toss_first(const Tossed& aside, std::uint64_t first, std::uint64_t own, const Round& round,
                Undecided& left) {
  std::size_t to = 0;
  for (std::size_t i = 0; i < aside.count; ++i) {
    const std::uint64_t at = aside.place[i] | std::uint64_t{aside.distance[i]} << 32;
    const std::uint64_t position = first + (at & kPlace);
    const std::uint64_t key = kernels::mixed(own + kernels::mixed(position + kGolden));
    keep_up(at, key, kernels::mixed(key ^ round.number), round, left, to);
  }
  left.count = to;
}
void toss(const Round& round, Undecided& left) {
  std::size_t to = 0;
  for (std::size_t i = 0; i < left.count; ++i)
    keep_up(left.at[i], left.key[i], kernels::mixed(left.key[i] ^ round.number), round, left, to);
  left.count = to;
}
#endif

}  // namespace laconic::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace laconic::kernels {
namespace {

HWY_EXPORT(below_at_random);
HWY_EXPORT(below_nearest);
HWY_EXPORT(toss_first);
HWY_EXPORT(toss);

void below_window(std::span<const float> x, Rounding rounding, const Draws& draws,
                  std::uint64_t first, std::uint32_t base, std::uint8_t* codes) {
  if (rounding == Rounding::nearest)
    return in_groups(
        x.size(),
        [&](std::size_t, std::size_t count, const float* x, std::uint8_t* codes) {
          HWY_DYNAMIC_DISPATCH(below_nearest)(x, count, base, codes);
        },
        In<float>{x.data()}, InOut<std::uint8_t>{codes});
  Tossed aside;
  in_draws(x.size(), draws, first,
           [&](std::size_t from, std::size_t part, std::uint32_t low, const Draws& high) {
             in_groups(
                 part,
                 [&](std::size_t skip, std::size_t count, const float* x, std::uint8_t* codes) {
                   HWY_DYNAMIC_DISPATCH(below_at_random)
                   (x, count, static_cast<std::uint32_t>(low + skip), high, base, codes,
                    from + skip, aside);
                 },
                 In<float>{x.data() + from}, InOut<std::uint8_t>{codes + from});
           });
  Undecided left;
  const Key key = draws.own();
  const std::uint64_t own = key.word0() | static_cast<std::uint64_t>(key.word1()) << 32;
  const auto round = [&](std::uint64_t coin) {
    return Round{mixed(coin * kGolden + kDraw), coin + 2, codes};
  };
  HWY_DYNAMIC_DISPATCH(toss_first)(aside, first, own, round(0), left);
  for (std::uint64_t coin = 1; left.count > 0; ++coin)
    HWY_DYNAMIC_DISPATCH(toss)(round(coin), left);
}

}  // namespace

void natural8_below(std::span<const float> x, Rounding rounding, const Draws& draws,
                    std::uint64_t first, std::uint32_t base, std::uint8_t* codes) {
  for (std::size_t from = 0; from < x.size(); from += kWindow)
    below_window(x.subspan(from, std::min(kWindow, x.size() - from)), rounding, draws, first + from,
                 base, codes + from);
}

}  // namespace laconic::kernels
#endif  // HWY_ONCE

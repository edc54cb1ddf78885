// Butterflies on vector lanes, eight vectors at a time, so that three levels of them cost one way
// through the cache; smaller blocks one entry at a time.
#include "laconic/kernels/rotation.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "laconic/kernels/reduce.h"
#include "laconic/kernels/stream.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "laconic/kernels/rotation.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "laconic/kernels/mixed-inl.h"
#include "laconic/kernels/rounding-inl.h"

#ifndef LACONIC_KERNELS_ROTATION_ONCE
#define LACONIC_KERNELS_ROTATION_ONCE
namespace laconic::kernels {

// The entries that vector code takes at least: what the first levels do at a time.
inline constexpr std::size_t kLeastVectors = 128;

// In place; whole numbers of up to kBlock need 16 bits.
template <class T>
constexpr void hadamard(std::span<T> x) {
  for (std::size_t half = 1; half < x.size(); half *= 2)
    for (std::size_t at = 0; at < x.size(); at += 2 * half)
      for (std::size_t i = at; i < at + half; ++i) {
        const T a = x[i], b = x[i + half];
        x[i] = static_cast<T>(a + b);
        x[i + half] = static_cast<T>(a - b);
      }
}

// H times the +-1 that a byte stands for.
using OfByte = std::array<std::int16_t, 8>;
inline constexpr std::array<OfByte, 256> kOfBytes = [] {
  std::array<OfByte, 256> table{};
  for (unsigned byte = 0; byte < 256; ++byte) {
    for (unsigned i = 0; i < 8; ++i) table[byte][i] = byte >> i & 1 ? -1 : 1;
    hadamard(std::span<std::int16_t>(table[byte]));
  }
  return table;
}();

}  // namespace laconic::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace laconic::kernels::HWY_NAMESPACE {

// The narrow ones are filled from a table of bytes.
using EightI16 = hn::CappedTag<std::int16_t, 8>;
using I16 = hn::CappedTag<std::int16_t, 32>;

template <class V>
HWY_INLINE void butterfly(V& a, V& b) {
  const V sum = hn::Add(a, b);
  b = hn::Sub(a, b);
  a = sum;
}

// Vectors of entries that lie `apart`, all in registers.
template <class D>
struct Quad {
  using V = hn::Vec<D>;
  using T = hn::TFromD<D>;
  V a, b, c, d;

  HWY_INLINE Quad(const T* z, std::size_t apart)
      : a(hn::LoadU(D(), z)),
        b(hn::LoadU(D(), z + apart)),
        c(hn::LoadU(D(), z + 2 * apart)),
        d(hn::LoadU(D(), z + 3 * apart)) {}
  HWY_INLINE Quad(V a, V b, V c, V d) : a(a), b(b), c(c), d(d) {}
  HWY_INLINE void two_levels() {
    butterfly(a, b);
    butterfly(c, d);
    butterfly(a, c);
    butterfly(b, d);
  }
  HWY_INLINE void store(T* z, std::size_t apart) const {
    hn::StoreU(a, D(), z);
    hn::StoreU(b, D(), z + apart);
    hn::StoreU(c, D(), z + 2 * apart);
    hn::StoreU(d, D(), z + 3 * apart);
  }
};
template <class D>
HWY_INLINE void third_level(Quad<D>& low, Quad<D>& high) {
  low.two_levels();
  high.two_levels();
  butterfly(low.a, high.a);
  butterfly(low.b, high.b);
  butterfly(low.c, high.c);
  butterfly(low.d, high.d);
}

// The levels from `half` on, as many at a time as there are registers for.
template <class D, class T>
HWY_INLINE void levels_from(D d, T* z, std::size_t size, std::size_t half) {
  const std::size_t lanes = hn::Lanes(d);
  for (; 8 * half <= size; half *= 8)
    for (std::size_t at = 0; at < size; at += 8 * half)
      for (std::size_t i = at; i < at + half; i += lanes) {
        Quad<D> low(z + i, half), high(z + i + 4 * half, half);
        third_level(low, high);
        low.store(z + i, half);
        high.store(z + i + 4 * half, half);
      }
  for (; 4 * half <= size; half *= 4)
    for (std::size_t at = 0; at < size; at += 4 * half)
      for (std::size_t i = at; i < at + half; i += lanes) {
        Quad<D> all(z + i, half);
        all.two_levels();
        all.store(z + i, half);
      }
  for (std::size_t i = 0; 2 * half <= size && i < half; i += lanes) {
    auto a = hn::LoadU(d, z + i), b = hn::LoadU(d, z + i + half);
    butterfly(a, b);
    hn::StoreU(a, d, z + i);
    hn::StoreU(b, d, z + i + half);
  }
}

// The levels within a vector: a + b and a - b are both v times +-1, which is exact, and so may be
// fused, plus v in another order.
#if HWY_TARGET == HWY_SCALAR
HWY_INLINE Values levels_within(Values v) { return v; }
#else
class Within {
 public:
  HWY_INLINE explicit Within(std::size_t half) {
    float signs[16];
    for (std::size_t i = 0; i < 16; ++i) signs[i] = i & half ? -1.0F : 1.0F;
    signs_ = hn::LoadU(F32(), signs);
  }
  HWY_INLINE Values level(Values v, Values other) const { return hn::MulAdd(v, signs_, other); }

 private:
  Values signs_;
};
HWY_INLINE Values levels_within(Values v) {
  const F32 d;
  v = Within(1).level(v, hn::Reverse2(d, v));
  v = Within(2).level(v, hn::Shuffle1032(v));
#if HWY_MAX_BYTES >= 32
  if constexpr (hn::MaxLanes(F32()) >= 8) v = Within(4).level(v, hn::SwapAdjacentBlocks(v));
#endif
#if HWY_MAX_BYTES >= 64
  if constexpr (hn::MaxLanes(F32()) >= 16) v = Within(8).level(v, hn::ConcatLowerUpper(d, v, v));
#endif
  return v;
}
#endif

// The sign bits of draws.
HWY_INLINE Word drawn_signs(Hashed& draws) {
  return hn::And(draws.next(), hn::Set(U32(), 0x80000000U));
}

// `size` is at least kLeastVectors; bit i of `turns` is whether entry i was turned round. Returns
// the largest magnitude of x, as bits.
std::uint32_t rotate_run(const float* x, std::size_t size, std::uint32_t first, Key key, float* z,
                         std::uint8_t* turns) {
  const F32 d;
  const std::size_t lanes = hn::Lanes(d);
  Hashed draws(first, key);
  Word largest = hn::Zero(U32());
  for (std::size_t i = 0; i < size; i += 8 * lanes) {
    std::uint64_t turned[2] = {};
    const auto one = [&](std::size_t number) LACONIC_INLINED {
      const std::size_t at = number * lanes;
      if (at % 16 == 0) fetch_ahead(x + i + at + kReadAhead);
      const Word bits = load_bits(x + i + at), sign = drawn_signs(draws);
      largest = hn::Max(largest, hn::And(bits, hn::Set(U32(), 0x7fffffffU)));
      std::uint8_t some[8] = {};
      hn::StoreMaskBits(I32(), hn::Lt(hn::BitCast(I32(), sign), hn::Zero(I32())), some);
      turned[at / 64] |= std::uint64_t{load<std::uint16_t>(some)} << at % 64;
      return levels_within(hn::BitCast(d, hn::Xor(bits, sign)));
    };
    const Values v0 = one(0), v1 = one(1), v2 = one(2), v3 = one(3);  // as the draws come
    const Values v4 = one(4), v5 = one(5), v6 = one(6), v7 = one(7);
    Quad<F32> low(v0, v1, v2, v3), high(v4, v5, v6, v7);
    third_level(low, high);
    low.store(z + i, lanes);
    high.store(z + i + 4 * lanes, lanes);
    std::memcpy(turns + i / 8, turned, lanes);
  }
  levels_from(d, z, size, 8 * lanes);
  return hn::GetLane(hn::MaxOfLanes(U32(), largest));
}

// H times +-1, whose first three levels are read off a table.
void spread_bits_run(const std::uint8_t* bits, std::size_t size, std::int16_t* z) {
  const EightI16 d;
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t i = 0; i < size; i += 64)
    for (std::size_t lane = 0; lane < 8; lane += lanes) {
      const auto four = [&](const std::uint8_t* byte) LACONIC_INLINED {
        const auto of = [&](std::uint8_t some)
                            LACONIC_INLINED { return hn::LoadU(d, kOfBytes[some].data() + lane); };
        return Quad<EightI16>(of(byte[0]), of(byte[1]), of(byte[2]), of(byte[3]));
      };
      Quad<EightI16> low = four(bits + i / 8), high = four(bits + i / 8 + 4);
      third_level(low, high);
      low.store(z + i + lane, 8);
      high.store(z + i + 32 + lane, 8);
    }
  levels_from(I16(), z, size, 64);
}

// Entries of H z * scale, within the range of floats.
class Scaled {
 public:
  HWY_INLINE explicit Scaled(float scale)
      : by_(set(scale)), most_(set(std::numeric_limits<float>::max())) {}
  HWY_INLINE Values of(const std::int16_t* z) const {
    const Ints whole = hn::PromoteTo(I32(), hn::LoadU(hn::Rebind<std::int16_t, I32>(), z));
    const Values value = hn::Mul(hn::ConvertTo(F32(), whole), by_);
    return hn::Max(hn::Min(value, most_), hn::Neg(most_));
  }

 private:
  Values by_, most_;
};

void add_turned_run(const std::int16_t* z, std::size_t count, std::uint32_t first, Key key,
                    float scale, float weight, float* y) {
  const Scaled scaled(scale);
  const Values w = set(weight);
  Hashed draws(first, key);
  for (std::size_t i = 0; i < count; i += hn::Lanes(U32())) {
    if (i % 16 == 0) hwy::Prefetch(y + i + kAddAhead);
    const Word turned = hn::Xor(hn::BitCast(U32(), scaled.of(z + i)), drawn_signs(draws));
    add_to(y + i, w, hn::BitCast(F32(), turned));
  }
}

// What is left of x; `count` is that of whole vectors.
template <class Left>
HWY_INLINE void leave_turned(const std::int16_t* z, const std::uint8_t* turns, float scale,
                             const float* x, std::size_t count, float c, float* left) {
  const F32 d;
  const std::size_t lanes = hn::Lanes(d);
  const Scaled scaled(scale);
  const Values by = set(c);
  Left to(left);
  for (std::size_t i = 0; i < count; i += lanes) {
    std::uint8_t bits[8] = {static_cast<std::uint8_t>(turns[i / 8] >> i % 8)};
    if (lanes > 8) bits[1] = turns[i / 8 + 1];
    const Values value = scaled.of(z + i), entry = hn::LoadU(d, x + i);
    const auto turned = hn::LoadMaskBits(d, bits);
    const Values rest = hn::IfThenElse(turned, hn::Add(entry, value), hn::Sub(entry, value));
    to.put(i, hn::Mul(by, rest));
  }
  to.end(count);
}
void leave_turned_run(const std::int16_t* z, const std::uint8_t* turns, float scale, const float* x,
                      std::size_t count, float c, bool streams, float* left) {
  if (streams)
    leave_turned<Streamed>(z, turns, scale, x, count, c, left);
  else
    leave_turned<Cached>(z, turns, scale, x, count, c, left);
}

}  // namespace laconic::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace laconic::kernels {
namespace {

HWY_EXPORT(rotate_run);
HWY_EXPORT(spread_bits_run);
HWY_EXPORT(add_turned_run);
HWY_EXPORT(leave_turned_run);

// What a block is multiplied by where its sums could leave the range of floats.
constexpr float kSmaller = 0x1p-13F;
constexpr std::uint32_t kTooLarge = std::bit_cast<std::uint32_t>(0x1p+115F);

// Blocks of few entries, and those whose positions cross a multiple of 2^32: entry by entry.
std::uint32_t rotate_each(std::span<const float> x, Key key, std::uint64_t first,
                          std::span<float> z, std::uint8_t* turns) {
  std::fill_n(turns, (z.size() + 7) / 8, std::uint8_t{0});
  std::ranges::fill(z, 0.0F);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const bool turned = key.bits32(first + i) >> 31 != 0;
    z[i] = turned ? -x[i] : x[i];
    turns[i / 8] |= static_cast<std::uint8_t>(unsigned{turned} << i % 8);
  }
  hadamard(z);
  return largest_magnitude(x);
}

std::uint32_t rotate_some(std::span<const float> x, Key key, std::uint64_t first,
                          std::span<float> z, std::uint8_t* turns) {
  if (z.size() < kLeastVectors || (first + z.size() - 1) >> 32 != first >> 32)
    return rotate_each(x, key, first, z, turns);
  float padded[kBlock];
  const float* from = x.data();
  if (x.size() < z.size()) {
    std::ranges::copy(x, padded);
    std::fill(padded + x.size(), padded + z.size(), 0.0F);
    from = padded;
  }
  return HWY_DYNAMIC_DISPATCH(rotate_run)(from, z.size(), static_cast<std::uint32_t>(first),
                                          key.fork(first >> 32), z.data(), turns);
}

// H times the +-1 that these bits stand for.
void spread_bits(const std::uint8_t* bits, std::span<std::int16_t> z) {
  if (z.size() >= kLeastVectors)
    return HWY_DYNAMIC_DISPATCH(spread_bits_run)(bits, z.size(), z.data());
  for (std::size_t i = 0; i < z.size(); ++i) z[i] = bits[i / 8] >> i % 8 & 1 ? -1 : 1;
  hadamard(z);
}

}  // namespace

float rotate(std::span<const float> x, Key key, std::uint64_t first, std::span<float> z,
             std::uint8_t* turns) {
  const std::uint32_t largest = rotate_some(x, key, first, z, turns);
  if (largest >= kInfinity) return 0;
  if (largest < kTooLarge) return 1;
  float smaller[kBlock];
  for (std::size_t i = 0; i < x.size(); ++i) smaller[i] = kSmaller * x[i];
  rotate_some({smaller, x.size()}, key, first, z, turns);
  return kSmaller;
}

void leave_rotated(const std::uint8_t* bits, std::size_t size, float scale,
                   const std::uint8_t* turns, std::span<const float> x, float c, bool streams,
                   float* left) {
  std::int16_t z[kBlock];
  spread_bits(bits, {z, size});
  in_groups(
      x.size(),
      [&](std::size_t from, std::size_t count, const std::int16_t* z, const std::uint8_t* turns,
          const float* entries, float* to) {
        const bool whole = from + count <= x.size();
        HWY_DYNAMIC_DISPATCH(leave_turned_run)
        (z, turns, scale, entries, count, c, streams && whole, to);
      },
      In<std::int16_t>{z}, In<Bit>{turns}, In<float>{x.data()}, Out<float>{left});
}

void add_rotated(const std::uint8_t* bits, std::size_t size, float scale, Key key,
                 std::uint64_t first, float weight, std::span<float> y) {
  std::int16_t z[kBlock];
  spread_bits(bits, {z, size});
  in_draws(y.size(), Draws(key), first,
           [&](std::size_t from, std::size_t part, std::uint32_t low, const Draws& draws) {
             in_groups(
                 part,
                 [&](std::size_t skip, std::size_t count, const std::int16_t* z, float* y) {
                   HWY_DYNAMIC_DISPATCH(add_turned_run)
                   (z, count, static_cast<std::uint32_t>(low + skip), draws.own(), scale, weight,
                    y);
                 },
                 In<std::int16_t>{z + from}, InOut<float>{y.data() + from});
           });
}

}  // namespace laconic::kernels
#endif  // HWY_ONCE

// Butterflies on vector lanes, eight vectors at a time, so that three levels of them cost one way
// through the cache; smaller blocks one entry at a time.
#include "laconic/kernels/rotation.h"

#include <cmath>
#include <limits>

#include "laconic/kernels/reduce.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "laconic/kernels/rotation.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "laconic/kernels/rounding-inl.h"

#ifndef LACONIC_KERNELS_ROTATION_ONCE
#define LACONIC_KERNELS_ROTATION_ONCE
namespace laconic::kernels {

// The entries that vector code takes at least: what the first levels do at a time.
inline constexpr std::size_t kLeastVectors = 64;

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

using F64 = hn::CappedTag<double, 4>;
using I16 = hn::CappedTag<std::int16_t, 8>;

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

// The levels within a vector: a + b and a - b are both sums of v, some of it negated, and of v in
// another order.
#if HWY_TARGET == HWY_SCALAR
HWY_INLINE hn::Vec<F64> levels_within(hn::Vec<F64> v) { return v; }
#else
HWY_INLINE hn::Vec<F64> levels_within(hn::Vec<F64> v) {
  const F64 d;
  v = hn::Add(hn::Reverse2(d, v), hn::OddEven(hn::Neg(v), v));
#if HWY_MAX_BYTES >= 32
  v = hn::Add(hn::Reverse2(d, hn::Reverse4(d, v)), hn::ConcatUpperLower(d, hn::Neg(v), v));
#endif
  return v;
}
#endif

// `size` is at least kLeastVectors.
void rotate_run(const float* x, std::size_t size, double* z) {
  const F64 d;
  const hn::Rebind<float, F64> df;
  const std::size_t lanes = hn::Lanes(d);
  const auto within = [&](std::size_t i) LACONIC_INLINED {
    return levels_within(hn::PromoteTo(d, hn::LoadU(df, x + i)));
  };
  const auto four = [&](std::size_t i) LACONIC_INLINED {
    return Quad<F64>(within(i), within(i + lanes), within(i + 2 * lanes), within(i + 3 * lanes));
  };
  for (std::size_t i = 0; i < size; i += 8 * lanes) {
    Quad<F64> low = four(i), high = four(i + 4 * lanes);
    third_level(low, high);
    low.store(z + i, lanes);
    high.store(z + i + 4 * lanes, lanes);
  }
  levels_from(d, z, size, 8 * lanes);
}

// H times +-1, whose first three levels are read off a table.
void spread_bits_run(const std::uint8_t* bits, std::size_t size, std::int16_t* z) {
  const I16 d;
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t i = 0; i < size; i += 64)
    for (std::size_t lane = 0; lane < 8; lane += lanes) {
      const auto four = [&](const std::uint8_t* byte) LACONIC_INLINED {
        const auto of = [&](std::uint8_t some)
                            LACONIC_INLINED { return hn::LoadU(d, kOfBytes[some].data() + lane); };
        return Quad<I16>(of(byte[0]), of(byte[1]), of(byte[2]), of(byte[3]));
      };
      Quad<I16> low = four(bits + i / 8), high = four(bits + i / 8 + 4);
      third_level(low, high);
      low.store(z + i + lane, 8);
      high.store(z + i + 32 + lane, 8);
    }
  levels_from(d, z, size, 64);
}

// The sign bits of draws.
HWY_INLINE Word drawn_signs(Hashed& draws) {
  return hn::And(draws.next(), hn::Set(U32(), 0x80000000U));
}

void turn_run(const float* x, std::size_t count, std::uint32_t first, Key key, float* turned) {
  Hashed draws(first, key);
  for (std::size_t i = 0; i < count; i += hn::Lanes(U32()))
    hn::StoreU(hn::BitCast(F32(), hn::Xor(load_bits(x + i), drawn_signs(draws))), F32(),
               turned + i);
}

void add_turned_run(const std::int16_t* z, std::size_t count, std::uint32_t first, Key key,
                    float scale, float weight, float* y) {
  const hn::Rebind<std::int16_t, I32> halves;
  const Values by = set(scale), w = set(weight), most = set(std::numeric_limits<float>::max());
  Hashed draws(first, key);
  for (std::size_t i = 0; i < count; i += hn::Lanes(U32())) {
    if (i % 16 == 0) hwy::Prefetch(y + i + kAddAhead);
    const Ints whole = hn::PromoteTo(I32(), hn::LoadU(halves, z + i));
    const Values value = hn::Mul(hn::ConvertTo(F32(), whole), by);
    const Values within = hn::Max(hn::Min(value, most), hn::Neg(most));
    const Word turned = hn::Xor(hn::BitCast(U32(), within), drawn_signs(draws));
    add_to(y + i, w, hn::BitCast(F32(), turned));
  }
}

#if HWY_TARGET == HWY_SCALAR
HWY_INLINE std::uint8_t negative_byte(const double* z) {
  unsigned byte = 0;
  for (unsigned i = 0; i < 8; ++i) byte |= static_cast<unsigned>(z[i] < 0) << i;
  return static_cast<std::uint8_t>(byte);
}
#else
HWY_INLINE std::uint8_t negative_byte(const double* z) {
  const F64 d;
  unsigned byte = 0;
  for (unsigned i = 0; i < 8; i += static_cast<unsigned>(hn::Lanes(d))) {
    std::uint8_t some[8] = {};
    hn::StoreMaskBits(d, hn::Lt(hn::LoadU(d, z + i), hn::Zero(d)), some);
    byte |= static_cast<unsigned>(some[0]) << i;
  }
  return static_cast<std::uint8_t>(byte);
}
#endif

void pack_negative_run(const double* z, std::size_t count, std::uint8_t* bits) {
  for (std::size_t i = 0; i < count; i += 8) bits[i / 8] = negative_byte(z + i);
}

}  // namespace laconic::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace laconic::kernels {
namespace {

HWY_EXPORT(rotate_run);
HWY_EXPORT(spread_bits_run);
HWY_EXPORT(turn_run);
HWY_EXPORT(add_turned_run);
HWY_EXPORT(pack_negative_run);

// Four sums, one beside the other.
template <class T, class Term>
Sums sums_of(const std::array<const T*, kSideBySide>& x, std::size_t count, Term term) {
  double a = 0, b = 0, c = 0, d = 0;
  for (std::size_t i = 0; i < count; ++i) {
    a += term(x[0][i]);
    b += term(x[1][i]);
    c += term(x[2][i]);
    d += term(x[3][i]);
  }
  return {a, b, c, d};
}

}  // namespace

bool rotate(std::span<const float> x, Key key, std::uint64_t first, std::span<double> z) {
  if (!all_finite(x)) return false;
  float turned[kBlock];
  std::fill(turned + x.size(), turned + z.size(), 0.0F);
  in_draws(x.size(), Draws(key), first,
           [&](std::size_t from, std::size_t part, std::uint32_t low, const Draws& draws) {
             in_groups(
                 part,
                 [&](std::size_t skip, std::size_t count, const float* x, float* to) {
                   HWY_DYNAMIC_DISPATCH(turn_run)
                   (x, count, static_cast<std::uint32_t>(low + skip), draws.own(), to);
                 },
                 In<float>{x.data() + from}, Out<float>{turned + from});
           });
  if (z.size() >= kLeastVectors) {
    HWY_DYNAMIC_DISPATCH(rotate_run)(turned, z.size(), z.data());
  } else {
    std::copy_n(turned, z.size(), z.begin());
    hadamard(z);
  }
  return true;
}

void pack_negative(std::span<const double> z, std::uint8_t* bits) {
  in_groups(
      z.size(),
      [&](std::size_t, std::size_t count, const double* z, std::uint8_t* bits) {
        HWY_DYNAMIC_DISPATCH(pack_negative_run)(z, count, bits);
      },
      In<double>{z.data()}, Out<Bit>{bits});
}

Sums sums_of_magnitudes(const SidesOfDoubles& x, std::size_t count) {
  return sums_of(x, count, [](double value) { return std::abs(value); });
}
Sums sums_of_squares(const SidesOfFloats& x, std::size_t count) {
  return sums_of(x, count, [](float value) {
    const auto wide = static_cast<double>(value);
    return wide * wide;
  });
}

void add_rotated(const std::uint8_t* bits, std::size_t size, float scale, Key key,
                 std::uint64_t first, float weight, std::span<float> y) {
  std::int16_t z[kBlock];
  if (size >= kLeastVectors) {
    HWY_DYNAMIC_DISPATCH(spread_bits_run)(bits, size, z);
  } else {
    for (std::size_t i = 0; i < size; ++i) z[i] = bits[i / 8] >> i % 8 & 1 ? -1 : 1;
    hadamard(std::span(z, size));
  }
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

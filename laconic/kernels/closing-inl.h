// Bytes of a few bits each, closed up to a stream of bits, or opened: eight in a word, by halves of
// 16, 32 and 64 bits in turn. Included once per instruction set, after hwy/foreach_target.h: hence
// the guard that toggles.
#if defined(LACONIC_KERNELS_CLOSING_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef LACONIC_KERNELS_CLOSING_INL_H
#undef LACONIC_KERNELS_CLOSING_INL_H
#else
#define LACONIC_KERNELS_CLOSING_INL_H
#endif

#include <hwy/highway.h>

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace laconic::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET != HWY_SCALAR

using Octets = hn::CappedTag<std::uint8_t, 64>;
using Words = hn::Repartition<std::uint64_t, Octets>;
using Pairs = hn::Repartition<std::uint16_t, Octets>;
using Fours = hn::Repartition<std::uint32_t, Octets>;

// Blocks of 16 bytes that lie `apart`, as one vector, and back.
template <class D>
HWY_INLINE hn::Vec<D> load_blocks(D d, const std::uint8_t* from, std::size_t apart) {
  if constexpr (hn::MaxLanes(D()) == 16) {
    return hn::LoadU(d, from);
  } else {
    const hn::Half<D> half;
    return hn::Combine(d, load_blocks(half, from + hn::MaxLanes(D()) / 32 * apart, apart),
                       load_blocks(half, from, apart));
  }
}
template <class D>
HWY_INLINE void store_blocks(D d, hn::Vec<D> v, std::uint8_t* to, std::size_t apart) {
  if constexpr (hn::MaxLanes(D()) == 16) {
    hn::StoreU(v, d, to);
  } else {
    const hn::Half<D> half;
    store_blocks(half, hn::LowerHalf(half, v), to, apart);
    store_blocks(half, hn::UpperHalf(half, v), to + hn::MaxLanes(D()) / 32 * apart, apart);
  }
}

// Where each byte of a block of two words comes from; 128: nowhere.
struct Order {
  alignas(16) std::uint8_t bytes[16];
};
inline Order closing(unsigned width) {
  Order order;
  for (unsigned i = 0; i < 16; ++i)
    order.bytes[i] = static_cast<std::uint8_t>(i < width ? i : i < 2 * width ? i - width + 8 : 128);
  return order;
}
inline Order opening(unsigned width) {
  Order order;
  for (unsigned i = 0; i < 16; ++i)
    order.bytes[i] = static_cast<std::uint8_t>(i % 8 >= width ? 128 : i < 8 ? i : i - 8 + width);
  return order;
}

// One level of each: fields of `kBits` bits that hold `used` move together, or apart.
template <int kBits>
HWY_INLINE hn::Vec<Words> closer(hn::Vec<Words> v, std::uint64_t mask, int used) {
  const auto low = hn::Set(Words(), mask);
  return hn::Or(hn::And(v, low), hn::ShiftLeftSame(hn::And(hn::ShiftRight<kBits>(v), low), used));
}
template <int kBits>
HWY_INLINE hn::Vec<Words> apart(hn::Vec<Words> v, std::uint64_t mask, int used) {
  const auto low = hn::Set(Words(), mask);
  return hn::Or(hn::And(v, low), hn::ShiftLeft<kBits>(hn::And(hn::ShiftRightSame(v, used), low)));
}

// 4 and 2 bits need no words: neighbours close up within 16 or 32 bits, and 16 symbols are levels
// by a table.
HWY_INLINE void put_four_bits(hn::Vec<Octets> symbols, std::uint8_t* packed) {
  const auto v = hn::BitCast(Pairs(), symbols);
  const auto two = hn::And(hn::Or(v, hn::ShiftRight<4>(v)), hn::Set(Pairs(), 0xff));
  const hn::Rebind<std::uint8_t, Pairs> bytes;
  hn::StoreU(hn::DemoteTo(bytes, hn::BitCast(hn::RebindToSigned<Pairs>(), two)), bytes, packed);
}
HWY_INLINE void put_two_bits(hn::Vec<Octets> symbols, std::uint8_t* packed) {
  const auto v = hn::BitCast(Fours(), symbols);
  const auto two = hn::And(hn::Or(v, hn::ShiftRight<6>(v)), hn::Set(Fours(), 0x000f000fU));
  const auto four = hn::And(hn::Or(two, hn::ShiftRight<12>(two)), hn::Set(Fours(), 0xff));
  const hn::Rebind<std::uint8_t, Fours> bytes;
  hn::StoreU(hn::DemoteTo(bytes, hn::BitCast(hn::RebindToSigned<Fours>(), four)), bytes, packed);
}
HWY_INLINE hn::Vec<Octets> take_four_bits(const std::uint8_t* packed) {
  const hn::Rebind<std::uint8_t, Pairs> bytes;
  const auto two = hn::PromoteTo(Pairs(), hn::LoadU(bytes, packed));
  return hn::BitCast(Octets(),
                     hn::And(hn::Or(two, hn::ShiftLeft<4>(two)), hn::Set(Pairs(), 0x0f0f)));
}
HWY_INLINE hn::Vec<Octets> take_two_bits(const std::uint8_t* packed) {
  const hn::Rebind<std::uint8_t, Fours> bytes;
  const auto four = hn::PromoteTo(Fours(), hn::LoadU(bytes, packed));
  const auto two = hn::And(hn::Or(four, hn::ShiftLeft<12>(four)), hn::Set(Fours(), 0x000f000fU));
  return hn::BitCast(Octets(),
                     hn::And(hn::Or(two, hn::ShiftLeft<6>(two)), hn::Set(Fours(), 0x03030303U)));
}

#endif

}  // namespace laconic::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per target

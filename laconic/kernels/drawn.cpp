// Key::bits on vector lanes. One by one a draw takes four times as long: it is four multiplications
// of which each waits for the one before.
#include "laconic/kernels/drawn.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "laconic/kernels/drawn.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace laconic::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Wide = hn::ScalableTag<std::uint64_t>;
using Words = hn::Vec<Wide>;

// Key::mix.
HWY_INLINE Words mixed(Words z) {
  const Wide d;
  z = hn::Mul(hn::Xor(z, hn::ShiftRight<30>(z)), hn::Set(d, Key::kMix0));
  z = hn::Mul(hn::Xor(z, hn::ShiftRight<27>(z)), hn::Set(d, Key::kMix1));
  return hn::Xor(z, hn::ShiftRight<31>(z));
}

// Of the lower halves.
HWY_INLINE Words product(Words a, Words b) {
#if HWY_TARGET == HWY_SCALAR
  return hn::Mul(hn::And(a, hn::Set(Wide(), 0xffffffffU)), b);
#else
  const hn::Repartition<std::uint32_t, Wide> d;
  return hn::MulEven(hn::BitCast(d, a), hn::BitCast(d, b));
#endif
}

// Whole vectors; returns how many draws that is.
std::size_t draw_run(std::uint64_t key, std::uint32_t first, std::size_t count,
                     std::uint32_t* out) {
  const Wide d;
  const hn::Rebind<std::uint32_t, Wide> half;
  const std::size_t lanes = hn::Lanes(d);
  const auto state = hn::Set(d, key), step = hn::Set(d, lanes * Key::kGolden);
  const auto ahead = hn::Set(d, lanes);
  auto limit = hn::Iota(d, std::uint64_t{first} + 1);
  auto number = hn::Add(hn::Mul(hn::Iota(d, std::uint64_t{first}), hn::Set(d, Key::kGolden)),
                        hn::Set(d, Key::kDraw));
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto bits = mixed(hn::Xor(state, mixed(number)));
    // A product of 64 and 32 bits, less its lower 64: that of the lower half carries into the
    // upper.
    const auto low = product(bits, limit), high = product(hn::ShiftRight<32>(bits), limit);
    const auto drawn = hn::ShiftRight<32>(hn::Add(high, hn::ShiftRight<32>(low)));
    hn::StoreU(hn::TruncateTo(half, drawn), half, out + i);
    limit = hn::Add(limit, ahead);
    number = hn::Add(number, step);
  }
  return i;
}

}  // namespace laconic::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace laconic::kernels {
namespace {

HWY_EXPORT(draw_run);

}  // namespace

void draw_below(Key key, std::uint32_t first, std::span<std::uint32_t> out) {
  __extension__ using Product = unsigned __int128;
  const std::uint64_t state = std::uint64_t{key.word1()} << 32 | key.word0();
  std::size_t i = HWY_DYNAMIC_DISPATCH(draw_run)(state, first, out.size(), out.data());
  for (; i < out.size(); ++i) {
    const std::uint64_t j = first + i;
    out[i] = static_cast<std::uint32_t>(static_cast<Product>(key.bits(j)) * (j + 1) >> 64);
  }
}

}  // namespace laconic::kernels
#endif  // HWY_ONCE

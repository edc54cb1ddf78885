// Draws on vector lanes, written once for all kernels. Included once per instruction set, after
// hwy/foreach_target.h: hence the guard that toggles.
#if defined(LACONIC_KERNELS_DRAWS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef LACONIC_KERNELS_DRAWS_INL_H
#undef LACONIC_KERNELS_DRAWS_INL_H
#else
#define LACONIC_KERNELS_DRAWS_INL_H
#endif

#include <hwy/highway.h>

#include "laconic/base/key.h"

HWY_BEFORE_NAMESPACE();
namespace laconic::kernels::HWY_NAMESPACE {

// Key::mix32 of the positions from `first` on, a vector a call. The positions' upper half is
// already forked into the key; the lower half wraps.
class Hashed {
 public:
  using U32 = hwy::HWY_NAMESPACE::CappedTag<std::uint32_t, 16>;
  using Word = hwy::HWY_NAMESPACE::Vec<U32>;

  HWY_INLINE Hashed(std::uint32_t first, Key key)
      : counter_(hwy::HWY_NAMESPACE::Iota(U32(), first + key.word0())),
        word1_(hwy::HWY_NAMESPACE::Set(U32(), key.word1())) {}
  // `bits` are those of the entries that the draws are for: their signs count with strata.
  HWY_INLINE Word next(Word /*bits*/) { return next(); }
  HWY_INLINE Word next() {
    namespace hn = hwy::HWY_NAMESPACE;
    const U32 d;
    Word h = counter_;
    counter_ = hn::Add(counter_, hn::Set(d, static_cast<std::uint32_t>(hn::Lanes(d))));
    h = hn::Mul(hn::Xor(h, hn::ShiftRight<16>(h)), hn::Set(d, Key::kMultiply0));
    h = hn::Xor(h, word1_);
    h = hn::Mul(hn::Xor(h, hn::ShiftRight<15>(h)), hn::Set(d, Key::kMultiply1));
    return hn::Xor(h, hn::ShiftRight<16>(h));
  }

  HWY_INLINE void skip(std::uint32_t count) {
    counter_ = hwy::HWY_NAMESPACE::Add(counter_, hwy::HWY_NAMESPACE::Set(U32(), count));
  }

  // 23 bits of a draw, to be added to a mantissa.
  static HWY_INLINE Word mantissa(Word draw) {
    return hwy::HWY_NAMESPACE::And(draw, hwy::HWY_NAMESPACE::Set(U32(), (1U << 23) - 1));
  }

 private:
  Word counter_, word1_;
};

// Strata::move of such draws, complemented where entries are negative.
class Stratified {
 public:
  using U32 = Hashed::U32;
  using Word = Hashed::Word;

  HWY_INLINE Stratified(std::uint32_t first, Key own, const Strata& strata)
      : own_(first, own),
        common_(first, strata.common()),
        ranks_(hwy::HWY_NAMESPACE::Set(U32(), strata.ranks())),
        width_(hwy::HWY_NAMESPACE::Set(U32(), strata.width())) {
    for (std::size_t i = 0; i < std::size(places_); ++i)
      places_[i] = strata.places()[i % Strata::kOrders];
  }
  HWY_INLINE Word next(Word bits) {
    namespace hn = hwy::HWY_NAMESPACE;
    const U32 d;
    const hn::RebindToSigned<U32> di;
    const Word draw = common_.next();
    const Word sum = hn::Add(high(draw, ranks_), place(draw));
    const Word stratum = hn::Min(sum, hn::Sub(sum, ranks_));  // where sum < ranks this wraps
    const Word moved = hn::Add(hn::Mul(stratum, width_), high(own_.next(), width_));
    return hn::Xor(moved, hn::BitCast(d, hn::BroadcastSignBit(hn::BitCast(di, bits))));
  }
  static HWY_INLINE Word mantissa(Word draw) { return hwy::HWY_NAMESPACE::ShiftRight<9>(draw); }

 private:
#if HWY_TARGET == HWY_SCALAR
  static HWY_INLINE Word high(Word a, Word b) {
    return Word{static_cast<std::uint32_t>(static_cast<std::uint64_t>(a.raw) * b.raw >> 32)};
  }
  HWY_INLINE Word place(Word draw) const { return Word{places_[draw.raw % Strata::kOrders]}; }
#else
  // The upper halves of the products.
  static HWY_INLINE Word high(Word a, Word b) {
    namespace hn = hwy::HWY_NAMESPACE;
    const U32 d;
    const hn::RepartitionToWide<U32> wide;
    const auto even = hn::ShiftRight<32>(hn::MulEven(a, b));
    const auto odd = hn::MulEven(hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(wide, a))), b);
    return hn::OddEven(hn::BitCast(d, odd), hn::BitCast(d, even));
  }
  HWY_INLINE Word place(Word draw) const {
    namespace hn = hwy::HWY_NAMESPACE;
    const U32 d;
    const Word which = hn::And(draw, hn::Set(d, Strata::kOrders - 1));
    return hn::TableLookupLanes(hn::LoadU(d, places_), hn::IndicesFromVec(d, which));
  }
#endif

  Hashed own_, common_;
  Word ranks_, width_;
  std::uint32_t places_[16];  // repeated as often as the widest vector has room for
};

// run(draws) for the draws from position `first` on, of whichever kind they are.
template <class Run>
HWY_INLINE auto with_draws(std::uint32_t first, const Draws& draws, Run run) {
  return draws.stratified() ? run(Stratified(first, draws.own(), draws.strata()))
                            : run(Hashed(first, draws.own()));
}

}  // namespace laconic::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // the guard that toggles

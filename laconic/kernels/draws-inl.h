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

// Key::mix32 of the positions from `first` on, a vector a call. The words are those of a key that
// the positions' upper half is already forked into; the lower half wraps.
class Hashed {
 public:
  using U32 = hwy::HWY_NAMESPACE::CappedTag<std::uint32_t, 16>;
  using Word = hwy::HWY_NAMESPACE::Vec<U32>;

  HWY_INLINE Hashed(std::uint32_t first, std::uint32_t word0, std::uint32_t word1)
      : counter_(hwy::HWY_NAMESPACE::Iota(U32(), first + word0)),
        word1_(hwy::HWY_NAMESPACE::Set(U32(), word1)) {}
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

 private:
  Word counter_, word1_;
};

}  // namespace laconic::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // the guard that toggles

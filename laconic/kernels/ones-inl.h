// Where the ones of words stand, written once for all kernels. Included once per instruction set,
// after hwy/foreach_target.h: hence the guard that toggles.
#if defined(LACONIC_KERNELS_ONES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef LACONIC_KERNELS_ONES_INL_H
#undef LACONIC_KERNELS_ONES_INL_H
#else
#define LACONIC_KERNELS_ONES_INL_H
#endif

#include <hwy/highway.h>

#include <bit>
#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace laconic::kernels::HWY_NAMESPACE {

// Writes at + i for every bit i of the word and returns where they end: four without asking how
// many there are, which no branch could foresee. What follows the last is overwritten, too: up to
// kSpareOnes numbers.
HWY_INLINE std::uint32_t* put_ones(std::uint64_t word, std::uint32_t at, std::uint32_t* to) {
  std::uint32_t* const end = to + std::popcount(word);
  do {
    for (int i = 0; i < 4; ++i) {
      // The top bit changes nothing where there is one, and spares the question whether there is.
      to[i] = at + static_cast<std::uint32_t>(std::countr_zero(word | 1ULL << 63));
      word &= word - 1;
    }
    to += 4;
  } while (word != 0);
  return end;
}

}  // namespace laconic::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per target

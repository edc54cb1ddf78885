// Positions of ones.
#include "laconic/kernels/ones.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "laconic/kernels/ones.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "laconic/kernels/ones-inl.h"

HWY_BEFORE_NAMESPACE();
namespace laconic::kernels::HWY_NAMESPACE {

std::size_t positions_run(const std::uint64_t* words, std::size_t count, std::uint32_t* to) {
  const std::uint32_t* const start = to;
  for (std::size_t i = 0; i < count; ++i)
    to = put_ones(words[i], static_cast<std::uint32_t>(64 * i), to);
  return static_cast<std::size_t>(to - start);
}

}  // namespace laconic::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace laconic::kernels {

HWY_EXPORT(positions_run);

std::size_t positions_of(std::span<const std::uint64_t> words, std::uint32_t* to) {
  return HWY_DYNAMIC_DISPATCH(positions_run)(words.data(), words.size(), to);
}

}  // namespace laconic::kernels
#endif  // HWY_ONCE

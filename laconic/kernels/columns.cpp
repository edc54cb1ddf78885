// Sums down the columns of a matrix, a row at a time.
#include "laconic/kernels/columns.h"

#include "laconic/kernels/groups.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "laconic/kernels/columns.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace laconic::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void columns_run(const float* x, std::size_t count, double* sums) {
  const hn::CappedTag<double, 8> d;
  const hn::Rebind<float, decltype(d)> df;
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    const auto v = hn::PromoteTo(d, hn::LoadU(df, x + i));
    hn::StoreU(hn::Add(hn::LoadU(d, sums + i), hn::Mul(v, v)), d, sums + i);
  }
}

}  // namespace laconic::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace laconic::kernels {
namespace {

HWY_EXPORT(columns_run);

}  // namespace

void add_squares(std::span<const float> x, double* sums) {
  const auto run = HWY_DYNAMIC_DISPATCH(columns_run);
  in_groups(
      x.size(),
      [&](std::size_t, std::size_t count, const float* x, double* sums) { run(x, count, sums); },
      In<float>{x.data()}, InOut<double>{sums});
}

}  // namespace laconic::kernels
#endif  // HWY_ONCE

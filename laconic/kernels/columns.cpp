// Sums down the columns of a matrix, some rows at a time.
#include "laconic/kernels/columns.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "laconic/kernels/columns.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace laconic::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void columns_run(const float* x, std::size_t stride, std::size_t rows, std::size_t count,
                 double* sums) {
  const hn::CappedTag<double, 8> d;
  const hn::Rebind<float, decltype(d)> df;
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) {
    auto sum = hn::LoadU(d, sums + i);
    for (std::size_t row = 0; row < rows; ++row) {
      const auto v = hn::PromoteTo(d, hn::LoadU(df, x + row * stride + i));
      sum = hn::Add(sum, hn::Mul(v, v));
    }
    hn::StoreU(sum, d, sums + i);
  }
  for (; i < count; ++i)
    for (std::size_t row = 0; row < rows; ++row) {
      const double v = static_cast<double>(x[row * stride + i]);
      sums[i] += v * v;
    }
}

}  // namespace laconic::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace laconic::kernels {
namespace {

HWY_EXPORT(columns_run);

}  // namespace

void add_squares(const float* x, std::size_t stride, std::size_t rows, std::span<double> sums) {
  constexpr std::size_t kRows = 8;  // between two loads of the sums
  const auto run = HWY_DYNAMIC_DISPATCH(columns_run);
  for (std::size_t row = 0; row < rows; row += kRows)
    run(x + row * stride, stride, std::min(kRows, rows - row), sums.size(), sums.data());
}

}  // namespace laconic::kernels
#endif  // HWY_ONCE

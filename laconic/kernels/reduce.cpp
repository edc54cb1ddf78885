// Reductions. How a sum that may reach the wire is made: sums-inl.h.
#include "laconic/kernels/reduce.h"

#include <algorithm>

#include "laconic/kernels/groups.h"
#include "laconic/kernels/stream.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "laconic/kernels/reduce.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "laconic/kernels/sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace laconic::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

std::uint32_t largest_magnitude_run(const float* x, std::size_t count) {
  const hn::ScalableTag<std::uint32_t> d;
  const hn::RebindToFloat<decltype(d)> df;
  const auto mask = hn::Set(d, 0x7fffffffU);
  auto largest = hn::Zero(d);
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    if (i % 16 == 0) fetch_ahead(x + i + kReadAhead);
    largest = hn::Max(largest, hn::And(hn::BitCast(d, hn::LoadU(df, x + i)), mask));
  }
  return hn::GetLane(hn::MaxOfLanes(d, largest));
}

std::uint8_t largest_byte_run(const std::uint8_t* bytes, std::size_t count) {
  const hn::ScalableTag<std::uint8_t> d;
  auto largest = hn::Zero(d);
  for (std::size_t i = 0; i < count; i += hn::Lanes(d))
    largest = hn::Max(largest, hn::LoadU(d, bytes + i));
  std::uint8_t lanes[HWY_MAX_BYTES];
  hn::StoreU(largest, d, lanes);
  return *std::max_element(lanes, lanes + hn::Lanes(d));
}

void add_squares_run(const float* x, std::size_t count, double* lanes) {
  add_in_lanes(x, count, lanes, [](auto floats) HWY_ATTR {
    const auto v = hn::PromoteTo(Summand(), floats);
    return hn::Mul(v, v);
  });
}

void squares_of_groups_run(const float* x, std::size_t count, double* sums) {
  const hn::CappedTag<double, 8> d;
  const hn::Rebind<float, decltype(d)> df;
  for (std::size_t from = 0; from < count; from += kGroup) {
    double lanes[8];
    fetch_ahead(x + from + kReadAhead);
    for (std::size_t lane = 0; lane < 8; lane += hn::Lanes(d)) {
      auto sum = hn::Zero(d);
      for (std::size_t i = from + lane; i < from + kGroup; i += 8) {
        const auto v = hn::PromoteTo(d, hn::LoadU(df, x + i));
        sum = hn::Add(sum, hn::Mul(v, v));
      }
      hn::StoreU(sum, d, lanes + lane);
    }
    for (std::size_t half = 4; half > 0; half /= 2)
      for (std::size_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
    sums[from / kGroup] = lanes[0];
  }
}

void add_magnitudes_run(const float* x, std::size_t count, double* lanes) {
  add_in_lanes(x, count, lanes,
               [](auto v) HWY_ATTR { return hn::PromoteTo(Summand(), hn::Abs(v)); });
}

// Both sums, side by side.
void measure_run(const float* x, std::size_t count, double* squares, double* magnitudes) {
  const Summand d;
  const SummandOf df;
  const std::size_t width = hn::Lanes(d);
  for (std::size_t lane = 0; lane < kSumLanes; lane += 2 * width) {
    auto a = hn::LoadU(d, squares + lane), b = hn::LoadU(d, squares + lane + width);
    auto c = hn::LoadU(d, magnitudes + lane), e = hn::LoadU(d, magnitudes + lane + width);
    for (const float* from = x + lane; from < x + count; from += kSumLanes) {
      const auto v = hn::PromoteTo(d, hn::Abs(hn::LoadU(df, from)));
      const auto w = hn::PromoteTo(d, hn::Abs(hn::LoadU(df, from + width)));
      a = hn::Add(a, hn::Mul(v, v));
      b = hn::Add(b, hn::Mul(w, w));
      c = hn::Add(c, v);
      e = hn::Add(e, w);
    }
    hn::StoreU(a, d, squares + lane);
    hn::StoreU(b, d, squares + lane + width);
    hn::StoreU(c, d, magnitudes + lane);
    hn::StoreU(e, d, magnitudes + lane + width);
  }
}

}  // namespace laconic::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace laconic::kernels {
namespace {

HWY_EXPORT(largest_magnitude_run);
HWY_EXPORT(largest_byte_run);
HWY_EXPORT(add_squares_run);
HWY_EXPORT(squares_of_groups_run);
HWY_EXPORT(add_magnitudes_run);
HWY_EXPORT(measure_run);

}  // namespace

std::uint32_t largest_magnitude(std::span<const float> x) {
  std::uint32_t largest = 0;
  in_groups(
      x.size(),
      [&](std::size_t, std::size_t count, const float* x) {
        largest = std::max(largest, HWY_DYNAMIC_DISPATCH(largest_magnitude_run)(x, count));
      },
      In<float>{x.data()});
  return largest;
}

std::uint8_t largest_byte(ByteView bytes) {
  std::uint8_t largest = 0;
  in_groups(
      bytes.size(),
      [&](std::size_t, std::size_t count, const std::uint8_t* bytes) {
        largest = std::max(largest, HWY_DYNAMIC_DISPATCH(largest_byte_run)(bytes, count));
      },
      In<std::uint8_t>{bytes.data()});
  return largest;
}

double sum_of_squares(std::span<const float> x) {
  return sum_in_blocks(x, [](const float* x, std::size_t count, double* lanes) {
    HWY_DYNAMIC_DISPATCH(add_squares_run)(x, count, lanes);
  });
}

void squares_of_groups(std::span<const float> x, double* sums) {
  in_groups(
      x.size(),
      [&](std::size_t from, std::size_t count, const float* x) {
        HWY_DYNAMIC_DISPATCH(squares_of_groups_run)(x, count, sums + from / kGroup);
      },
      In<float>{x.data()});
}

double sum_of_magnitudes(std::span<const float> x) {
  return sum_in_blocks(x, [](const float* x, std::size_t count, double* lanes) {
    HWY_DYNAMIC_DISPATCH(add_magnitudes_run)(x, count, lanes);
  });
}

Measures measure_block(std::span<const float> x) {
  Measures all;
  double squares[kSumLanes] = {}, magnitudes[kSumLanes] = {};
  in_groups(
      x.size(),
      [&](std::size_t, std::size_t count, const float* x) {
        all.largest = std::max(all.largest, HWY_DYNAMIC_DISPATCH(largest_magnitude_run)(x, count));
        HWY_DYNAMIC_DISPATCH(measure_run)(x, count, squares, magnitudes);
      },
      In<float>{x.data()});
  for (std::size_t lane = 0; lane < kSumLanes; ++lane) {
    all.squares += squares[lane];
    all.magnitudes += magnitudes[lane];
  }
  return all;
}

}  // namespace laconic::kernels
#endif  // HWY_ONCE

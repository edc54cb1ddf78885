// Bytes with a step of their own for every 64, on vector lanes.
#include "laconic/kernels/rounded.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "laconic/kernels/rounded.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "laconic/kernels/rounding-inl.h"

HWY_BEFORE_NAMESPACE();
namespace laconic::kernels::HWY_NAMESPACE {

using Codes = hn::Rebind<std::int8_t, U32>;

constexpr std::uint32_t kLargestStep = 249;  // 64 times that would be Inf

// The exponent field of the step: 127 steps are 1.984375 * 2^6 of them.
HWY_INLINE std::uint32_t step_of(std::uint32_t largest) {
  if (largest == 0 || largest >= 0x7f800000U) return 0;
  const std::uint32_t field = (largest >> 23) + ((largest & 0x7fffffU) > 0x7e0000U ? 1 : 0);
  return field > 7 ? field - 6 : 1;
}

void round_run(const float* x, std::size_t groups, Key own, std::uint64_t first, std::int8_t* codes,
               std::uint8_t* exponents) {
  const U32 d;
  const F32 df;
  const I32 di;
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t group = 0; group < groups; ++group) {
    const float* from = x + group * kRounded;
    hwy::Prefetch(from + kReadAhead);
    Word all = hn::Zero(d);
    for (std::size_t i = 0; i < kRounded; i += lanes)
      all = hn::Max(all, hn::And(load_bits(from + i), hn::Set(d, 0x7fffffffU)));
    const std::uint32_t step = step_of(hn::GetLane(hn::MaxOfLanes(d, all)));
    exponents[group] = static_cast<std::uint8_t>(step);
    std::int8_t* to = codes + group * kRounded;
    if (step == 0) {
      std::fill_n(to, kRounded, std::int8_t{0});
      continue;
    }
    // Powers of two: products are exact. In 2^-23 of a step every entry is a whole number, but for
    // what lies below.
    const Values inverse = hn::BitCast(df, hn::Set(d, (254 - step) << 23)), fine = set(0x1p23F);
    Hashed draws(0, own.fork(first + group * kRounded));
    for (std::size_t i = 0; i < kRounded; i += lanes) {
      const Ints whole =
          hn::ConvertTo(di, hn::Mul(hn::Mul(hn::LoadU(df, from + i), inverse), fine));
      const Ints draw = hn::BitCast(di, hn::ShiftRight<9>(draws.next()));
      hn::StoreU(hn::DemoteTo(Codes(), hn::ShiftRight<23>(hn::Add(whole, draw))), Codes(), to + i);
    }
    if (step == kLargestStep)
      for (std::size_t i = 0; i < kRounded; ++i)
        to[i] = std::clamp(to[i], std::int8_t{-63}, std::int8_t{63});
  }
}

void floats_run(const std::int8_t* codes, std::size_t count, std::uint32_t exponent, float* y) {
  const F32 df;
  const I32 di;
  const Values step = hn::BitCast(df, hn::Set(U32(), exponent << 23));
  for (std::size_t i = 0; i < count; i += hn::Lanes(df)) {
    const Ints level = hn::PromoteTo(di, hn::LoadU(Codes(), codes + i));
    hn::StoreU(hn::Mul(hn::ConvertTo(df, level), step), df, y + i);
  }
}

void all_floats_run(const std::int8_t* codes, const std::uint8_t* exponents, std::size_t groups,
                    float* y) {
  for (std::size_t group = 0; group < groups; ++group)
    floats_run(codes + group * kRounded, kRounded, exponents[group], y + group * kRounded);
}

}  // namespace laconic::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace laconic::kernels {
namespace {

HWY_EXPORT(round_run);
HWY_EXPORT(all_floats_run);

}  // namespace

void round_to_bytes(std::span<const float> x, Key own, std::uint64_t first, std::int8_t* codes,
                    std::uint8_t* exponents) {
  const std::size_t groups = x.size() / kRounded, whole = groups * kRounded;
  const auto run = HWY_DYNAMIC_DISPATCH(round_run);
  run(x.data(), groups, own, first, codes, exponents);
  if (whole == x.size()) return;
  float rest[kRounded] = {};
  std::int8_t coded[kRounded];
  std::copy(x.begin() + static_cast<std::ptrdiff_t>(whole), x.end(), rest);
  run(rest, 1, own, first + whole, coded, exponents + groups);
  std::copy_n(coded, x.size() - whole, codes + whole);
}

void bytes_to_floats(const std::int8_t* codes, const std::uint8_t* exponents, std::size_t from,
                     std::span<float> y) {
  const auto run = HWY_DYNAMIC_DISPATCH(all_floats_run);
  const auto part = [&](std::size_t count) {
    std::int8_t padded[kRounded] = {};
    float values[kRounded];
    std::copy_n(codes, count, padded);
    run(padded, exponents, 1, values);
    std::copy_n(values, count, y.data());
    codes += count;
    ++exponents;
    y = y.subspan(count);
  };
  if (from > 0 && !y.empty()) part(std::min(y.size(), kRounded - from));
  const std::size_t groups = y.size() / kRounded, whole = groups * kRounded;
  run(codes, exponents, groups, y.data());
  codes += whole;
  exponents += groups;
  y = y.subspan(whole);
  if (!y.empty()) part(y.size());
}

}  // namespace laconic::kernels
#endif  // HWY_ONCE

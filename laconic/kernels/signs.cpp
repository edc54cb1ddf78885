// Signs on vector lanes.
#include "laconic/kernels/signs.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "laconic/kernels/signs.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "laconic/kernels/mixed-inl.h"
#include "laconic/kernels/rounding-inl.h"

HWY_BEFORE_NAMESPACE();
namespace laconic::kernels::HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX2
void pack_signs_run(const float* x, std::size_t count, std::uint8_t* signs) {
  const auto eight = [&](std::size_t at) HWY_ATTR {
    hwy::Prefetch(x + at + kReadAhead);
    const __m256 below = _mm256_cmp_ps(_mm256_loadu_ps(x + at), _mm256_setzero_ps(), _CMP_LT_OQ);
    return static_cast<std::uint32_t>(_mm256_movemask_ps(below));
  };
  for (std::size_t i = 0; i < count; i += 32)
    store(signs + i / 8, eight(i) | eight(i + 8) << 8 | eight(i + 16) << 16 | eight(i + 24) << 24);
}
#else
// Eight entries at least, so that a vector's bits are whole bytes.
using EightOrMore = hn::CappedTag<float, 16>;

void pack_signs_run(const float* x, std::size_t count, std::uint8_t* signs) {
  const EightOrMore d;
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t i = 0; i < count; i += 8) {
    std::uint8_t byte[8] = {};
    unsigned bits = 0;
    for (std::size_t at = 0; at < 8; at += lanes) {
      hn::StoreMaskBits(d, hn::Lt(hn::LoadU(d, x + i + at), hn::Zero(d)), byte);
      bits |= static_cast<unsigned>(byte[0]) << at;
      if (lanes > 8) signs[i / 8 + 1] = byte[1];
    }
    signs[i / 8] = static_cast<std::uint8_t>(bits);
    if (lanes > 8) i += 8;
  }
}
#endif

#if HWY_TARGET == HWY_AVX2
// A word of 32 signs is loaded once, and each lane shifts its own bit to the top.
void add_signs_run(const std::uint8_t* signs, std::size_t count, float scale, float weight,
                   float* y) {
  const Values w = set(weight);
  const __m256i top = _mm256_set1_epi32(static_cast<int>(0x80000000U));
  const __m256i value = _mm256_castps_si256(set(scale).raw);
  for (std::size_t i = 0; i < count; i += 32) {
    const __m256i word = _mm256_set1_epi32(load<std::int32_t>(signs + i / 8));
    for (int part = 0; part < 4; ++part) {
      float* to = y + i + 8 * static_cast<std::size_t>(part);
      hwy::Prefetch(to + kAddAhead);
      const __m256i shift = _mm256_sub_epi32(_mm256_setr_epi32(31, 30, 29, 28, 27, 26, 25, 24),
                                             _mm256_set1_epi32(8 * part));
      const __m256i sign = _mm256_and_si256(_mm256_sllv_epi32(word, shift), top);
      add_to(to, w, Values{_mm256_castsi256_ps(_mm256_or_si256(value, sign))});
    }
  }
}
#else
void add_signs_run(const std::uint8_t* signs, std::size_t count, float scale, float weight,
                   float* y) {
  const F32 d;
  const std::size_t lanes = hn::Lanes(d);
  const Values w = set(weight), plus = set(scale), minus = set(-scale);
  for (std::size_t i = 0; i < count; i += lanes) {
    std::uint8_t bits[8] = {static_cast<std::uint8_t>(signs[i / 8] >> i % 8)};
    if (lanes > 8) bits[1] = signs[i / 8 + 1];
    add_to(y + i, w, hn::IfThenElse(hn::LoadMaskBits(d, bits), minus, plus));
  }
}
#endif

void pack_and_leave_run(const Mixed& block, float scale, std::uint8_t* signs) {
  const Values plus = set(scale), minus = set(-scale), zero = hn::Zero(F32());
  const std::size_t lanes = hn::Lanes(F32());
  with_mixed(block, [&](auto entries) HWY_ATTR {
    for (std::size_t i = 0; i < block.count; i += 16) {
      entries.ahead(i);
      unsigned bits = 0;
      for (std::size_t at = 0; at < 16; at += lanes) {
        const Values x = entries.x(i + at);
        const auto below = hn::Lt(x, zero);
        std::uint8_t some[8] = {};
        hn::StoreMaskBits(F32(), below, some);
        bits |= unsigned{load<std::uint16_t>(some)} << at;
        entries.leave(i + at, x, hn::IfThenElse(below, minus, plus));
      }
      store(signs + i / 8, static_cast<std::uint16_t>(bits));
    }
    entries.end(block.count);
  });
}

}  // namespace laconic::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace laconic::kernels {
namespace {

HWY_EXPORT(pack_signs_run);
HWY_EXPORT(add_signs_run);
HWY_EXPORT(pack_and_leave_run);

}  // namespace

void pack_signs(std::span<const float> x, std::uint8_t* signs) {
  in_groups(
      x.size(),
      [&](std::size_t, std::size_t count, const float* x, std::uint8_t* signs) {
        HWY_DYNAMIC_DISPATCH(pack_signs_run)(x, count, signs);
      },
      In<float>{x.data()}, Out<Bit>{signs});
}

void pack_and_leave_signs(const Mixed& block, float scale, std::uint8_t* signs) {
  in_mixed_groups(
      block,
      [&](std::size_t, const Mixed& some, std::uint8_t* signs) {
        HWY_DYNAMIC_DISPATCH(pack_and_leave_run)(some, scale, signs);
      },
      Out<Bit>{signs});
}

void add_signs(const std::uint8_t* signs, float scale, float weight, std::span<float> y) {
  in_groups(
      y.size(),
      [&](std::size_t, std::size_t count, const std::uint8_t* signs, float* y) {
        HWY_DYNAMIC_DISPATCH(add_signs_run)(signs, count, scale, weight, y);
      },
      In<Bit>{signs}, InOut<float>{y.data()});
}

}  // namespace laconic::kernels
#endif  // HWY_ONCE

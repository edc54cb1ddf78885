// Codes of bytes in streams of bits. Neighbours are joined on vector lanes, two and two, until
// eight codes are one word: shifting and storing are then for eight symbols at a time.
#include "laconic/kernels/bit_codes.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "laconic/kernels/bit_codes.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace laconic::kernels::HWY_NAMESPACE {

// Four codes are at most 44 bits.
HWY_INLINE void put_four(BitStream& out, const BitCodes& codes, const std::uint8_t* symbols) {
  std::uint64_t bits = 0;
  unsigned length = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    const unsigned code = codes[symbols[i]];
    bits |= static_cast<std::uint64_t>(code >> 4) << length;
    length += code & 15;
  }
  out.put(bits, length);
}

#if HWY_TARGET == HWY_AVX2

constexpr std::size_t kStep = 32;

// The codes of 16 symbols.
struct Looked {
  explicit Looked(const BitCodes& codes) : codes_(codes.data()) {}
  HWY_INLINE __m256i operator()(const std::uint8_t* symbols) const {
    const auto half = [&](const std::uint8_t* s) HWY_ATTR {
      const auto word = load<std::uint64_t>(s);
      __m128i v = _mm_cvtsi32_si128(codes_[word & 255]);
      v = _mm_insert_epi16(v, codes_[word >> 8 & 255], 1);
      v = _mm_insert_epi16(v, codes_[word >> 16 & 255], 2);
      v = _mm_insert_epi16(v, codes_[word >> 24 & 255], 3);
      v = _mm_insert_epi16(v, codes_[word >> 32 & 255], 4);
      v = _mm_insert_epi16(v, codes_[word >> 40 & 255], 5);
      v = _mm_insert_epi16(v, codes_[word >> 48 & 255], 6);
      return _mm_insert_epi16(v, codes_[word >> 56], 7);
    };
    return _mm256_set_m128i(half(symbols + 8), half(symbols));
  }
  const std::uint16_t* codes_;
};

// Four words of four codes each, at most 44 bits, and their lengths.
struct Joined {
  __m256i bits, lengths;
  HWY_INLINE explicit Joined(__m256i codes) {
    const __m256i low16 = _mm256_set1_epi32(0xffff), low32 = _mm256_set1_epi64x(0xffffffff);
    const __m256i ones = _mm256_and_si256(codes, _mm256_set1_epi16(15));
    const __m256i code = _mm256_srli_epi16(codes, 4);
    const __m256i two = _mm256_or_si256(
        _mm256_and_si256(code, low16),
        _mm256_sllv_epi32(_mm256_srli_epi32(code, 16), _mm256_and_si256(ones, low16)));
    const __m256i twos = _mm256_madd_epi16(ones, _mm256_set1_epi16(1));
    const __m256i first = _mm256_and_si256(twos, low32);
    bits = _mm256_or_si256(_mm256_and_si256(two, low32),
                           _mm256_sllv_epi64(_mm256_srli_epi64(two, 32), first));
    lengths = _mm256_add_epi64(first, _mm256_srli_epi64(twos, 32));
  }
};

HWY_INLINE void put_step(const std::uint8_t* symbols, const Looked& looked, BitStream& out) {
  alignas(32) std::uint64_t bits[8], lengths[8];
  const auto keep = [&](std::size_t at, __m256i b, __m256i l) HWY_ATTR {
    _mm256_store_si256(reinterpret_cast<__m256i*>(bits + at), b);
    _mm256_store_si256(reinterpret_cast<__m256i*>(lengths + at), l);
  };
  const Joined v(looked(symbols)), w(looked(symbols + 16));
  const __m256i first = _mm256_unpacklo_epi64(v.lengths, w.lengths);
  const __m256i all = _mm256_add_epi64(first, _mm256_unpackhi_epi64(v.lengths, w.lengths));
  if (HWY_LIKELY(_mm256_testz_si256(_mm256_cmpgt_epi64(all, _mm256_set1_epi64x(56)), all))) {
    keep(0,
         _mm256_or_si256(_mm256_unpacklo_epi64(v.bits, w.bits),
                         _mm256_sllv_epi64(_mm256_unpackhi_epi64(v.bits, w.bits), first)),
         all);
    for (const std::size_t i : {0, 2, 1, 3}) out.put(bits[i], static_cast<unsigned>(lengths[i]));
    return;
  }
  keep(0, v.bits, v.lengths);
  keep(4, w.bits, w.lengths);
  for (std::size_t i = 0; i < 8; ++i) out.put(bits[i], static_cast<unsigned>(lengths[i]));
}

#elif HWY_TARGET == HWY_AVX3

constexpr std::size_t kStep = 64;

// The codes of 32 symbols: all 256 lie in eight registers.
struct Looked {
  explicit HWY_INLINE Looked(const BitCodes& codes) {
    for (std::size_t i = 0; i < 8; ++i) part_[i] = _mm512_loadu_si512(codes.data() + 32 * i);
  }
  HWY_INLINE __m512i operator()(const std::uint8_t* symbols) const {
    const __m512i at =
        _mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(symbols)));
    const __mmask32 odd = _mm512_test_epi16_mask(at, _mm512_set1_epi16(64));
    const __mmask32 upper = _mm512_test_epi16_mask(at, _mm512_set1_epi16(128));
    const __m512i low =
        _mm512_mask_blend_epi16(odd, _mm512_permutex2var_epi16(part_[0], at, part_[1]),
                                _mm512_permutex2var_epi16(part_[2], at, part_[3]));
    const __m512i high =
        _mm512_mask_blend_epi16(odd, _mm512_permutex2var_epi16(part_[4], at, part_[5]),
                                _mm512_permutex2var_epi16(part_[6], at, part_[7]));
    return _mm512_mask_blend_epi16(upper, low, high);
  }
  __m512i part_[8];
};

// Eight words of four codes each, at most 44 bits, and their lengths.
struct Joined {
  __m512i bits, lengths;
  HWY_INLINE explicit Joined(__m512i codes) {
    const __m512i low16 = _mm512_set1_epi32(0xffff), low32 = _mm512_set1_epi64(0xffffffff);
    const __m512i ones = _mm512_and_si512(codes, _mm512_set1_epi16(15));
    const __m512i code = _mm512_srli_epi16(codes, 4);
    const __m512i two = _mm512_or_si512(
        _mm512_and_si512(code, low16),
        _mm512_sllv_epi32(_mm512_srli_epi32(code, 16), _mm512_and_si512(ones, low16)));
    const __m512i twos = _mm512_madd_epi16(ones, _mm512_set1_epi16(1));
    const __m512i first = _mm512_and_si512(twos, low32);
    bits = _mm512_or_si512(_mm512_and_si512(two, low32),
                           _mm512_sllv_epi64(_mm512_srli_epi64(two, 32), first));
    lengths = _mm512_add_epi64(first, _mm512_srli_epi64(twos, 32));
  }
};

HWY_INLINE void put_step(const std::uint8_t* symbols, const Looked& looked, BitStream& out) {
  alignas(64) std::uint64_t bits[16], lengths[16];
  const auto keep = [&](std::size_t at, __m512i b, __m512i l) HWY_ATTR {
    _mm512_store_si512(bits + at, b);
    _mm512_store_si512(lengths + at, l);
  };
  const Joined v(looked(symbols)), w(looked(symbols + 32));
  const __m512i first = _mm512_unpacklo_epi64(v.lengths, w.lengths);
  const __m512i all = _mm512_add_epi64(first, _mm512_unpackhi_epi64(v.lengths, w.lengths));
  if (HWY_LIKELY(_mm512_cmpgt_epi64_mask(all, _mm512_set1_epi64(56)) == 0)) {
    keep(0,
         _mm512_or_si512(_mm512_unpacklo_epi64(v.bits, w.bits),
                         _mm512_sllv_epi64(_mm512_unpackhi_epi64(v.bits, w.bits), first)),
         all);
    for (const std::size_t i : {0, 2, 4, 6, 1, 3, 5, 7})
      out.put(bits[i], static_cast<unsigned>(lengths[i]));
    return;
  }
  keep(0, v.bits, v.lengths);
  keep(8, w.bits, w.lengths);
  for (std::size_t i = 0; i < 16; ++i) out.put(bits[i], static_cast<unsigned>(lengths[i]));
}

#else

constexpr std::size_t kStep = 4;

struct Looked {
  explicit Looked(const BitCodes& all) : codes(all) {}
  const BitCodes& codes;
};

HWY_INLINE void put_step(const std::uint8_t* symbols, const Looked& looked, BitStream& out) {
  put_four(out, looked.codes, symbols);
}

#endif

void put_codes_run(const std::uint8_t* first, const std::uint8_t* second, std::size_t count,
                   const BitCodes& codes, BitStream& to_first, BitStream& to_second) {
  BitStream a = to_first, b = to_second;
  const Looked looked(codes);
  std::size_t i = 0;
  for (; i + kStep <= count; i += kStep) {
    put_step(first + i, looked, a);
    put_step(second + i, looked, b);
  }
  for (; i + 4 <= count; i += 4) {
    put_four(a, codes, first + i);
    put_four(b, codes, second + i);
  }
  for (; i < count; ++i) {
    a.put(codes[first[i]] >> 4, codes[first[i]] & 15U);
    b.put(codes[second[i]] >> 4, codes[second[i]] & 15U);
  }
  to_first = a;
  to_second = b;
}

}  // namespace laconic::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace laconic::kernels {
namespace {

HWY_EXPORT(put_codes_run);

}  // namespace

void put_codes(const std::uint8_t* first, const std::uint8_t* second, std::size_t count,
               const BitCodes& codes, BitStream& a, BitStream& b) {
  HWY_DYNAMIC_DISPATCH(put_codes_run)(first, second, count, codes, a, b);
}

}  // namespace laconic::kernels
#endif  // HWY_ONCE

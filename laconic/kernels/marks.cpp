// Marks, a vector of entries at a time: values that lie next to each other move to the lanes of the
// entries that are marked.
#include "laconic/kernels/marks.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "laconic/kernels/stream.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "laconic/kernels/marks.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#ifndef LACONIC_KERNELS_MARKS_ONCE
#define LACONIC_KERNELS_MARKS_ONCE
namespace laconic::kernels {

// Whether as many ones stand next to each other.
inline bool has_run(std::uint64_t word, unsigned run) {
  for (unsigned known = 1; known < run;) {
    const unsigned more = std::min(known, run - known);
    word &= word >> more;
    known += more;
  }
  return word != 0;
}

// Of each byte of marks, the number of the value that belongs in each lane.
inline constexpr auto kLaneValues = [] {
  std::array<std::array<std::uint8_t, 8>, 256> all{};
  for (unsigned marks = 0; marks < 256; ++marks)
    for (unsigned lane = 0; lane < 8; ++lane)
      all[marks][lane] = static_cast<std::uint8_t>(std::popcount(marks & ((1U << lane) - 1)));
  return all;
}();

}  // namespace laconic::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace laconic::kernels::HWY_NAMESPACE {

std::size_t count_marks_run(const std::uint64_t* marks, std::size_t words) {
  std::size_t sum = 0;
  for (std::size_t i = 0; i < words; ++i) sum += static_cast<std::size_t>(std::popcount(marks[i]));
  return sum;
}

// One by one; returns the value after the last.
HWY_INLINE const float* add_word(std::uint64_t word, const float* values, float weight, float* y) {
  for (; word != 0; word &= word - 1) y[std::countr_zero(word)] += weight * *values++;
  return values;
}

// Of a word for 64 entries.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
HWY_INLINE const float* add_whole(std::uint64_t word, const float* values, float weight, float* y) {
  const __m512 w = _mm512_set1_ps(weight);
  for (std::size_t i = 0; i < 64; i += 16) {
    const auto marked = static_cast<__mmask16>(word >> i);
    const __m512 value = _mm512_maskz_expand_ps(marked, _mm512_loadu_ps(values));
    const __m512 before = _mm512_loadu_ps(y + i);
    _mm512_storeu_ps(y + i, _mm512_mask_add_ps(before, marked, before, _mm512_mul_ps(w, value)));
    values += std::popcount(static_cast<std::uint32_t>(marked));
  }
  return values;
}
#elif HWY_TARGET == HWY_AVX2
HWY_INLINE const float* add_whole(std::uint64_t word, const float* values, float weight, float* y) {
  const __m256 w = _mm256_set1_ps(weight);
  const __m256i bits = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  for (std::size_t i = 0; i < 64; i += 8) {
    const auto byte = static_cast<std::uint8_t>(word >> i);
    std::int64_t lanes;
    std::memcpy(&lanes, kLaneValues[byte].data(), sizeof lanes);
    const __m256i order = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(lanes));
    const __m256 value = _mm256_permutevar8x32_ps(_mm256_loadu_ps(values), order);
    const __m256i marked =
        _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32(byte), bits), bits);
    const __m256 before = _mm256_loadu_ps(y + i);
    const __m256 sum = _mm256_add_ps(before, _mm256_mul_ps(w, value));
    _mm256_storeu_ps(y + i, _mm256_blendv_ps(before, sum, _mm256_castsi256_ps(marked)));
    values += std::popcount(static_cast<std::uint32_t>(byte));
  }
  return values;
}
#else
HWY_INLINE const float* add_whole(std::uint64_t word, const float* values, float weight, float* y) {
  return add_word(word, values, weight, y);
}
#endif

void add_marked_run(const std::uint64_t* marks, const float* values, float weight, float* y,
                    std::size_t count) {
  constexpr std::size_t kAhead = 512;  // entries
  std::size_t i = 0;
  for (; i + 64 <= count; i += 64) {
    for (std::size_t line = 0; line < 64; line += 16) fetch(y + i + kAhead + line);
    values = add_whole(marks[i / 64], values, weight, y + i);
  }
  if (i < count) add_word(marks[i / 64] & ((1ULL << (count - i)) - 1), values, weight, y + i);
}

// A run of zeros is odd if it begins at an even bit and ends at an odd one, or the other way:
// adding a one where it begins carries to where it ends, and into the next word.
class Ends {
 public:
  HWY_INLINE std::uint64_t of(std::uint64_t zeros, std::uint64_t begins) {
    const std::uint64_t sum = zeros + begins, all = sum + carry_;
    carry_ = static_cast<std::uint64_t>(sum < zeros) | static_cast<std::uint64_t>(all < sum);
    return all & ~zeros;
  }

 private:
  std::uint64_t carry_ = 0;
};

// Of one word, whose first bit stands for entry `first`.
void take_long(std::uint64_t marked, std::size_t first, std::size_t zeros, unsigned run,
               MarkGaps& gaps) {
  std::size_t next = first - zeros;
  for (; marked != 0; marked &= marked - 1) {
    const std::size_t mark = first + static_cast<std::size_t>(std::countr_zero(marked));
    if (mark - next >= run) gaps.take(mark, mark - next);
    next = mark + 1;
  }
}

MarkGaps mark_gaps_run(const std::uint64_t* marks, std::size_t words, unsigned run) {
  constexpr std::uint64_t kEven = 0x5555555555555555ULL;
  const auto number = [](std::uint64_t word)
                          HWY_ATTR { return static_cast<std::size_t>(std::popcount(word)); };
  MarkGaps gaps;
  while (words > 0 && marks[words - 1] == 0) --words;
  if (words == 0) return gaps;
  const auto last = static_cast<unsigned>(std::bit_width(marks[words - 1]));
  gaps.end = 64 * (words - 1) + last;
  Ends from_even, from_odd;
  std::uint64_t before = 0;  // zeros of the word before
  std::size_t at_end = 0;    // zeros in a row up to its end
  for (std::size_t i = 0; i < words; ++i) {
    std::uint64_t zeros = ~marks[i];
    if (i + 1 == words) zeros &= ~std::uint64_t{0} >> (64 - last);
    const std::uint64_t marked = marks[i], one = zeros << 1 | before >> 63;
    const std::uint64_t begins = zeros & ~one;
    gaps.some += number(marked & one);
    gaps.three += number(marked & one & (zeros << 2 | before >> 62) & (zeros << 3 | before >> 61));
    gaps.odd += number(from_even.of(zeros, begins & kEven) & ~kEven);
    gaps.odd += number(from_odd.of(zeros, begins & ~kEven) & kEven);
    if (has_run(zeros, run) || at_end + static_cast<unsigned>(std::countr_one(zeros)) >= run)
      take_long(marked, 64 * i, at_end, run, gaps);
    at_end = marked == 0 ? at_end + 64 : static_cast<unsigned>(std::countl_one(zeros));
    before = zeros;
  }
  return gaps;
}

std::size_t marks_of_zeros_run(const std::uint8_t* bits, std::size_t size, std::size_t words,
                               std::size_t kept, unsigned run, std::uint64_t* marks) {
  std::size_t i = 0;
  unsigned before = 0;  // ones at the end of the word before
  for (; i < words; ++i) {
    std::uint64_t word = ~std::uint64_t{0};
    if (8 * i >= size) return 0;
    std::memcpy(&word, bits + 8 * i, std::min<std::size_t>(8, size - 8 * i));
    const auto zeros = static_cast<std::size_t>(std::popcount(~word));
    if (zeros >= kept) {
      std::uint64_t last = ~word;
      for (std::size_t j = 1; j < kept; ++j) last &= last - 1;
      const std::uint64_t upto = last ^ (last - 1);  // the last mark and all below
      word &= upto;
      if (has_run(word, run) || before + static_cast<unsigned>(std::countr_one(word)) >= run)
        return 0;
      marks[i] = ~word & upto;
      std::fill(marks + i + 1, marks + words, std::uint64_t{0});
      return 64 * i + static_cast<std::size_t>(std::bit_width(upto));
    }
    if (has_run(word, run) || before + static_cast<unsigned>(std::countr_one(word)) >= run)
      return 0;
    before = static_cast<unsigned>(std::countl_one(word));
    marks[i] = ~word;
    kept -= zeros;
  }
  return 0;
}

}  // namespace laconic::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace laconic::kernels {
namespace {

HWY_EXPORT(count_marks_run);
HWY_EXPORT(add_marked_run);
HWY_EXPORT(mark_gaps_run);
HWY_EXPORT(marks_of_zeros_run);

}  // namespace

std::size_t count_marks(std::span<const std::uint64_t> marks) {
  return HWY_DYNAMIC_DISPATCH(count_marks_run)(marks.data(), marks.size());
}

void add_marked(const std::uint64_t* marks, const float* values, float weight, std::span<float> y) {
  HWY_DYNAMIC_DISPATCH(add_marked_run)(marks, values, weight, y.data(), y.size());
}

MarkGaps gaps_of_marks(std::span<const std::uint64_t> marks, unsigned run) {
  return HWY_DYNAMIC_DISPATCH(mark_gaps_run)(marks.data(), marks.size(), run);
}

std::size_t marks_of_zeros(std::span<const std::uint8_t> bits, std::size_t count, std::size_t kept,
                           unsigned run, std::uint64_t* marks) {
  const std::size_t number = HWY_DYNAMIC_DISPATCH(marks_of_zeros_run)(
      bits.data(), bits.size(), (count + 63) / 64, kept, run, marks);
  return number <= count ? number : 0;
}

}  // namespace laconic::kernels
#endif  // HWY_ONCE

// Floats as views of several arrays, and 16-bit formats against plain arithmetic on every value.
#include "laconic/kernels/floats.h"

#include "laconic/kernels/half.h"
#include "tests/support.h"

namespace laconic::testing {
namespace {

// What 16 bits with so many bits of exponent stand for.
double value_of(std::uint32_t half, int exponent_bits) {
  const int mantissa_bits = 15 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = static_cast<int>(half & 0x7fff) >> mantissa_bits;
  const int mantissa = static_cast<int>(half) & ((1 << mantissa_bits) - 1);
  const double sign = half & 0x8000 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) return mantissa ? NAN : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp((1 << mantissa_bits) + mantissa, exponent - bias - mantissa_bits);
}

struct Format {
  Dtype dtype;
  int exponent_bits;
};
constexpr Format kFormats[] = {{Dtype::bfloat16, 8}, {Dtype::float16, 5}};

std::vector<std::uint16_t> all_halves() {
  std::vector<std::uint16_t> halves(65536);
  for (std::size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<std::uint16_t>(i);
  return halves;
}

TEST(Halves, EveryValueIsReadRight) {
  auto halves = all_halves();
  for (const auto [dtype, exponent_bits] : kFormats)
    on_every_cpu([&, dtype = dtype, exponent_bits = exponent_bits](const std::string&) {
      const Piece piece{halves.size(), halves.data(), dtype};
      std::vector<float> y(halves.size());
      Floats(std::span(&piece, 1)).load(0, y.size(), y.data());
      for (std::size_t i = 0; i < y.size(); ++i) {
        const double expected = value_of(static_cast<std::uint32_t>(i), exponent_bits);
        if (std::isnan(expected))
          EXPECT_TRUE(std::isnan(y[i])) << i;
        else
          EXPECT_EQ(std::bit_cast<std::uint32_t>(y[i]),
                    std::bit_cast<std::uint32_t>(static_cast<float>(expected)))
              << i;
      }
    });
}

std::uint16_t stored(float value, Dtype dtype) {
  std::uint16_t half = 0;
  const Piece piece{1, &half, dtype};
  Floats(std::span(&piece, 1)).store(0, 1, &value);
  return half;
}

// Between neighbours a and b: a itself, just below the middle, the middle (to the even one), just
// above it.
TEST(Halves, RoundToTheNearestTiesToEven) {
  for (const auto [dtype, exponent_bits] : kFormats) {
    const std::uint32_t infinity = dtype == Dtype::bfloat16 ? 0x7f80 : 0x7c00;
    for (std::uint32_t half = 0; half < infinity;
         half += half < 64 || half + 64 > infinity ? 1 : 7) {
      const double a = value_of(half, exponent_bits);
      const double gap = half + 1 == infinity ? a - value_of(half - 1, exponent_bits)
                                              : value_of(half + 1, exponent_bits) - a;
      const auto middle = static_cast<float>(a + gap / 2);
      if (static_cast<double>(middle) != a + gap / 2) continue;  // no float: beyond the last one
      for (const std::uint32_t sign : {0U, 0x8000U}) {
        const float s = sign ? -1 : 1;
        EXPECT_EQ(stored(s * static_cast<float>(a), dtype), half | sign);
        EXPECT_EQ(stored(s * std::nextafter(middle, 0.0F), dtype), half | sign);
        EXPECT_EQ(stored(s * middle, dtype), (half + (half & 1)) | sign);
        EXPECT_EQ(stored(s * std::nextafter(middle, INFINITY), dtype), (half + 1) | sign);
      }
    }
    EXPECT_EQ(stored(INFINITY, dtype), infinity);
    EXPECT_EQ(stored(-INFINITY, dtype), infinity | 0x8000);
    EXPECT_EQ(stored(std::numeric_limits<float>::max(), dtype), infinity);
    for (const std::uint32_t nan : {0x7f800001U, 0x7fc00000U, 0xffffffffU}) {
      const auto half = stored(std::bit_cast<float>(nan), dtype);
      EXPECT_GT(half & 0x7fffU, infinity) << nan;
    }
  }
}

TEST(Floats, PiecesAreOneArray) {
  std::vector<float> a(10), b(7), out(20, -1);
  std::vector<std::uint16_t> c(3);
  const std::vector<Piece> pieces = {
      {10, a.data()}, {0, nullptr}, {3, c.data(), Dtype::bfloat16}, {7, b.data()}};
  const Floats all = std::span(pieces);
  EXPECT_EQ(all.size(), 20U);
  EXPECT_EQ(all.array(), nullptr);
  std::vector<float> values(20);
  for (std::size_t i = 0; i < 20; ++i) values[i] = static_cast<float>(i);
  all.store(0, 20, values.data());
  for (std::size_t from = 0; from < 20; ++from)
    for (std::size_t count = 1; from + count <= 20; ++count) {
      const float* at = all.load(from, count, out.data());
      EXPECT_TRUE(std::equal(at, at + count, values.begin() + static_cast<std::ptrdiff_t>(from)));
      const bool together = from + count <= 10 || from >= 13;
      EXPECT_EQ(at != out.data(), together);
      EXPECT_EQ(all.place(from, count, out.data()) != out.data(), together);
    }
  const std::vector<std::uint32_t> positions = {0, 9, 10, 12, 13, 19};
  const std::vector<float> marks = {-1, -2, -3, -4, -5, -6};
  all.scatter(positions, marks.data());
  for (std::size_t j = 0; j < marks.size(); ++j) values[positions[j]] = marks[j];
  EXPECT_TRUE(std::ranges::equal(std::span(all.load(0, 20, out.data()), 20), values));
}

TEST(Floats, OneArrayIsItself) {
  std::vector<float> x(100);
  EXPECT_EQ(Floats(std::span(x)).array(), x.data());
  const Piece piece{100, x.data()};
  EXPECT_EQ(Floats(std::span(&piece, 1)).array(), x.data());
  EXPECT_TRUE(Floats().empty());
  const Piece wide{10, x.data(), Dtype::float64};
  EXPECT_THROW(Floats(std::span(&wide, 1)), UsageError);
}

// What no encoder writes is read as the largest that it could have written.
TEST(Halves, AddingReadsEveryHalfAsFinite) {
  auto halves = all_halves();
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(halves.data());
  const auto expect = [&](std::uint32_t limit, int exponent_bits, double scale, auto add) {
    on_every_cpu([&](const std::string&) {
      std::vector<float> y(halves.size(), 0.0F);
      add(y);
      for (std::uint32_t i = 0; i < y.size(); ++i) {
        const std::uint32_t half = (i & 0x8000U) | std::min(i & 0x7fffU, limit);
        ASSERT_EQ(y[i], static_cast<float>(scale * value_of(half, exponent_bits))) << i;
      }
    });
  };
  expect(0x7f7f, 8, 1, [&](std::span<float> y) { kernels::bf16_add(bytes, 1, y); });
  for (const unsigned top : {100U, 141U, 253U, 254U})
    expect(kernels::fp16_limit(top), 5, std::ldexp(1.0, static_cast<int>(top) - 141),
           [&](std::span<float> y) { kernels::fp16_add(bytes, top, 1, y); });
}

}  // namespace
}  // namespace laconic::testing

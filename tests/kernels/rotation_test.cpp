// Rotations of blocks, each kernel against its plain twin on every instruction set.
#include "laconic/kernels/rotation.h"

#include <bit>

#include "tests/kernels/inputs.h"

namespace laconic::testing {
namespace {

const Key kKey = make_keys(3, 1, 4).own;
const std::vector<std::size_t> kCounts = {1, 2, 3, 7, 32, 63, 64, 65, 500, 1024, 3000, 4096};
const std::vector<std::uint64_t> kFirsts = {0, (std::uint64_t{1} << 32) - 5,
                                            (std::uint64_t{7} << 32) - 333};

template <class T>
void plain_hadamard(std::vector<T>& x) {
  for (std::size_t half = 1; half < x.size(); half *= 2)
    for (std::size_t i = 0; i < x.size(); ++i)
      if ((i & half) == 0) {
        const T a = x[i], b = x[i + half];
        x[i] = a + b;
        x[i + half] = a - b;
      }
}

bool turned(std::uint64_t first, std::size_t i) { return kKey.bits32(first + i) >> 31 != 0; }

TEST(Rotation, EqualsItsPlainTwin) {
  for (const std::size_t count : kCounts)
    for (const Input& input : inputs(count))
      for (const std::uint64_t first : kFirsts) {
        std::vector<double> expected(std::bit_ceil(count));
        for (std::size_t i = 0; i < count; ++i)
          expected[i] = turned(first, i) ? -input.values[i] : input.values[i];
        plain_hadamard(expected);
        std::vector<std::uint8_t> signs((expected.size() + 7) / 8);
        for (std::size_t i = 0; i < expected.size(); ++i)
          signs[i / 8] |= static_cast<std::uint8_t>((expected[i] < 0) << i % 8);
        on_every_cpu([&](const std::string& cpu) {
          std::vector<double> z(expected.size(), 99);
          std::vector<std::uint8_t> bits(signs.size(), 99);
          ASSERT_TRUE(kernels::rotate(input.values, kKey, first, z));
          ASSERT_EQ(z, expected) << cpu << ", " << input.name << ", " << count;
          kernels::pack_negative(z, bits.data());
          ASSERT_EQ(bits, signs) << cpu << ", " << input.name << ", " << count;
        });
      }
}

TEST(Rotation, RefusesWhatIsNotFinite) {
  std::vector<float> x(100, 1);
  std::vector<double> z(128);
  for (const float value : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    x[77] = value;
    EXPECT_FALSE(kernels::rotate(x, kKey, 0, z));
  }
}

TEST(Rotation, SumsSideBySideAreInTheOrderOfTheirEntries) {
  kernels::SidesOfFloats floats;
  kernels::SidesOfDoubles doubles;
  std::vector<std::vector<float>> x;
  std::vector<std::vector<double>> z;
  for (std::size_t i = 0; i < kernels::kSideBySide; ++i) {
    x.push_back(gaussian(1000, 1, i + 1));
    z.emplace_back(x[i].begin(), x[i].end());
    floats[i] = x[i].data();
    doubles[i] = z[i].data();
  }
  const auto squares = kernels::sums_of_squares(floats, 1000);
  const auto magnitudes = kernels::sums_of_magnitudes(doubles, 1000);
  for (std::size_t i = 0; i < kernels::kSideBySide; ++i) {
    double square = 0, magnitude = 0;
    for (const double value : z[i]) square += value * value, magnitude += std::abs(value);
    EXPECT_EQ(squares[i], square);
    EXPECT_EQ(magnitudes[i], magnitude);
  }
}

TEST(Rotation, AddingBackEqualsItsPlainTwin) {
  for (const std::size_t count : kCounts)
    for (const float scale : {0.0F, 0.01F, kMax / 2})
      for (const std::uint64_t first : kFirsts) {
        const auto drawn = gaussian(std::bit_ceil(count), 1, 5), start = gaussian(count, 1, 6);
        std::vector<std::uint8_t> bits((drawn.size() + 7) / 8);
        std::vector<int> z(drawn.size());
        for (std::size_t i = 0; i < z.size(); ++i) {
          bits[i / 8] |= static_cast<std::uint8_t>((drawn[i] < 0) << i % 8);
          z[i] = drawn[i] < 0 ? -1 : 1;
        }
        plain_hadamard(z);
        std::vector<float> expected = start;
        for (std::size_t i = 0; i < count; ++i) {
          const float value = std::clamp(static_cast<float>(z[i]) * scale, -kMax, kMax);
          expected[i] += 0.3F * (turned(first, i) ? -value : value);
        }
        on_every_cpu([&](const std::string& cpu) {
          std::vector<float> y = start;
          kernels::add_rotated(bits.data(), z.size(), scale, kKey, first, 0.3F, y);
          ASSERT_EQ(y, expected) << cpu << ", " << count;
        });
      }
}

}  // namespace
}  // namespace laconic::testing

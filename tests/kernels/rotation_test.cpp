// Rotations of blocks, each kernel against its plain twin on every instruction set.
#include "laconic/kernels/rotation.h"

#include <bit>
#include <memory>

#include "laconic/kernels/stream.h"
#include "tests/kernels/inputs.h"

namespace laconic::testing {
namespace {

const Key kKey = make_keys(3, 1, 4).own;
const std::vector<std::size_t> kCounts = {1, 2, 3, 7, 32, 63, 64, 65, 500, 1024, 3000, 4096};
const std::vector<std::uint64_t> kFirsts = {0, (std::uint64_t{1} << 32) - 5,
                                            (std::uint64_t{7} << 32) - 333};

struct alignas(64) Lines {
  float floats[16];
};

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

// Blocks with an entry that is so large that sums could overflow are made smaller first.
float factor_of(const std::vector<float>& x) {
  const bool large = std::ranges::any_of(x, [](float v) { return std::abs(v) >= 0x1p115F; });
  return large ? 0x1p-13F : 1;
}

TEST(Rotation, EqualsItsPlainTwin) {
  for (const std::size_t count : kCounts)
    for (const Input& input : inputs(count))
      for (const std::uint64_t first : kFirsts) {
        const float factor = factor_of(input.values);
        std::vector<float> expected(std::bit_ceil(count));
        std::vector<std::uint8_t> turns((expected.size() + 7) / 8);
        for (std::size_t i = 0; i < count; ++i) {
          expected[i] = factor * (turned(first, i) ? -input.values[i] : input.values[i]);
          turns[i / 8] |= static_cast<std::uint8_t>(turned(first, i) << i % 8);
        }
        plain_hadamard(expected);
        on_every_cpu([&](const std::string& cpu) {
          std::vector<float> z(expected.size(), 99);
          std::vector<std::uint8_t> bits(turns.size(), 99);
          ASSERT_EQ(kernels::rotate(input.values, kKey, first, z, bits.data()), factor);
          ASSERT_EQ(z, expected) << cpu << ", " << input.name << ", " << count;
          for (std::size_t i = count; i < z.size(); ++i)  // nobody asks
            bits[i / 8] &= static_cast<std::uint8_t>(~(1U << i % 8));
          ASSERT_EQ(bits, turns) << cpu << ", " << input.name << ", " << count;
        });
      }
}

TEST(Rotation, RefusesWhatIsNotFinite) {
  std::vector<float> x(100, 1), z(128);
  std::vector<std::uint8_t> turns(16);
  for (const float value : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    x[77] = value;
    EXPECT_EQ(kernels::rotate(x, kKey, 0, z, turns.data()), 0);
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
        std::vector<float> expected = start, left(count);
        std::vector<std::uint8_t> turns((z.size() + 7) / 8);
        for (std::size_t i = 0; i < count; ++i) {
          const float value = std::clamp(static_cast<float>(z[i]) * scale, -kMax, kMax);
          const float back = turned(first, i) ? -value : value;
          expected[i] += 0.3F * back;
          left[i] = 0.9F * (start[i] - back);
          turns[i / 8] |= static_cast<std::uint8_t>(turned(first, i) << i % 8);
        }
        on_every_cpu([&](const std::string& cpu) {
          std::vector<float> y = start;
          kernels::add_rotated(bits.data(), z.size(), scale, kKey, first, 0.3F, y);
          ASSERT_EQ(y, expected) << cpu << ", " << count;
          for (const bool streams : {false, true}) {
            const auto memory = std::make_unique<Lines[]>(kBlock / 16);
            kernels::leave_rotated(bits.data(), z.size(), scale, turns.data(), start, 0.9F, streams,
                                   memory[0].floats);
            kernels::end_stream();
            ASSERT_TRUE(std::equal(left.begin(), left.end(), memory[0].floats)) << cpu << count;
          }
        });
      }
}

}  // namespace
}  // namespace laconic::testing

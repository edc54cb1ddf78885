// Marking and taking against plain loops, on every instruction set, at every alignment.
#include "laconic/kernels/mark.h"

#include "laconic/kernels/sides.h"
#include "laconic/kernels/stream.h"
#include "tests/kernels/inputs.h"

namespace laconic::testing {
namespace {

using kernels::Cut;

struct Result {
  std::vector<std::uint64_t> marks;
  std::vector<float> left;
  std::uint32_t largest = 0;
  std::size_t ties = 0;  // not used up
};

Result plainly(const kernels::Mixture& x, std::size_t count, float c, float scale, Cut above,
               Cut below, bool same) {
  Result result{std::vector<std::uint64_t>((count + 63) / 64), std::vector<float>(count)};
  for (std::size_t i = 0; i < count; ++i) {
    const float value = scale * x.at(i);
    const std::uint32_t m = magnitude(value);
    Cut& cut = std::signbit(value) && !same ? below : above;
    const bool tie = m == cut.value && cut.ties > 0;
    cut.ties -= tie;
    result.marks[i / 64] |= std::uint64_t{tie || m > cut.value} << i % 64;
    result.left[i] = c * x.at(i);
    result.largest = std::max(result.largest, m);
  }
  result.ties = above.ties + (same ? 0 : below.ties);
  return result;
}

TEST(Mark, EqualsItsPlainTwin) {
  for (const std::size_t count : {1, 63, 64, 65, 200, 4096, 4999})
    for (const auto& [name, fresh] : inputs(count)) {
      SCOPED_TRACE(name + std::string(", ") + std::to_string(count));
      const auto kept = gaussian(count, 1);
      const std::uint32_t some = std::max(1U, magnitude(fresh[count / 2]));
      const std::uint32_t other = std::max(1U, magnitude(fresh[count / 3]));
      for (const Cut& above : {Cut{}, Cut{some, 0}, Cut{some, 3}, Cut{some, count}})
        for (const Cut& below : {Cut::none(), Cut{other, 2}, Cut{other, 0}})
          for (const bool same : {false, true})
            for (const bool mixes : {false, true}) {
              const kernels::Mixture x{fresh.data(), mixes ? kept.data() : nullptr,
                                       mixes ? 0.5F : 1.0F, 0.25F};
              const Result expected = plainly(x, count, 0.75F, 1, above, below, same);
              on_every_cpu([&](const std::string& cpu) {
                for (const std::size_t shift : {0, 1, 4}) {
                  Cut first = above, second = below;
                  alignas(64) float left[6000];
                  Result result{std::vector<std::uint64_t>((count + 63) / 64), {}};
                  result.largest = kernels::mark(x, count, {left + shift, 0.75F, shift != 1}, 1,
                                                 first, same ? first : second, result.marks.data());
                  kernels::end_stream();
                  result.left.assign(left + shift, left + shift + count);
                  result.ties = first.ties + (same ? 0 : second.ties);
                  ASSERT_EQ(result.marks, expected.marks) << cpu;
                  ASSERT_EQ(std::memcmp(result.left.data(), expected.left.data(), 4 * count), 0);
                  ASSERT_EQ(result.largest, expected.largest) << cpu;
                  ASSERT_EQ(result.ties, expected.ties) << cpu;
                }
              });
            }
    }
}

TEST(Mark, TakesWhatIsMarkedAndWritesNothingAfterIt) {
  for (const std::size_t count : {1, 63, 64, 65, 500, 4096})
    for (const unsigned of_eight : {0, 1, 4, 8}) {
      const auto x = made_up(count);
      std::mt19937_64 random(count);
      std::vector<std::uint64_t> marks((count + 63) / 64);
      std::vector<float> expected;
      expected.reserve(count);  // also where none is marked memcmp wants an address
      for (std::size_t i = 0; i < count; ++i)
        if (random() % 8 < of_eight) {
          marks[i / 64] |= std::uint64_t{1} << i % 64;
          expected.push_back(x[i]);
        }
      on_every_cpu([&](const std::string& cpu) {
        for (const std::size_t shift : {0, 1, 3}) {
          std::vector<std::uint8_t> to(shift + 4 * count + 1, 77);
          ASSERT_EQ(kernels::take_marked(x, marks.data(), to.data() + shift), expected.size());
          EXPECT_EQ(std::memcmp(to.data() + shift, expected.data(), 4 * expected.size()), 0) << cpu;
          EXPECT_EQ(to[shift + 4 * expected.size()], 77) << cpu;
        }
      });
    }
}

TEST(Sides, EqualTheirPlainTwins) {
  for_inputs(
      [](std::span<const float> x) {
        const std::uint32_t at[] = {1, x.empty() ? 1 : std::max(1U, magnitude(x[x.size() / 2])),
                                    0x7fffffffU};
        for (const std::uint32_t low : at)
          for (const std::uint32_t high : at) {
            if (low > high) continue;
            on_every_cpu([&](const std::string& cpu) {
              SCOPED_TRACE(cpu);
              std::vector<std::uint32_t> rooms[2], insides[2];
              kernels::SideBracket sides[2];
              std::size_t above[2] = {};
              double sums[2] = {};
              std::uint32_t largest = 0;
              for (const float value : x) {
                const std::uint32_t m = magnitude(value);
                const bool side = std::signbit(value);
                largest = std::max(largest, m);
                if (m > high) ++above[side], sums[side] += std::abs(static_cast<double>(value));
                if (m >= low && m <= high) insides[side].push_back(m);
              }
              for (int i = 0; i < 2; ++i) {
                rooms[i].resize(x.size() + kernels::kSpareInside);
                sides[i] = {.low = low, .high = high, .inside = rooms[i].data()};
              }
              EXPECT_EQ(kernels::bracket_sides(x, sides[0], sides[1]), largest);
              for (int i = 0; i < 2; ++i) {
                ASSERT_EQ(sides[i].above, above[i]);
                rooms[i].resize(sides[i].number);
                ASSERT_EQ(rooms[i], insides[i]);
                if (std::isfinite(sides[i].sum)) {
                  EXPECT_NEAR(sides[i].sum, sums[i], 0x1p-20 * sums[i]);
                }
              }
            });
          }
      },
      8191);
}

}  // namespace
}  // namespace laconic::testing

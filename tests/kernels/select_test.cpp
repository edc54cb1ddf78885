// Choosing by magnitude, against a sort and against plain loops on every instruction set.
#include "laconic/kernels/select.h"

#include <numeric>

#include "laconic/kernels/ones.h"
#include "tests/kernels/inputs.h"

namespace laconic::testing {
namespace {

using kernels::Side;

std::vector<std::uint32_t> counted(std::span<const float> x, Side side) {
  std::vector<std::uint32_t> positions;
  for (std::size_t i = 0; i < x.size(); ++i)
    if (side == Side::both ? x[i] != 0 : side == Side::positive ? x[i] > 0 : x[i] < 0)
      positions.push_back(static_cast<std::uint32_t>(i));
  return positions;
}

std::vector<std::uint32_t> by_magnitude(std::span<const float> x, Side side) {
  auto positions = counted(x, side);
  std::ranges::stable_sort(positions, std::greater<>(),
                           [&](std::uint32_t i) { return magnitude(x[i]); });
  return positions;
}

constexpr Side kSides[] = {Side::both, Side::positive, Side::negative};

// What a cut keeps, entry by entry.
std::vector<std::uint32_t> kept_by(kernels::Cut above, kernels::Cut below, bool same,
                                   std::span<const float> x,
                                   std::span<const std::uint32_t> positions) {
  std::vector<std::uint32_t> kept;
  for (const std::uint32_t i : positions) {
    kernels::Cut& cut = x[i] < 0 && !same ? below : above;
    const bool tie = magnitude(x[i]) == cut.value && cut.ties > 0;
    if (tie) --cut.ties;
    if (tie || magnitude(x[i]) > cut.value) kept.push_back(i);
  }
  return kept;
}

TEST(Select, CutsKeepWhatASortPutsFirst) {
  std::mt19937_64 random(1);
  for_inputs([&](std::span<const float> x) {
    for (const Side side : kSides) {
      const auto sorted = by_magnitude(x, side), all = counted(x, side);
      ASSERT_EQ(kernels::count_on(x, side), all.size());
      if (sorted.empty()) continue;
      const std::uint32_t most = magnitude(x[sorted.front()]), least = magnitude(x[sorted.back()]);
      for (const std::size_t k : {std::size_t{1}, sorted.size(), 1 + random() % sorted.size()}) {
        auto expected = std::vector(sorted.begin(), sorted.begin() + static_cast<long>(k));
        std::ranges::sort(expected);
        Array<std::uint32_t> memory;
        for (const std::uint32_t from : {1U, least})
          for (const std::uint32_t to : {most, 0x7fffffffU}) {
            on_every_cpu([&](const std::string&) {
              const kernels::Cut cut = kernels::cut_after(k, x, side, from, to, memory);
              ASSERT_EQ(kept_by(cut, cut, true, x, all), expected) << k;
              ASSERT_LE(cut.least(), magnitude(x[sorted[k - 1]]));
            });
          }
      }
    }
  });
}

// All equal, two values, and magnitudes that differ in their last bits only.
TEST(Select, CutsThroughTies) {
  for (const std::size_t count : {3, 200, 300, 5000})
    for (const std::uint32_t distinct : {1, 2, 7}) {
      std::vector<float> x(count);
      for (std::size_t i = 0; i < count; ++i)
        x[i] = std::bit_cast<float>(0x3f800000U + static_cast<std::uint32_t>(i % distinct));
      const auto sorted = by_magnitude(x, Side::both);
      for (const std::size_t k : {std::size_t{1}, count / 2, count}) {
        auto expected = std::vector(sorted.begin(), sorted.begin() + static_cast<long>(k));
        std::ranges::sort(expected);
        Array<std::uint32_t> memory;
        const auto cut = kernels::cut_after(k, x, Side::both, 1, magnitude(x[sorted[0]]), memory);
        ASSERT_EQ(kept_by(cut, cut, true, x, counted(x, Side::both)), expected)
            << count << " " << k;
      }
    }
}

// Where a cut looks first, all entries are larger than elsewhere, or all are smaller: the bracket
// that follows from them holds none of those that count.
TEST(Select, ASampleThatMisleadsChangesNoCut) {
  for (const std::size_t count : {8192, 40'000}) {
    const std::size_t sampled = count < 32768 ? 256 : 1024, stride = count / sampled;
    for (const float there : {1.0F, 1e6F}) {
      std::vector<float> x(count);
      for (std::size_t i = 0; i < count; ++i)
        x[i] = (i % 2 == 0 ? 1000.0F : -1000.0F) - static_cast<float>(i % 977) / 100;
      for (std::uint32_t i = 0; i < sampled; ++i)
        x[i * stride + (std::uint64_t{Key::mix32(i, 0, 0)} * stride >> 32)] *= there / 1000;
      const auto sorted = by_magnitude(x, Side::both), all = counted(x, Side::both);
      for (const std::size_t k : {std::size_t{1}, sampled + 1, count / 2, count - sampled - 1}) {
        auto expected = std::vector(sorted.begin(), sorted.begin() + static_cast<long>(k));
        std::ranges::sort(expected);
        Array<std::uint32_t> memory;
        const auto cut = kernels::cut_after(k, x, Side::both, 1, 0x7fffffffU, memory);
        ASSERT_EQ(kept_by(cut, cut, true, x, all), expected) << count << " " << there << " " << k;
      }
    }
  }
}

TEST(Select, KeepingEqualsItsPlainTwin) {
  for_inputs(
      [](std::span<const float> x) {
        const auto all = counted(x, Side::both);
        const auto value = [&](std::size_t i) {
          return all.empty() ? 1U : magnitude(x[all[i % all.size()]]);
        };
        const kernels::Cut cuts[] = {
            {}, kernels::Cut::none(), {value(3), 0}, {value(7), 1}, {value(3), 5}};
        for (const kernels::Cut& first : cuts)
          for (const kernels::Cut& second : cuts)
            for (const bool same : {false, true}) {
              const auto expected = kept_by(first, second, same, x, all);
              on_every_cpu([&](const std::string&) {
                std::vector<std::uint32_t> positions = all;
                std::vector<float> values;
                for (const std::uint32_t i : all) values.push_back(x[i]);
                kernels::Cut above = first, below = second;
                positions.resize(kernels::keep_above(positions.data(), values.data(), all.size(),
                                                     above, same ? above : below));
                ASSERT_EQ(positions, expected);
                values.resize(positions.size());
                ASSERT_TRUE(std::ranges::equal(values, positions, {}, {},
                                               [&](std::uint32_t i) { return x[i]; }));
              });
            }
      },
      8191);
}

TEST(Ones, EqualTheirPlainTwin) {
  std::mt19937_64 random(1);
  for (const int thinned : {0, 1, 3, 6}) {
    std::vector<std::uint64_t> words(100);
    std::vector<std::uint32_t> expected;
    for (std::size_t w = 0; w < words.size(); ++w) {
      words[w] = w % 10 == 9 ? 0 : ~0ULL;
      for (int i = 0; i < thinned; ++i) words[w] &= random();
      for (std::uint32_t bit = 0; bit < 64; ++bit)
        if (words[w] >> bit & 1) expected.push_back(static_cast<std::uint32_t>(64 * w + bit));
    }
    on_every_cpu([&](const std::string&) {
      std::vector<std::uint32_t> positions(expected.size() + kernels::kSpareOnes);
      ASSERT_EQ(kernels::positions_of(words, positions.data()), expected.size());
      positions.resize(expected.size());
      ASSERT_EQ(positions, expected);
    });
  }
}

TEST(Select, GatherEqualsItsPlainTwin) {
  for_inputs([](std::span<const float> x) {
    const std::vector<std::uint32_t> positions = counted(x, Side::positive);
    std::vector<float> values(positions.size());
    kernels::gather(x, positions, -0.75F, values.data());
    for (std::size_t j = 0; j < positions.size(); ++j)
      ASSERT_EQ(values[j], x[positions[j]] * -0.75F);
  });
}

}  // namespace
}  // namespace laconic::testing

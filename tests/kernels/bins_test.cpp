// Bins, against their plain twins on every instruction set.
#include "laconic/kernels/bins.h"

#include <cmath>
#include <cstring>

#include "tests/kernels/inputs.h"

namespace laconic::testing {
namespace {

using kernels::BinCuts;

BinCuts cuts_for(unsigned bits, std::span<const float> x) {
  float largest = 0;
  for (const float value : x) largest = std::max(largest, std::abs(value));
  BinCuts cuts{bits, {}, {}};
  for (std::size_t i = 0; i < cuts.cuts(); ++i) {
    const float share = static_cast<float>(i + 1) / static_cast<float>(cuts.cuts() + 1);
    cuts.above[i] = largest * share;
    cuts.below[i] = -largest * share * share;
  }
  return cuts;
}

std::uint8_t plain_bin(float x, const BinCuts& cuts) {
  std::size_t bin = x < 0 ? cuts.negative() : 0;
  for (std::size_t i = 0; i < cuts.cuts(); ++i) bin += x > cuts.above[i] || x < cuts.below[i];
  return static_cast<std::uint8_t>(bin);
}

TEST(Bins, AreFoundAndAddedAsTheirPlainTwin) {
  const auto worth = gaussian(kernels::kMostBins, 1, 7);
  for_inputs([&](std::span<const float> x) {
    const auto start = gaussian(x.size(), 1, 3);
    for (unsigned bits = 1; bits <= kernels::kMostBinBits; ++bits) {
      const BinCuts cuts = cuts_for(bits, x);
      std::vector<std::uint8_t> expected(x.size());
      std::vector<float> sums = start;
      for (std::size_t i = 0; i < x.size(); ++i) {
        expected[i] = plain_bin(x[i], cuts);
        sums[i] += worth[expected[i]];
      }
      on_every_cpu([&](const std::string& cpu) {
        std::vector<std::uint8_t> bins(x.size());
        kernels::to_bins(x, cuts, bins.data());
        ASSERT_EQ(bins, expected) << cpu << ", " << bits << " bits";
        std::vector<float> y = start;
        kernels::add_bins(bins.data(), worth.data(), y);
        ASSERT_EQ(y, sums) << cpu << ", " << bits << " bits";
      });
    }
  });
}

TEST(Bins, AreFilledAsTheirPlainTwin) {
  for_inputs([&](std::span<const float> all) {
    const auto x = all.first(std::min(all.size(), kernels::kBinPiece));
    for (unsigned bits = 1; bits <= kernels::kMostBinBits; ++bits) {
      const BinCuts cuts = cuts_for(bits, x);
      std::vector<std::vector<float>> expected(kernels::kMostBins);
      std::uint32_t largest = 0;
      for (const float value : x) {
        expected[plain_bin(value, cuts)].push_back(std::abs(value));
        largest = std::max(largest, magnitude(value));
      }
      on_every_cpu([&](const std::string& cpu) {
        const auto to = std::make_unique<kernels::Binned>();
        ASSERT_EQ(kernels::part_in_bins(x, cuts, *to), largest);
        for (std::size_t b = 0; b < kernels::kMostBins; ++b) {
          ASSERT_EQ(to->sizes[b], expected[b].size()) << cpu << ", bin " << b << " of " << bits;
          ASSERT_TRUE(std::ranges::equal(std::span(to->magnitudes[b], to->sizes[b]), expected[b]));
        }
      });
    }
  });
}

}  // namespace
}  // namespace laconic::testing

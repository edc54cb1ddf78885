// Gaps between positions, against their plain twins on every instruction set.
#include "laconic/kernels/gaps.h"

#include "tests/kernels/inputs.h"

namespace laconic::testing {
namespace {

std::vector<std::uint32_t> ascending(std::size_t count, std::uint64_t most, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::uint32_t> positions(count);
  std::uint64_t next = 0;
  for (std::uint32_t& position : positions) {
    next += random() % (random() % 50 == 0 ? 40 * most : most);
    position = static_cast<std::uint32_t>(next++);
  }
  return positions;
}

TEST(Gaps, AreMeasuredAsTheirPlainTwinsDo) {
  for (const std::size_t count : {1, 2, 3, 16, 17, 33, 34, 100, 4099})
    for (const std::uint64_t most : {1, 2, 9, 1000, 20000}) {
      auto positions = ascending(count, most, count + most);
      if (count == 2) positions.back() = 0xfffffffe;  // the largest gap there can be
      std::vector<std::uint32_t> gaps = {positions[0]};
      for (std::size_t j = 1; j < count; ++j) gaps.push_back(positions[j] - positions[j - 1] - 1);
      on_every_cpu([&](const std::string& cpu) {
        SCOPED_TRACE(cpu + ", " + std::to_string(count) + " up to " + std::to_string(most));
        const kernels::Gaps found = kernels::gaps_of(positions);
        ASSERT_EQ(found.largest, *std::ranges::max_element(gaps));
        for (unsigned i = 0; i < kernels::Gaps::kDigits; ++i) {
          std::uint64_t number = 0;
          for (const std::uint32_t gap : gaps) number += gap >= (2U << i) - 1;
          ASSERT_EQ(found.from[i], number);
        }
        for (const unsigned bits : {0, 1, 5, 31}) {
          std::uint64_t sum = 0;
          for (const std::uint32_t gap : gaps) sum += gap >> bits;
          const kernels::GapSum sums = kernels::sum_of_gaps(positions, bits);
          ASSERT_EQ(sums.sum, sum);
          ASSERT_EQ(sums.largest, *std::ranges::max_element(gaps));
        }
      });
    }
}

}  // namespace
}  // namespace laconic::testing

// Ranks against a plain count on every instruction set.
#include "laconic/kernels/ranks.h"

#include "tests/kernels/inputs.h"

namespace laconic::testing {
namespace {

TEST(Ranks, EqualTheirPlainTwin) {
  for (const Input& input : inputs(kernels::kRanked))
    for (std::size_t run = 0; run <= kernels::kRanked; ++run)
      for (const std::size_t kept : {1, 2, 4, 16, 31, 63, 100}) {
        SCOPED_TRACE(input.name + std::string(", ") + std::to_string(run));
        std::vector<float> values = input.values;
        for (float& value : values) value = value == 0 ? 1 : value;
        std::vector<std::uint32_t> positions(kernels::kRanked, ~0U), expected;
        std::vector<float> expected_values;
        for (std::uint32_t i = 0; i < run; ++i) positions[i] = 0x7ffffff0U + 3 * i;
        for (std::size_t i = 0; i < run; ++i) {
          std::size_t before = 0;
          for (std::size_t j = 0; j < run; ++j)
            before += std::abs(values[j]) > std::abs(values[i]) ||
                      (j < i && std::abs(values[j]) == std::abs(values[i]));
          if (before >= kept) continue;
          expected.push_back(positions[i]);
          expected_values.push_back(values[i]);
        }
        on_every_cpu([&](const std::string& cpu) {
          SCOPED_TRACE(cpu);
          std::vector<std::uint32_t> to(kernels::kRanked);
          std::vector<float> to_values(kernels::kRanked);
          const auto ranked = kernels::keep_by_rank(positions.data(), values.data(), 0x80000100U,
                                                    kept, to.data(), to_values.data());
          ASSERT_EQ(ranked.run, run);
          ASSERT_EQ(ranked.number, expected.size());
          to.resize(ranked.number);
          to_values.resize(ranked.number);
          EXPECT_EQ(to, expected);
          EXPECT_EQ(to_values, expected_values);
        });
      }
}

}  // namespace
}  // namespace laconic::testing

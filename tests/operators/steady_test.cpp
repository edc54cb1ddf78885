// An operator that is used step after step takes no new memory.
#include "tests/allocations.h"
#include "tests/support.h"

namespace laconic::testing {
namespace {

class Steady : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Registry, Steady, ::testing::ValuesIn(example_specs()), name_of_spec);
INSTANTIATE_TEST_SUITE_P(Chains, Steady, ::testing::ValuesIn(chain_specs()), name_of_spec);

TEST(SteadyOperators, TheCounterCounts) {
  EXPECT_GT(allocations_in([] { parse_operator("natural"); }), 1U);
}

TEST_P(Steady, EncodingAndAddingAllocateNothing) {
  const Operator op = parse_operator(GetParam());
  const auto x = made_up(100'000);
  std::vector<float> y(x.size());
  Scratch scratch;
  Buffer out;
  const auto step = [&] {
    out.clear();
    ASSERT_TRUE(op.encode(x, out, make_keys(1, 2, 3), scratch));
    op.add(out.view(), 1, y, make_keys(1, 2, 3), scratch);
  };
  step();
  for (int i = 0; i < 2; ++i) EXPECT_EQ(allocations_in(step), 0U);
}

}  // namespace
}  // namespace laconic::testing

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

TEST_P(Steady, EncodeOpenAndAddAllocateNothing) {
  const Operator op = parse_operator(GetParam());
  for (const unsigned threads : {1U, 2U}) {
    Scratch scratch(threads);
    Buffer out;
    Hint hint;
    Decoder decoder;
    const auto fresh = made_up(100000), kept = gaussian(100000);
    std::vector<float> left(100000), y(100000);
    const Source source{
        .fresh = std::span(fresh), .kept = std::span(kept), .left = std::span(left), .hint = &hint};
    const auto step = [&] {
      out.clear();
      EXPECT_TRUE(op.encode(source, out, make_keys(1, 2, 3), scratch).finite);
      op.open(out.view(), y.size(), make_keys(1, 2, 3), scratch, decoder);
      const Decoder* one = &decoder;
      sum_of({&one, 1}, 0, y.size(), 0.5F, y.data());
      op.add(out.view(), 0.5F, y, make_keys(1, 2, 3), scratch);
    };
    for (int i = 0; i < 3; ++i) step();  // the second has a hint
    const std::size_t before = allocations;
    for (int i = 0; i < 3; ++i) step();
    EXPECT_EQ(allocations - before, 0U) << threads << " threads";
  }
}

}  // namespace
}  // namespace laconic::testing

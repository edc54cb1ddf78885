// A cheaper operator of the same promise is found by what is known of operators.
#include "laconic/operators/lighter.h"

#include "tests/support.h"

namespace laconic::testing {
namespace {

const std::vector<std::size_t> kCounts = {70000, 1000, 10, 1};

std::optional<Operator> lighter_of(const std::string& spec) {
  return lighter(parse_operator(spec), kCounts);
}

// What chains that all tests run over have: as good a promise, a size that is known beforehand.
TEST(Lighter, PromisesAsMuchInAKnownSize) {
  int found = 0;
  for (auto specs = example_specs(); const std::string& spec : specs) {
    const Operator op = parse_operator(spec);
    const auto light = lighter(op, kCounts);
    if (!light) continue;
    ++found;
    EXPECT_TRUE(light->fixed_width()) << spec;
    EXPECT_FALSE(light->selects()) << spec;
    for (const std::size_t count : kCounts) {
      const auto x = gaussian(count);
      Buffer out;
      Scratch scratch;
      const Keys keys = make_keys(1, 2, 3);
      ASSERT_TRUE(light->encode(x, out, keys, scratch));
      EXPECT_EQ(out.size(), light->max_size(count)) << spec << " by " << light->spec();
      EXPECT_TRUE(promises_as_much(light->traits(count), op.traits(count)))
          << spec << " by " << light->spec();
    }
    EXPECT_LT(light->max_size(70000), 2 * 70000U) << spec << " by " << light->spec();
  }
  EXPECT_GT(found, 5);
}

TEST(Lighter, LeavesACoderOut) {
  EXPECT_EQ(lighter_of("natural:nearest+entropy")->spec(), "natural:8,nearest");
  EXPECT_EQ(lighter_of("bucket:512+qsgd:4,max")->spec(), "bucket+qsgd:4,max+levels:fixed");
}

TEST(Lighter, IsAnotherQuantiserOfTheSameOmega) {
  const auto light = lighter_of("grid");
  ASSERT_TRUE(light);
  const Traits traits = light->traits(1000);
  EXPECT_TRUE(traits.unbiased);
  EXPECT_LE(*traits.omega, 1.0 / 8);
  EXPECT_FALSE(lighter_of("grid:0.001"));  // nothing below 16 bits is as good
}

TEST(Lighter, IsNoneWhereNothingIsCoded) {
  for (const char* spec : {"natural", "half", "sign", "identity", "topk:0.01", "topk:0.01+natural",
                           "randomk:0.1", "sbc:0.01", "threshold:0.1"})
    EXPECT_FALSE(lighter_of(spec)) << spec;
}

}  // namespace
}  // namespace laconic::testing

// Cheaper and smaller operators of the same promise are found by what is known of operators.
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

// A section's bytes depend on who encodes as little as on when.
TEST(Lighter, TakesACodedQuantiserForWhatItIs) {
  EXPECT_FALSE(parse_operator("dither").fixed_width());
  EXPECT_TRUE(parse_operator("eden").fixed_width());
  EXPECT_EQ(lighter_of("dither")->spec(), "natural:8");
}

std::optional<Operator> tighter_of(const std::string& spec) {
  return tighter(parse_operator(spec), kCounts);
}

// |C(x) - x|^2 in the mean over draws, and bytes.
Usual measured(const Operator& op, std::span<const float> x) {
  constexpr int kDraws = 8;
  Usual mean;
  for (int draw = 0; draw < kDraws; ++draw) {
    const Keys keys = make_keys(7, static_cast<std::uint64_t>(draw), 0);
    mean.bytes += static_cast<double>(encode(op, x, keys).size()) / kDraws;
    mean.error += squared_distance(through(op, x, keys), x) / kDraws;
  }
  return mean;
}

// On other entries than those it was chosen by.
TEST(Tighter, PromisesAsMuchInThreeQuartersOfTheBytes) {
  int found = 0;
  for (auto specs = example_specs(); const std::string& spec : specs) {
    const Operator op = parse_operator(spec);
    const auto tight = tighter(op, kCounts);
    if (!tight) continue;
    ++found;
    SCOPED_TRACE(spec + " by " + tight->spec());
    EXPECT_FALSE(tight->selects());
    for (const std::size_t count : kCounts) {
      const Traits own = op.traits(count), other = tight->traits(count);
      EXPECT_FALSE(other.shared);
      EXPECT_GE(other.stratified, own.stratified);
      const auto x = gaussian(count);
      const bool same =
          through(*tight, x, make_keys(1, 2, 3)) == through(op, x, make_keys(1, 2, 3));
      EXPECT_TRUE(same || promises_as_much(other, own));
    }
    const auto x = gaussian(70000);
    const Usual own = measured(op, x), other = measured(*tight, x);
    EXPECT_LT(other.bytes, 0.77 * own.bytes);
    EXPECT_LT(other.error, 2.1 * own.error);
  }
  EXPECT_GT(found, 5);
}

TEST(Tighter, IsAnotherQuantiserOfTheSameOmega) {
  for (const char* spec : {"natural", "natural:8", "natural+entropy"}) {
    const auto tight = tighter_of(spec);
    ASSERT_TRUE(tight) << spec;
    const Traits traits = tight->traits(1000);
    EXPECT_TRUE(traits.unbiased && traits.stratified) << tight->spec();
    EXPECT_LE(*traits.omega, 1.0 / 8) << tight->spec();
    EXPECT_LT(usual_of(*tight, kCounts).bytes, 71011 * 2.6 / 8) << tight->spec();
  }
}

TEST(Tighter, IsTheSameQuantiserWithACoderWhereNothingElsePromisesAsMuch) {
  EXPECT_EQ(tighter_of("natural:nearest")->spec(), "natural:nearest+entropy");
}

// The mean over ranks that hold the same: strata let it err far less than omega / n, and a smaller
// operator must not lose that.
TEST(Tighter, ErrsInTheMeanOfRanksNoMoreThanTwiceAsMuch) {
  constexpr int kRanks = 8;
  const auto x = gaussian(20000);
  const auto error = [&](const Operator& op, int ranks_of_strata) {
    std::vector<float> mean(x.size());
    Scratch scratch;
    for (int rank = 0; rank < kRanks; ++rank) {
      const Keys keys = make_keys(1, 2, static_cast<std::uint64_t>(rank),
                                  static_cast<std::uint64_t>(ranks_of_strata));
      Buffer out;
      EXPECT_TRUE(op.encode(x, out, keys, scratch));
      op.add(out.view(), 1.0F / kRanks, mean, keys, scratch);
    }
    return squared_distance(mean, x);
  };
  for (const char* spec : {"natural", "natural:8", "natural+entropy"}) {
    const Operator op = parse_operator(spec), tight = *tighter_of(spec);
    EXPECT_LT(error(tight, kRanks), 2 * error(op, kRanks)) << spec;
    EXPECT_LT(error(tight, kRanks), 0.5 * error(op, 1)) << spec;
    EXPECT_LT(error(tight, kRanks), squared(x) / 8 / kRanks) << spec;
  }
}

// Not by the worst case alone: there grid:2 is as good as four levels of a bucket.
TEST(Tighter, IsNoneThatUsuallyLosesMuchMore) {
  const Operator op = parse_operator("bucket:512+qsgd:4,max"), coarse = parse_operator("grid:2");
  const std::vector<std::size_t> counts = {70000};
  EXPECT_TRUE(promises_as_much(coarse.traits(70000), op.traits(70000)));
  EXPECT_LT(usual_of(coarse, counts).bytes, 0.5 * usual_of(op, counts).bytes);
  EXPECT_GT(usual_of(coarse, counts).error, 5 * usual_of(op, counts).error);
  EXPECT_FALSE(tighter(op, counts));
}

TEST(Tighter, IsNoneWhereNothingSmallerKeepsThePromise) {
  for (const char* spec : {"grid", "grid:0.01", "half", "sign", "identity", "topk:0.01",
                           "topk:0.01+natural", "randomk:0.1", "sbc:0.01", "threshold:0.1"})
    EXPECT_FALSE(tighter_of(spec)) << spec;
}

// A sample stands for the rest.
TEST(Tighter, KnowsTheBytesOfUsualEntries) {
  const std::vector<std::size_t> counts = {1'000'000, 3000};
  for (const char* spec : {"natural", "grid", "natural+entropy"}) {
    const Operator op = parse_operator(spec);
    const auto bytes = encode(op, gaussian(1'000'000)).size() + encode(op, gaussian(3000)).size();
    EXPECT_NEAR(usual_of(op, counts).bytes / static_cast<double>(bytes), 1, 0.02) << spec;
  }
}

}  // namespace
}  // namespace laconic::testing

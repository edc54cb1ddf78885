// Levels of fixed width, packed block by block: what they stand for is what any other code says.
#include "laconic/operators/decoder.h"
#include "tests/support.h"

namespace laconic::testing {
namespace {

const std::vector<std::string> kQuantisers = {
    "bucket+qsgd:4,max",     "bucket:64+terngrad",  "bucket:8192+qsgd:3",
    "bucket:24+dithering:8", "bucket:4096+qsgd:30", "qsgd:4",
    "terngrad:2.5",          "dithering:8",         "dithering:3,1",
    "qsgd:127,max",          "topk:0.3+qsgd:4",     "qsgd:1000,max"};
const std::vector<std::size_t> kCounts = {1, 7, 63, 511, 512, 513, 4095, 4096, 4097, 10001};

TEST(PackedLevels, StandForWhatTheSmallestCodeSays) {
  for (const std::string& spec : kQuantisers)
    for (const std::size_t count : kCounts) {
      const Operator fixed = parse_operator(spec + "+levels:fixed"), any = parse_operator(spec);
      const auto x = gaussian(count);
      EXPECT_EQ(through(fixed, x), through(any, x)) << spec << ", " << count;
      EXPECT_EQ(fixed.spec(), spec + "+levels:fixed");
    }
}

TEST(PackedLevels, LeaveWhatTheSmallestCodeLeaves) {
  for (const std::string& spec : kQuantisers)
    for (const std::size_t count : kCounts) {
      const auto left_by = [&](const std::string& by) {
        auto x = gaussian(count), kept = gaussian(count, 0.01F, 2);
        std::vector<float> left(count);
        Scratch scratch;
        Buffer out;
        const Source source{
            .fresh = std::span(x), .kept = std::span(kept), .left = std::span(left)};
        EXPECT_TRUE(parse_operator(by).encode(source, out, make_keys(1, 2, 3), scratch).finite);
        return left;
      };
      EXPECT_EQ(left_by(spec + "+levels:fixed"), left_by(spec)) << spec << ", " << count;
    }
}

TEST(PackedLevels, AreAddedInAnyStretch) {
  constexpr std::size_t kCount = 10001;
  const Keys keys = make_keys(1, 2, 3);
  for (const std::string& spec : kQuantisers) {
    const Operator op = parse_operator(spec + "+levels:fixed");
    const auto x = gaussian(kCount);
    Scratch scratch;
    Buffer section;
    ASSERT_TRUE(op.encode(x, section, keys, scratch));
    std::vector<float> whole(kCount);
    op.add(section.view(), 0.5F, whole, keys, scratch);
    Decoder decoder;
    op.open(section.view(), kCount, keys, scratch, decoder);
    for (const std::size_t from : {0UL, 4096UL, 8192UL})
      for (const std::size_t size : {1UL, 3UL, 100UL, 1001UL, 1809UL}) {
        std::vector<float> y(size);
        decoder.add(from, from + size, 0.5F, y.data());
        for (std::size_t i = 0; i < size; ++i)
          ASSERT_EQ(y[i], whole[from + i]) << spec << ", " << from << " + " << i;
      }
  }
}

TEST(PackedLevels, BeyondTheMostAreRefused) {
  const Operator op = parse_operator("qsgd:4+levels:fixed");
  const auto x = gaussian(5000);
  const Keys keys = make_keys(1, 2, 3);
  Scratch scratch;
  Buffer section;
  ASSERT_TRUE(op.encode(x, section, keys, scratch));
  section.span()[4 + 2400] = 0x9f;  // a level of -8
  try {
    op.check(section.view(), x.size(), keys, scratch);
    FAIL() << "a level of -8 passed";
  } catch (const DataError& error) {
    EXPECT_EQ(std::string(error.what()), "levels of fixed width: a level of 8; allowed: up to 4");
  }
}

}  // namespace
}  // namespace laconic::testing

// Opened sections: any stretches add up to the whole, many are open at once, and what cannot fail
// does not.
#include "tests/support.h"

namespace laconic::testing {
namespace {

const Keys kKeys = make_keys(1, 2, 3);

class Decoders : public ::testing::TestWithParam<std::string> {
 protected:
  Operator op_ = parse_operator(GetParam());
  Scratch scratch_;
};

// Buckets that end within blocks, and blocks that end within buckets.
const std::vector<std::string> kOddBuckets = {
    "bucket:100+qsgd:4",   "bucket:1000+natural",    "bucket:5000+half",
    "bucket:96+sign",      "bucket:12+uniform:2",    "bucket:40+binned:3",
    "bucket:4104+natural", "bucket:10000+natural:8", "bucket:24+uniform:3,absmax"};

INSTANTIATE_TEST_SUITE_P(Registry, Decoders, ::testing::ValuesIn(example_specs()), name_of_spec);
INSTANTIATE_TEST_SUITE_P(Chains, Decoders, ::testing::ValuesIn(chain_specs()), name_of_spec);
INSTANTIATE_TEST_SUITE_P(Buckets, Decoders, ::testing::ValuesIn(kOddBuckets), name_of_spec);

// Adds in stretches of so many blocks.
void add_in(const Decoder& decoder, std::size_t blocks, float weight, std::vector<float>& y) {
  const std::size_t step = blocks * kBlock;
  for (std::size_t from = 0; from < y.size(); from += step)
    decoder.add(from, std::min(y.size(), from + step), weight, y.data() + from);
}

TEST_P(Decoders, AnyStretchesGiveTheSameFloats) {
  for (const std::size_t count : {0, 1, 4095, 4096, 4097, 70001}) {
    SCOPED_TRACE(count);
    const auto section = encode(op_, made_up(count), kKeys);
    auto whole = gaussian(count);
    op_.add(section, 0.3F, whole, kKeys, scratch_);
    Decoder decoder;
    op_.open(section, count, kKeys, scratch_, decoder);
    EXPECT_EQ(decoder.size(), count);
    for (const std::size_t blocks : {1, 2, 7, 1000}) {
      auto y = gaussian(count);
      add_in(decoder, blocks, 0.3F, y);
      EXPECT_EQ(y, whole) << blocks;
    }
    if (count <= 4096) continue;  // a stretch may end anywhere
    auto y = gaussian(count);
    decoder.add(4096, count - 1, 0.3F, y.data() + 4096);
    EXPECT_TRUE(std::equal(y.begin() + 4096, y.end() - 1, whole.begin() + 4096));
    EXPECT_EQ(y.back(), gaussian(count).back());
  }
}

// Bit for bit, also of more sections than a quantiser takes at a time, of sections by another
// operator and of sections that rest.
TEST_P(Decoders, SumsAreAddsOntoZerosInOrder) {
  constexpr std::size_t kSize = 4096 + 300 + 37;
  const Operator other = parse_operator("half");
  for (const std::size_t sections : {1, 2, 5, 70}) {
    std::vector<std::vector<std::uint8_t>> bytes;
    std::vector<Decoder> decoders(sections);
    std::vector<const Decoder*> all;
    for (std::uint64_t rank = 0; rank < sections; ++rank) {
      const Operator& op = sections == 5 && rank == 3 ? other : op_;
      bytes.push_back(encode(op, made_up(kSize, rank % 3), make_keys(1, 2, rank)));
      if (sections == 5 && rank == 2)
        open_zeros(kSize, decoders[rank]);
      else
        op.open(bytes.back(), kSize, make_keys(1, 2, rank), scratch_, decoders[rank]);
      all.push_back(&decoders[rank]);
    }
    for (const std::size_t from : {std::size_t{0}, kBlock})
      for (const std::size_t to : {kSize, kSize - 1, from + 64, from + 3, from}) {
        std::vector<float> added(to - from), summed(to - from, NAN);
        for (const Decoder& decoder : decoders) decoder.add(from, to, 0.7F, added.data());
        sum_of(all, from, to, 0.7F, summed.data());
        EXPECT_TRUE(
            std::ranges::equal(std::as_bytes(std::span(added)), std::as_bytes(std::span(summed))))
            << sections;
      }
  }
}

TEST_P(Decoders, ManyAreOpenAtOnceAndAreFilledAgain) {
  std::vector<Decoder> decoders(3);
  for (const std::size_t count : {5000, 100, 9000}) {
    std::vector<std::vector<std::uint8_t>> sections;
    std::vector<float> whole(count), y(count);
    for (std::uint64_t rank = 0; rank < decoders.size(); ++rank) {
      const Keys keys = make_keys(1, 2, rank);
      sections.push_back(encode(op_, made_up(count, rank), keys));
      op_.add(sections.back(), 0.5F, whole, keys, scratch_);
    }
    for (std::uint64_t rank = 0; rank < decoders.size(); ++rank)
      op_.open(sections[rank], count, make_keys(1, 2, rank), scratch_, decoders[rank]);
    for (std::size_t from = 0; from < count; from += kBlock)
      for (const Decoder& decoder : decoders)
        decoder.add(from, std::min(count, from + kBlock), 0.5F, y.data() + from);
    EXPECT_EQ(y, whole) << count;
  }
}

TEST(Decoder, PlainFloatsAreAddedAsTheyAre) {
  auto x = made_up(5000);
  x[4500] = -INFINITY;
  std::vector<std::uint8_t> bytes(1 + x.size() * sizeof(float));  // at an odd address
  std::memcpy(bytes.data() + 1, x.data(), x.size() * sizeof(float));
  Decoder decoder;
  open_plain(std::span(bytes).subspan(1), decoder);
  std::vector<float> y(x.size(), 1);
  add_in(decoder, 1, 0.5F, y);
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_EQ(y[i], 1 + 0.5F * x[i]) << i;
}

TEST(Decoder, ASectionThatRestsIsZeros) {
  Decoder decoder;
  const Operator op = parse_operator("topk:0.1");
  Scratch scratch;
  const auto section = encode(op, made_up(5000), kKeys);
  op.open(section, 5000, kKeys, scratch, decoder);
  EXPECT_TRUE(decoder.sparse());
  EXPECT_EQ(decoder.positions().size(), 500U);
  open_zeros(6000, decoder);
  EXPECT_EQ(decoder.size(), 6000U);
  std::vector<float> y = gaussian(6000), before = y;
  add_in(decoder, 1, 1, y);
  EXPECT_EQ(y, before);
}

}  // namespace
}  // namespace laconic::testing

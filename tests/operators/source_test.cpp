// A law for every operator: however the entries lie, the section is that of the entries as one
// plain array, and what is left is c * (x - decoded), bit for bit.
#include "laconic/kernels/half.h"
#include "tests/support.h"

namespace laconic::testing {
namespace {

const Keys kKeys = make_keys(1, 2, 3);

// Entries of one type, in one array or in several of odd lengths.
class Laid {
 public:
  Laid() = default;
  Laid(std::span<const float> values, Dtype dtype, bool cut) : count_(values.size()) {
    std::size_t from = 0;
    for (std::size_t part = cut ? 1 : count_; from < count_; part = 3 * part + 7) {
      add(std::min(part, count_ - from), dtype);
      from += pieces_.back().count;
    }
    floats().store(0, count_, values.data());
  }

  Floats floats() const { return std::span(pieces_); }
  std::vector<float> values() const {
    std::vector<float> result(count_);
    const float* at = floats().load(0, count_, result.data());
    if (at != result.data()) result.assign(at, at + count_);
    return result;
  }

 private:
  void add(std::size_t count, Dtype dtype) {
    arrays_.push_back(std::make_unique<std::uint8_t[]>(count * dtype_size(dtype)));
    pieces_.push_back({count, arrays_.back().get(), dtype});
  }

  std::size_t count_ = 0;
  std::vector<std::unique_ptr<std::uint8_t[]>> arrays_;
  std::vector<Piece> pieces_;
};

struct Way {
  std::string name;
  Dtype fresh = Dtype::float32, kept = Dtype::float32, left = Dtype::float32;
  bool cut = false, has_kept = true, has_left = true;
  float a = 1, b = 1, c = 1;
};

const std::vector<Way> kWays = {
    {.name = "one array"},
    {.name = "no kept", .has_kept = false},
    {.name = "no left", .has_left = false},
    {.name = "neither", .has_kept = false, .has_left = false},
    {.name = "pieces", .cut = true},
    {.name = "pieces alone", .cut = true, .has_kept = false, .has_left = false},
    {.name = "bf16 fresh", .fresh = Dtype::bfloat16},
    {.name = "fp16 fresh", .fresh = Dtype::float16, .has_kept = false},
    {.name = "bf16 memory", .kept = Dtype::bfloat16, .left = Dtype::bfloat16},
    {.name = "bf16 pieces",
     .fresh = Dtype::bfloat16,
     .kept = Dtype::bfloat16,
     .left = Dtype::bfloat16,
     .cut = true},
    {.name = "factors", .a = 0.7F, .b = 1.3F, .c = 0.9F},
    {.name = "factors in pieces", .cut = true, .a = 1024, .b = 1024, .c = 0x1p-10F},
    {.name = "scaled alone", .has_kept = false, .a = 0.3F, .c = -2},
};

std::vector<float> mixed(const Way& way, const Laid& fresh, const Laid& kept) {
  std::vector<float> x = fresh.values();
  const auto k = kept.values();
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float first = way.a * x[i];
    x[i] = way.has_kept ? first + way.b * k[i] : first;
  }
  return x;
}

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

class Sources : public ::testing::TestWithParam<std::string> {
 protected:
  void expect_law(const Way& way, std::size_t count, Scratch& scratch, Hint* hint = nullptr) const {
    SCOPED_TRACE(way.name + " " + std::to_string(count));
    const Laid fresh(made_up(count, count), way.fresh, way.cut);
    const Laid kept(gaussian(way.has_kept ? count : 0, 0.5F), way.kept, way.cut);
    const Laid left(std::vector<float>(way.has_left ? count : 0, 9), way.left, way.cut);
    const auto x = mixed(way, fresh, kept);
    Buffer out;
    const Encoded encoded = op_.encode({.fresh = fresh.floats(),
                                        .kept = kept.floats(),
                                        .left = left.floats(),
                                        .a = way.a,
                                        .b = way.b,
                                        .c = way.c,
                                        .hint = hint},
                                       out, kKeys, scratch);
    EXPECT_TRUE(encoded.finite);
    const auto section = laconic::testing::encode(op_, x, kKeys);
    EXPECT_TRUE(std::ranges::equal(out.view(), section));
    if (!way.has_left) return;
    auto expected = decode(op_, section, count, kKeys);
    for (std::size_t i = 0; i < count; ++i) expected[i] = way.c * (x[i] - expected[i]);
    EXPECT_TRUE(same_bits(left.values(), Laid(expected, way.left, false).values()));
  }

  Operator op_ = parse_operator(GetParam());
};

INSTANTIATE_TEST_SUITE_P(Registry, Sources, ::testing::ValuesIn(example_specs()), name_of_spec);

TEST_P(Sources, EncodeAsOnePlainArrayWould) {
  Scratch scratch;
  for (const Way& way : kWays)
    for (const std::size_t count : {1, 4095, 4096, 4097}) expect_law(way, count, scratch);
  for (const Way& way : {kWays[0], kWays[3], kWays[5], kWays[9], kWays[10]})
    expect_law(way, 70000, scratch);
}

TEST_P(Sources, ThreadsAndInstructionSetsChangeNothing) {
  Scratch scratch(3);
  for (const Way& way : {kWays[0], kWays[9]}) expect_law(way, 150000, scratch);
  on_every_cpu([&](const std::string&) { expect_law(kWays[9], 5000, scratch); });
}

// Arrays so long are written past the cache.
class LongSources : public Sources {};
INSTANTIATE_TEST_SUITE_P(Some, LongSources,
                         ::testing::Values("natural", "natural:8", "half", "half:bf16", "uniform",
                                           "uniform:3,absmax", "sign", "grid", "dithering:8",
                                           "bucket+qsgd:4,max", "terngrad", "topk:0.01", "sbc:0.01",
                                           "randomk:0.1", "chunk", "shrink+topk:0.1+terngrad"),
                         name_of_spec);

TEST_P(LongSources, EncodeAsOnePlainArrayWould) {
  Scratch scratch(2);
  for (const Way& way : {kWays[0], kWays[4], kWays[8], kWays[10]}) expect_law(way, 300001, scratch);
}

TEST_P(Sources, AHintChangesNoByte) {
  Scratch scratch;
  Decoder decoder;
  const auto section = laconic::testing::encode(op_, made_up(9), kKeys);
  op_.open(section, 9, kKeys, scratch, decoder);
  if (!decoder.sparse()) return;  // only selectors take hints
  Hint hint;
  for (const std::size_t count : {20000, 5000, 30000, 4096})
    for (const Way& way : kWays) expect_law(way, count, scratch, &hint);
  const auto bits = [](float value) { return std::bit_cast<std::uint32_t>(value); };
  for (const float magnitude : {1e-30F, 0.1F, 2.0F, 1e30F, INFINITY})
    for (const Way& way : {kWays[0], kWays[3], kWays[9], kWays[10]}) {
      Hint one{.above = bits(magnitude), .below = bits(magnitude)};
      expect_law(way, 30000, scratch, &one);
      Hint two{.above = bits(magnitude), .below = bits(0.5F)};
      expect_law(way, 20000, scratch, &two);
    }
}

TEST_P(Sources, NanAndInfAreRefusedWherever) {
  Scratch scratch;
  for (const std::size_t at : {std::size_t{0}, std::size_t{4096}, std::size_t{9999}})
    for (const float bad : {NAN, INFINITY, -INFINITY})
      for (const bool in_kept : {false, true}) {
        auto fresh = made_up(10000), kept = gaussian(10000), left = kept;
        (in_kept ? kept : fresh)[at] = bad;
        Buffer out;
        const Source source{
            .fresh = std::span(fresh), .kept = std::span(kept), .left = std::span(left)};
        EXPECT_FALSE(op_.encode(source, out, kKeys, scratch).finite);
        EXPECT_EQ(out.size(), 0U);
      }
}

TEST_P(Sources, WithAFactorOfZeroNothingOfKeptIsTaken) {
  Scratch scratch;
  const auto fresh = made_up(9000);
  std::vector<float> kept(9000, NAN), left(9000), decoded(9000);
  Buffer out;
  const Source source{
      .fresh = std::span(fresh), .kept = std::span(kept), .left = std::span(left), .b = 0};
  EXPECT_TRUE(op_.encode(source, out, kKeys, scratch).finite);
  EXPECT_TRUE(std::ranges::equal(out.view(), laconic::testing::encode(op_, fresh, kKeys)));
}

TEST(Source, LengthsThatDifferAreRefused) {
  const Operator op = parse_operator("natural");
  Scratch scratch;
  Buffer out;
  std::vector<float> x(10), y(9);
  for (const Source& source : {Source{.fresh = std::span(x), .kept = std::span(y)},
                               Source{.fresh = std::span(x), .left = std::span(y)}})
    EXPECT_THROW((void)op.encode(source, out, kKeys, scratch), UsageError);
}

}  // namespace
}  // namespace laconic::testing

// Laws that hold for every operator there is. An operator is here by its registration; nothing is
// listed by hand.
#include "support.h"

namespace laconic::testing {
namespace {

class Laws : public ::testing::TestWithParam<std::string> {
 protected:
  Operator op_ = parse_operator(GetParam());
  Scratch scratch_;
};

std::string test_name(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(Registry, Laws, ::testing::ValuesIn(example_specs()), test_name);

TEST(Registry, EveryStageGivesExamplesThatUseIt) {
  for (const StageInfo& stage : stages()) {
    EXPECT_FALSE(stage.examples.empty()) << stage.name;
    for (const std::string& spec : stage.examples) {
      bool used = false;
      for (const auto& part : split_chain(spec)) used |= part.name == stage.name;
      EXPECT_TRUE(used) << spec << " does not use " << stage.name;
    }
    EXPECT_FALSE(stage.summary.empty()) << stage.name;
    EXPECT_FALSE(stage.paper.empty()) << stage.name;
  }
}

TEST_P(Laws, SpecIsCanonical) { EXPECT_EQ(parse_operator(op_.spec()).spec(), op_.spec()); }

TEST_P(Laws, WhatIsEncodedChecksAndDecodesAtEveryLength) {
  for (const std::size_t count : kLengths) {
    SCOPED_TRACE(count);
    const auto x = made_up(count, count);
    const auto section = encode(op_, x);
    EXPECT_LE(section.size(), op_.max_size(count));
    EXPECT_NO_THROW(op_.check(section, count, scratch_));
    for (const float y : decode(op_, section, count)) EXPECT_TRUE(std::isfinite(y));
  }
}

TEST_P(Laws, AddIsWeightTimesDecodedOnTopOfWhatWasThere) {
  const auto x = made_up(1000);
  const auto section = encode(op_, x);
  const auto decoded = decode(op_, section, x.size());
  std::vector<float> y = gaussian(1000, 1, 5), before = y;
  op_.add(section, 0.3F, y, Keys(), scratch_);
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y[i], before[i] + 0.3F * decoded[i]) << i;
}

TEST_P(Laws, SameKeysSameBytesOtherKeysOtherBytes) {
  const auto x = made_up(5000);
  const auto bytes = encode(op_, x, make_keys(7, 8, 9));
  EXPECT_EQ(bytes, encode(op_, x, make_keys(7, 8, 9)));
  if (!op_.traits(x.size()).random) return;
  EXPECT_NE(bytes, encode(op_, x, make_keys(6, 8, 9))) << "seed";
  EXPECT_NE(bytes, encode(op_, x, make_keys(7, 9, 9))) << "step";
  EXPECT_NE(bytes, encode(op_, x, make_keys(7, 8, 1))) << "rank";
  EXPECT_NE(bytes, encode(op_, x, make_keys(7, 8, 9).at(64))) << "position";
}

TEST_P(Laws, EveryCpuGivesTheSameBytesAndTheSameFloats) {
  for (const std::size_t count : kLengths) {
    SCOPED_TRACE(count);
    const auto x = made_up(count, count + 1);
    const auto bytes = encode(op_, x);
    const auto floats = decode(op_, bytes, count);
    on_every_cpu([&](const std::string&) {
      EXPECT_EQ(encode(op_, x), bytes);
      EXPECT_EQ(decode(op_, bytes, count), floats);
    });
  }
}

TEST_P(Laws, EveryThreadCountGivesTheSameBytes) {
  const auto x = made_up(300007);
  const auto bytes = encode(op_, x);
  for (const unsigned threads : {2U, 3U, 5U}) {
    EXPECT_EQ(encode(op_, x, make_keys(1, 2, 3), threads), bytes) << threads;
    EXPECT_EQ(decode(op_, bytes, x.size(), threads), decode(op_, bytes, x.size())) << threads;
  }
}

TEST_P(Laws, ZerosStayZero) {
  for (const float zero : {0.0F, -0.0F})
    for (const float y : through(op_, std::vector<float>(1000, zero))) EXPECT_EQ(y, 0.0F);
}

TEST_P(Laws, ExtremesStayFiniteAndKeepTheirSign) {
  const float tiny = std::numeric_limits<float>::denorm_min(),
              least = std::numeric_limits<float>::min();
  const float most = std::numeric_limits<float>::max();
  for (const float value : {tiny, 1000 * tiny, least, 0x1p127F, 0x1.8p127F, most}) {
    for (const float sign : {1.0F, -1.0F}) {
      SCOPED_TRACE(sign * value);
      for (const std::size_t count : {1, 5, 64, 100})
        for (const float y : through(op_, std::vector<float>(count, sign * value))) {
          EXPECT_TRUE(std::isfinite(y));
          EXPECT_GE(y * sign, 0.0F);
        }
    }
  }
}

TEST_P(Laws, ExtremesSideBySideStayFinite) {
  std::vector<float> x = made_up(9000);
  x[17] = std::numeric_limits<float>::max();
  x[18] = std::numeric_limits<float>::denorm_min();
  x[5000] = -0x1p127F;
  for (const float y : through(op_, x)) EXPECT_TRUE(std::isfinite(y));
}

TEST_P(Laws, NanAndInfAreRefusedWhereverTheyAre) {
  constexpr float kInf = std::numeric_limits<float>::infinity(),
                  kNan = std::numeric_limits<float>::quiet_NaN();
  for (const std::size_t count : {1, 64, 4097, 70000}) {
    for (const float bad : {kInf, -kInf, kNan}) {
      for (const std::size_t at : {std::size_t{0}, count / 2, count - 1}) {
        auto x = made_up(count);
        x[at] = bad;
        Buffer out;
        out.append(as_bytes("before"));
        EXPECT_FALSE(op_.encode(x, out, make_keys(1, 2, 3), scratch_))
            << count << " " << bad << " " << at;
        EXPECT_EQ(as_text(out.view()), "before");
      }
    }
  }
}

// E|C(x) - x|^2 against the claim, and the mean against x along random directions, over many draws.
void expect_claims(const Operator& op, const std::vector<float>& x, const std::string& what) {
  SCOPED_TRACE(what);
  const Traits traits = op.traits(x.size());
  const int draws = traits.random ? 400 : 1, directions = 8;
  std::mt19937_64 random(3);
  std::vector<std::vector<double>> direction(directions, std::vector<double>(x.size()));
  for (auto& d : direction)
    for (double& v : d) v = random() % 2 ? 1 : -1;
  std::vector<double> along(directions), along2(directions);
  double error = 0, error2 = 0;
  for (int draw = 0; draw < draws; ++draw) {
    const auto y = through(op, x, make_keys(11, static_cast<std::uint64_t>(draw), 0));
    const double e = squared_distance(x, y) / squared(x);
    error += e / draws;
    error2 += e * e / draws;
    for (int d = 0; d < directions; ++d) {
      double sum = 0;
      for (std::size_t i = 0; i < x.size(); ++i)
        sum += direction[d][i] * (static_cast<double>(y[i]) - x[i]);
      along[d] += sum / draws;
      along2[d] += sum * sum / draws;
    }
  }
  const double sigma = std::sqrt(std::max(0.0, error2 - error * error) / draws);
  EXPECT_LE(error, traits.omega.value_or(INFINITY) + 5 * sigma + 1e-12) << "omega";
  EXPECT_LE(error, 1 - traits.delta.value_or(-INFINITY) + 5 * sigma + 1e-12) << "delta";
  if (!traits.unbiased) return;
  for (int d = 0; d < directions; ++d)
    EXPECT_LE(std::abs(along[d]), 5 * std::sqrt(along2[d] / draws) + 1e-12 * std::sqrt(squared(x)))
        << "mean";
}

TEST_P(Laws, ClaimsHold) {
  expect_claims(op_, gaussian(3000), "gaussian");
  expect_claims(op_, made_up(3000), "many magnitudes");
  expect_claims(op_, std::vector<float>(3000, 4.0F / 3), "natural compression's worst mantissa");
  expect_claims(op_, std::vector<float>(3000, -1.5F), "nearest rounding's worst mantissa");
  expect_claims(op_, {1.0F}, "one entry");
  std::vector<float> spike(3000, 1e-9F);
  spike[1234] = -3;
  expect_claims(op_, spike, "a spike");
  std::vector<float> binade(4096);
  for (std::size_t i = 0; i < binade.size(); ++i) binade[i] = 1 + static_cast<float>(i) / 4096;
  expect_claims(op_, binade, "a binade");
}

TEST_P(Laws, AnUnbiasedContractionHasDeltaOneMinusOmega) {
  const Traits traits = op_.traits(1000);
  EXPECT_EQ(traits.unbiased, traits.omega.has_value());
  if (!traits.omega) return;
  EXPECT_EQ(traits.delta.has_value(), *traits.omega < 1);
  EXPECT_DOUBLE_EQ(traits.delta.value_or(1 - *traits.omega), 1 - *traits.omega);
}

// The bytes are not what was written: an error before anything is added, or a finite array.
TEST_P(Laws, ForeignBytesAreRefusedOrFinite) {
  std::mt19937_64 random(5);
  for (const std::size_t count : {0, 1, 9, 100, 4097}) {
    const auto section = encode(op_, made_up(count));
    for (int trial = 0; trial < 300; ++trial) {
      auto bytes = section;
      switch (trial % 3) {
        case 0:  // damaged
          for (std::uint64_t i = 0; i <= random() % 4 && !bytes.empty(); ++i)
            bytes[random() % bytes.size()] = static_cast<std::uint8_t>(random());
          break;
        case 1:  // cut or too long
          bytes.resize(random() % (section.size() + 20), static_cast<std::uint8_t>(random()));
          break;
        default:  // random
          for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random());
      }
      std::vector<float> y(count, 0.5F);
      bool good = true;
      try {
        op_.check(bytes, count, scratch_);
      } catch (const DataError&) {
        good = false;
      }
      try {
        op_.add(bytes, 1, y, Keys(), scratch_);
        EXPECT_TRUE(good);
      } catch (const DataError&) {
        EXPECT_FALSE(good);
        EXPECT_EQ(y, std::vector<float>(count, 0.5F)) << "something was added before the error";
      }
      for (const float value : y) EXPECT_TRUE(std::isfinite(value));
    }
  }
}

TEST_P(Laws, ASteadyStateReusesItsMemory) {
  const auto x = made_up(100000);
  Buffer out;
  std::vector<float> y(x.size());
  const auto step = [&] {
    out.clear();
    ASSERT_TRUE(op_.encode(x, out, make_keys(1, 2, 3), scratch_));
    op_.add(out.view(), 1, y, Keys(), scratch_);
  };
  step();
  const auto* memory = out.data();
  const auto* planes = scratch_.planes.data();
  for (int i = 0; i < 3; ++i) step();
  EXPECT_EQ(out.data(), memory);
  EXPECT_EQ(scratch_.planes.data(), planes);
}

}  // namespace
}  // namespace laconic::testing

// Laws that hold for every operator there is. An operator is here by its registration; nothing is
// listed by hand: every example of every stage, and every selector with every quantiser.
#include <set>

#include "tests/support.h"

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
INSTANTIATE_TEST_SUITE_P(Pairs, Laws, ::testing::ValuesIn(pair_specs()), test_name);

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
    EXPECT_FALSE(stage.bits.empty()) << stage.name;
  }
}

TEST(Registry, EverySelectorMeetsEveryQuantiser) {
  std::set<std::string> covered;
  for (const auto& specs : {example_specs(), pair_specs()}) {
    for (const std::string& spec : specs) {
      const auto parts = split_chain(spec);
      for (std::size_t i = 1; i < parts.size(); ++i)
        covered.insert(std::string(parts[i - 1].name) + "+" + std::string(parts[i].name));
    }
  }
  for (const StageInfo& a : stages()) {
    for (const StageInfo& b : stages()) {
      if (a.role != Role::selector || b.role != Role::quantiser) continue;
      EXPECT_TRUE(covered.contains(a.name + "+" + b.name)) << a.name << "+" << b.name;
    }
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
  op_.add(section, 0.3F, y, make_keys(1, 2, 3), scratch_);
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y[i], before[i] + 0.3F * decoded[i]) << i;
}

TEST_P(Laws, SameKeysSameBytesOtherKeysOtherBytes) {
  const auto x = gaussian(5000, 1);
  const auto bytes = encode(op_, x, make_keys(7, 8, 9));
  EXPECT_EQ(bytes, encode(op_, x, make_keys(7, 8, 9)));
  const Traits traits = op_.traits(x.size());
  const auto expect_other = [&](bool other, const Keys& keys, const char* what) {
    EXPECT_EQ(bytes != encode(op_, x, keys), other) << what;
  };
  const bool draws = traits.random || traits.shared;
  expect_other(draws, make_keys(6, 8, 9), "seed");
  expect_other(draws, make_keys(7, 9, 9), "step");
  expect_other(draws, make_keys(7, 8, 9).at(64), "position");
  expect_other(traits.random, make_keys(7, 8, 1), "rank");
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
    EXPECT_EQ(decode(op_, bytes, x.size(), make_keys(1, 2, 3), threads),
              decode(op_, bytes, x.size()))
        << threads;
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

constexpr int kDraws = 400;

// E|C(x) - x|^2 against the claim, and the mean against x along random directions, over many draws.
// Where only rare draws change anything, the variance that is claimed stands in for the measured
// one.
void expect_claims(const Operator& op, const std::vector<float>& x, const std::string& what,
                   bool rare = false) {
  SCOPED_TRACE(what);
  const Traits traits = op.traits(x.size());
  const int draws = traits.random || traits.shared ? kDraws : 1, directions = 8;
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
  const double claimed = rare ? traits.omega.value_or(0) * squared(x) : 0;
  const double sigma = std::sqrt(std::max(0.0, error2 - error * error) / draws);
  constexpr double kRounding = 0x1p-22;  // of floats; some operators attain their bounds
  EXPECT_LE(error, traits.omega.value_or(INFINITY) * (1 + kRounding) + 5 * sigma + 1e-12)
      << "omega";
  const double beside = traits.absolute * traits.absolute * static_cast<double>(x.size());
  EXPECT_LE(error,
            1 - traits.delta.value_or(-INFINITY) + beside / squared(x) + 5 * sigma + kRounding)
      << "delta";
  if (!traits.unbiased) return;
  for (int d = 0; d < directions; ++d)
    EXPECT_LE(std::abs(along[d]), 5 * std::sqrt(std::max(along2[d], claimed) / draws) +
                                      kRounding * std::sqrt(squared(x)))
        << "mean";
}

TEST_P(Laws, ClaimsHold) {
  expect_claims(op_, gaussian(3000), "gaussian");
  expect_claims(op_, made_up(3000), "many magnitudes");
  expect_claims(op_, std::vector<float>(3000, 4.0F / 3), "natural compression's worst mantissa");
  expect_claims(op_, std::vector<float>(3000, -1.5F), "nearest rounding's worst mantissa");
  expect_claims(op_, {1.0F}, "one entry", true);
  std::vector<float> spike(3000, 1e-9F);
  spike[1234] = -3;
  expect_claims(op_, spike, "a spike", true);
  std::vector<float> binade(4096);
  for (std::size_t i = 0; i < binade.size(); ++i) binade[i] = 1 + static_cast<float>(i) / 4096;
  expect_claims(op_, binade, "a binade");
}

// What breaks compressors: entries that are equal, of one sign, or nearly all zero.
TEST_P(Laws, ClaimsHoldOnAwkwardInputs) {
  std::vector<float> negative = gaussian(3000);
  for (float& value : negative) value = -std::abs(value) - 1e-6F;
  expect_claims(op_, negative, "all negative");
  std::vector<float> tied(3000);
  for (std::size_t i = 0; i < tied.size(); ++i) tied[i] = i % 3 == 0 ? -0.75F : 0.25F;
  expect_claims(op_, tied, "ties");
  std::vector<float> zeros(3000);
  zeros[5] = 0.3F;
  zeros[2999] = -0.2F;
  expect_claims(op_, zeros, "mostly zero");
  std::vector<float> alone(3000);
  alone[1500] = -7;
  expect_claims(op_, alone, "a single spike");
  std::vector<float> worst(3000, 1 / (1 + std::sqrt(3000.0F)));
  worst[77] = 1;
  expect_claims(op_, worst, "ternary rounding's worst case");
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
  for (int i = 0; i < 3; ++i) step();
  EXPECT_EQ(out.data(), memory);
}

}  // namespace
}  // namespace laconic::testing

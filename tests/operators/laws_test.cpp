// Laws that hold for every operator there is. An operator is here by its registration; nothing is
// listed by hand: every example of every stage, and their products (chain_specs).
#include <set>

#include "tests/operators/claims.h"

namespace laconic::testing {
namespace {

class Laws : public ::testing::TestWithParam<std::string> {
 protected:
  Operator op_ = parse_operator(GetParam());
  Scratch scratch_;
};

INSTANTIATE_TEST_SUITE_P(Registry, Laws, ::testing::ValuesIn(example_specs()), name_of_spec);
INSTANTIATE_TEST_SUITE_P(Chains, Laws, ::testing::ValuesIn(chain_specs()), name_of_spec);

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

// Every pair of neighbours that the grammar allows is in some chain that is tested.
TEST(Registry, EveryStageMeetsEveryOther) {
  std::set<std::string> covered;
  for (const auto& specs : {example_specs(), chain_specs()}) {
    for (const std::string& spec : specs) {
      const auto parts = split_chain(spec);
      for (std::size_t i = 1; i < parts.size(); ++i)
        covered.insert(std::string(parts[i - 1].name) + "+" + std::string(parts[i].name));
    }
  }
  const auto expect_pairs = [&](Role before, Role after, std::size_t least) {
    std::size_t met = 0;
    for (const StageInfo& a : stages())
      for (const StageInfo& b : stages())
        met += a.role == before && b.role == after && covered.contains(a.name + "+" + b.name);
    EXPECT_GE(met, least) << role_name(before) << " " << role_name(after);
  };
  const auto number_of = [](Role role) {
    return static_cast<std::size_t>(std::ranges::count(stages(), role, &StageInfo::role));
  };
  const std::size_t quantisers = number_of(Role::quantiser), selectors = number_of(Role::selector);
  expect_pairs(Role::selector, Role::quantiser, selectors * quantisers);
  const std::size_t alone = 3;  // dither, drive, eden: no bucket before and no coder behind them
  expect_pairs(Role::quantiser, Role::coder, quantisers - alone);  // `entropy` follows the others
  expect_pairs(Role::bucket, Role::quantiser, quantisers - alone - 3);
  expect_pairs(Role::selector, Role::bucket, selectors);
  expect_pairs(Role::scaler, Role::quantiser, 4);  // those with an omega
}

TEST_P(Laws, SpecIsCanonical) { EXPECT_EQ(parse_operator(op_.spec()).spec(), op_.spec()); }

TEST_P(Laws, WhatIsEncodedChecksAndDecodesAtEveryLength) {
  for (const std::size_t count : kLengths) {
    SCOPED_TRACE(count);
    const auto x = made_up(count, count);
    const auto section = encode(op_, x);
    EXPECT_LE(section.size(), op_.max_size(count));
    EXPECT_NO_THROW(op_.check(section, count, make_keys(1, 2, 3), scratch_));
    for (const float y : decode(op_, section, count)) EXPECT_TRUE(std::isfinite(y));
    // Few entries are drawn often, many once.
    expect_claims(op_, x, "claims",
                  static_cast<int>(std::clamp<std::size_t>(200 / (count + 1), 1, 50)), count < 200);
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
          if (op_.traits(count).keeps_signs) {
            EXPECT_GE(y * sign, 0.0F);
          }
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
        op_.check(bytes, count, Keys(), scratch_);
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

}  // namespace
}  // namespace laconic::testing

// Natural compression against its closed forms (Horvath et al., definition 1 and theorem 3).
#include <map>

#include "laconic/kernels/natural.h"
#include "tests/support.h"

namespace laconic::testing {
namespace {

const Operator kNatural = parse_operator("natural");

// How often each value comes out when `count` copies of t are compressed.
std::map<float, std::size_t> outcomes(const Operator& op, float t, std::size_t count) {
  std::map<float, std::size_t> counts;
  for (const float y : through(op, std::vector<float>(count, t))) ++counts[y];
  return counts;
}

void expect_two_outcomes(float t, float low, float high, double p_high) {
  constexpr std::size_t kCount = 1 << 20;
  for (const char* spec : {"natural", "natural:8"}) {
    SCOPED_TRACE(std::string(spec) + " of " + std::to_string(t));
    const auto counts = outcomes(parse_operator(spec), t, kCount);
    ASSERT_EQ(counts.size(), 2U);
    EXPECT_TRUE(counts.contains(low) && counts.contains(high));
    const double seen = static_cast<double>(counts.at(high)) / kCount;
    EXPECT_NEAR(seen, p_high, 5 * std::sqrt(p_high * (1 - p_high) / kCount));
  }
}

TEST(Natural, TwoAndAHalf) { expect_two_outcomes(2.5F, 2, 4, 1.0 / 4); }
TEST(Natural, MinusTwoAndThreeQuarters) { expect_two_outcomes(-2.75F, -2, -4, 3.0 / 8); }
TEST(Natural, FourThirdsIsTheWorstCase) { expect_two_outcomes(4.0F / 3, 1, 2, 1.0 / 3); }
TEST(Natural, AlmostTheNextPower) {
  expect_two_outcomes(0x1.fffp-30F, 0x1p-30F, 0x1p-29F, 4095.0 / 4096);
}

TEST(Natural, SubnormalsRoundToZeroOrTheLeastNormalWithoutBias) {
  expect_two_outcomes(0x1p-127F, 0, 0x1p-126F, 1.0 / 2);
  expect_two_outcomes(0x1p-129F, 0, 0x1p-126F, 1.0 / 8);
}

TEST(Natural, PowersOfTwoAndZeroAreFixed) {
  std::vector<float> x = {0.0F};
  for (int e = -126; e <= 127; ++e) x.insert(x.end(), {std::ldexp(1.0F, e), -std::ldexp(1.0F, e)});
  for (std::uint64_t seed = 0; seed < 50; ++seed)
    EXPECT_EQ(through(kNatural, x, make_keys(seed, 0, 0)), x);
}

TEST(Natural, AboveTheLastPowerStaysAtIt) {
  for (const float t : {0x1.000002p127F, 0x1.8p127F, std::numeric_limits<float>::max()})
    for (const char* spec : {"natural", "natural:8", "natural:nearest", "natural:8,nearest"})
      EXPECT_EQ(outcomes(parse_operator(spec), t, 1000),
                (std::map<float, std::size_t>{{0x1p127F, 1000}}))
          << spec;
}

// Relative second moment E|C(x)|^2 / |x|^2 - 1, and mean relative variance per entry, for known
// distributions.
struct Spread {
  double of_sums, of_entries;
};
Spread spread(const std::vector<float>& x) {
  const auto y = through(kNatural, x);
  double entries = 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    entries += std::pow((static_cast<double>(y[i]) - x[i]) / x[i], 2);
  return {squared(y) / squared(x) - 1, entries / static_cast<double>(x.size())};
}

TEST(Natural, VarianceOfKnownDistributions) {
  constexpr std::size_t kCount = 4000000;
  std::mt19937_64 random(1);
  std::vector<float> uniform(kCount), log_uniform(kCount), mantissa(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    const double u = (static_cast<double>(random() >> 11) + 0.5) * 0x1p-53;
    uniform[i] = static_cast<float>(2 * u - 1);
    log_uniform[i] = static_cast<float>(std::exp2(u));
    mantissa[i] = static_cast<float>(1 + u);
  }
  // Each entry's relative squared error lies in [0, 1], so the mean's sigma is below sqrt(mean /
  // count).
  const auto tolerance = [](double mean) { return 5 * std::sqrt(mean / kCount); };
  EXPECT_NEAR(spread(uniform).of_sums, 1.0 / 14, 0.001);
  EXPECT_NEAR(spread(log_uniform).of_entries, 0.75 / std::log(2) - 1, tolerance(0.082));
  EXPECT_NEAR(spread(mantissa).of_entries, 3 * std::log(2) - 2, tolerance(0.08));
  EXPECT_NEAR(spread(gaussian(kCount, 1)).of_sums, 0.0817206, 0.001);
}

// For every mantissa the share of draws that rounds up is the mantissa's fraction: the carry is
// monotone in the draw, so the draws on both sides of the threshold pin it exactly.
TEST(Natural, TheCarryRoundsUpForExactlyMantissaDraws) {
  constexpr std::uint32_t kOne = 127U << 23;
  for (std::uint32_t mantissa = 0; mantissa < (1U << 23); ++mantissa) {
    const std::uint32_t magnitude = kOne | mantissa;
    // Rounds up for u >= 2^23 - mantissa, and for no smaller u: exactly `mantissa` of the 2^23
    // draws.
    const std::uint32_t least = (1U << 23) - mantissa;
    ASSERT_EQ((magnitude + least - 1) >> 23, 127U);
    ASSERT_EQ((magnitude + least) >> 23, 128U);
  }
}

// The kernel's draws are the key's, uniform in their low 23 bits: chi-square over 256 cells of the
// high and the low byte.
TEST(Natural, DrawsAreUniform) {
  const Key key = make_keys(5, 6, 7).own;
  constexpr std::size_t kCount = 1 << 20;
  for (const int shift : {0, 8, 15}) {
    std::vector<double> cells(256);
    for (std::uint64_t i = 0; i < kCount; ++i) ++cells[key.bits32(i) >> shift & 255];
    double chi2 = 0;
    for (const double cell : cells) chi2 += std::pow(cell - kCount / 256.0, 2) / (kCount / 256.0);
    EXPECT_NEAR(chi2, 255, 5 * std::sqrt(2 * 255.0)) << shift;
  }
}

// Neighbouring positions, steps and ranks draw independently: products of centred draws have mean
// 0.
TEST(Natural, DrawsOfNeighboursAreIndependent) {
  constexpr std::size_t kCount = 1 << 18;
  const auto centred = [](Key key, std::uint64_t i) {
    return (key.bits32(i) & 0x7fffffU) * 0x1p-23 - 0.5;
  };
  const auto expect_none = [&](auto a, auto b, const char* what) {
    double sum = 0;
    for (std::uint64_t i = 0; i < kCount; ++i) sum += a(i) * b(i);
    EXPECT_LE(std::abs(sum), 5 * std::sqrt(kCount / 144.0)) << what;
  };
  const Key key = make_keys(1, 1, 1).own;
  const auto here = [&](std::uint64_t i) { return centred(key, i); };
  for (std::uint64_t lag : {1, 2, 8, 16, 64, 4096, 65536})
    expect_none(
        here, [&](std::uint64_t i) { return centred(key, i + lag); }, "lag");
  for (std::uint64_t other = 2; other < 20; ++other) {
    expect_none(
        here, [&](std::uint64_t i) { return centred(make_keys(other, 1, 1).own, i); }, "seed");
    expect_none(
        here, [&](std::uint64_t i) { return centred(make_keys(1, other, 1).own, i); }, "step");
    expect_none(
        here, [&](std::uint64_t i) { return centred(make_keys(1, 1, other).own, i); }, "rank");
  }
}

TEST(Natural, MessageIsNineBitsPerEntry) {
  for (const std::size_t count : kLengths) {
    EXPECT_EQ(encode(kNatural, made_up(count)).size(), (9 * count + 7) / 8) << count;
    EXPECT_EQ(encode(parse_operator("natural:8"), made_up(count)).size(),
              count + (count + 4095) / 4096)
        << count;
  }
}

TEST(Natural, NearestRoundsUpAboveOneAndAHalf) {
  const std::vector<float> x = {1.0F, 1.49F, 1.5F, 0x1.800002p0F, 1.9F, -5.9F, -6.0F, -6.1F};
  const std::vector<float> y = {1, 1, 1, 2, 2, -4, -4, -8};
  const std::vector<float> tiny = {0x1p-127F, 0x1.8p-127F, -0x1.8p-127F},
                           rounded = {0, 0x1p-126F, -0x1p-126F};
  for (const char* spec : {"natural:nearest", "natural:8,nearest"}) {
    EXPECT_EQ(through(parse_operator(spec), x), y) << spec;
    EXPECT_EQ(through(parse_operator(spec), tiny), rounded) << spec;
  }
}

// 127 levels reach 2^-126 of the window's top; an entry below becomes the lowest level with
// probability |x| / level.
TEST(Natural, BelowTheEightBitWindowThereIsNoBias) {
  const Operator op = parse_operator("natural:8");
  std::vector<float> x(
      4096, 0x1.8p-25F);  // the top is 2^101, so the lowest level is 2^-25 and everything fits
  x[0] = 0x1p100F;
  for (const float y : through(op, x)) EXPECT_GE(y, 0x1p-25F);
  for (const auto& [value, p] :
       std::vector<std::pair<float, double>>{{0x1.8p-26F, 0.75}, {0x1.4p-28F, 0.15625}}) {
    std::size_t up = 0, all = 0;
    for (std::uint64_t seed = 0; seed < 64; ++seed) {
      std::fill(x.begin() + 1, x.end(), -value);
      const auto y = through(op, x, make_keys(seed, 0, 0));
      for (std::size_t i = 1; i < y.size(); ++i, ++all) {
        EXPECT_TRUE(y[i] == 0 || y[i] == -0x1p-25F) << y[i];
        up += y[i] != 0;
      }
    }
    const double n = static_cast<double>(all);
    EXPECT_NEAR(static_cast<double>(up) / n, p, 5 * std::sqrt(p * (1 - p) / n));
  }
}

// The plain twin of the kernel: def. 1 with floats, drawing the same 23 bits.
float plain(float t, std::uint32_t draw) {
  if (t == 0) return 0;
  const float magnitude = std::abs(t);
  int exponent;
  std::frexp(magnitude, &exponent);
  const double low = std::ldexp(1.0, std::max(exponent - 1, -126));
  const bool subnormal = magnitude < 0x1p-126F;
  const double fraction =
      subnormal ? magnitude / low : (magnitude - low) / low;  // probability of rounding up
  const bool up = draw * 0x1p-23 >= 1 - fraction && fraction > 0;
  const double value = subnormal ? (up ? low : 0) : (up ? std::min(2 * low, 0x1p127) : low);
  return static_cast<float>(std::copysign(value, value == 0 ? 1.0 : t));
}

TEST(Natural, KernelEqualsItsPlainTwin) {
  const Keys keys = make_keys(4, 5, 6).at(1000003);
  auto x = made_up(20011);
  x[3] = std::numeric_limits<float>::max();
  x[4] = std::numeric_limits<float>::denorm_min() * 12345;
  on_every_cpu([&](const std::string&) {
    const auto y = through(kNatural, x, keys);
    for (std::size_t i = 0; i < x.size(); ++i)
      ASSERT_EQ(y[i], plain(x[i], keys.own.bits32(keys.first + i) & 0x7fffffU))
          << i << ": " << x[i];
  });
}

// No frame can bring in an Inf by this field; both ways to add read it alike.
TEST(Natural, AnExponentOf255IsReadAs254) {
  std::vector<std::uint8_t> exponents(100, 255), signs(13);
  signs[0] = signs[8] = 2;
  std::vector<float> expected(100, 0x1p127F);
  expected[1] = expected[65] = -0x1p127F;
  on_every_cpu([&](const std::string&) {
    std::vector<float> added(100), summed(100);
    kernels::natural_add(exponents.data(), signs.data(), 1, added);
    kernels::natural_sum({{{exponents.data(), signs.data()}}}, 1, summed);
    EXPECT_EQ(added, expected);
    EXPECT_EQ(summed, expected);
  });
}

// Rank after rank in registers is what adding one section after the other gives.
TEST(Natural, SumsEqualAddsOnEveryCpu) {
  std::vector<std::vector<std::uint8_t>> exponents, signs;
  std::vector<kernels::NaturalPlanes> sections;
  for (std::uint64_t rank = 0; rank < 3; ++rank) {
    const auto x = made_up(1111, rank);
    exponents.emplace_back(x.size());
    signs.emplace_back(x.size() / 8 + 1);
    ASSERT_TRUE(kernels::natural_encode(x, kernels::Rounding::stochastic, Key(rank), 0,
                                        exponents.back().data(), signs.back().data()));
    sections.push_back({exponents.back().data(), signs.back().data()});
  }
  std::vector<float> first;
  on_every_cpu([&](const std::string& cpu) {
    std::vector<float> added(1111), summed(1111, NAN);
    for (const auto& section : sections)
      kernels::natural_add(section.exponents, section.signs, 0.3F, added);
    kernels::natural_sum(sections, 0.3F, summed);
    EXPECT_EQ(summed, added) << cpu;
    if (first.empty()) first = summed;
    EXPECT_EQ(summed, first) << cpu;
  });
}

TEST(Natural, DrawsAreMadeAtThePositionInTheModelAlsoAcrossTwoToThe32) {
  const auto x = made_up(1000);
  for (const std::uint64_t first :
       {std::uint64_t{0}, (std::uint64_t{1} << 32) - 333, (std::uint64_t{7} << 32) - 1}) {
    const Keys keys = make_keys(4, 5, 6).at(first);
    on_every_cpu([&](const std::string&) {
      for (const char* spec : {"natural", "natural:8"}) {
        const Operator op = parse_operator(spec);
        const auto whole = through(op, x, keys);
        for (const std::size_t cut : {1, 63, 64, 100, 333, 334, 999}) {
          auto pieces = through(op, std::span(x).first(cut), keys);
          const auto rest = through(op, std::span(x).subspan(cut), keys.at(first + cut));
          pieces.insert(pieces.end(), rest.begin(), rest.end());
          EXPECT_EQ(pieces, whole) << spec << " cut at " << cut << " from " << first;
        }
      }
    });
  }
}

}  // namespace
}  // namespace laconic::testing

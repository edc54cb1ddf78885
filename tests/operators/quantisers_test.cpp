// Quantisers against their definitions: the levels each may send and the probabilities that make it
// unbiased, computed here in double, give every variance in closed form.
#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <tuple>

#include "tests/support.h"

namespace laconic::testing {
namespace {

using Values = std::vector<float>;
using Reals = std::vector<double>;

double l1(std::span<const float> x) {
  double sum = 0;
  for (const float value : x) sum += std::abs(static_cast<double>(value));
  return sum;
}

double largest(std::span<const float> x) {
  double most = 0;
  for (const float value : x) most = std::max(most, std::abs(static_cast<double>(value)));
  return most;
}

double norm_of(const std::string& p, std::span<const float> x) {
  return p == "1" ? l1(x) : p == "2" ? std::sqrt(squared(x)) : largest(x);
}

// An unbiased choice between the two levels beside an entry.
struct Law {
  double x = 0, low = 0, high = 0;

  double p() const { return high > low ? (x - low) / (high - low) : 0; }  // of high
  double moment(int power) const {                                        // of the error
    return (1 - p()) * std::pow(low - x, power) + p() * std::pow(high - x, power);
  }
};

Law law_of(double x, const Reals& levels) {
  const auto above = std::ranges::lower_bound(levels, x);
  if (above == levels.end()) return {levels.back(), levels.back(), levels.back()};
  if (above == levels.begin()) return {levels.front(), levels.front(), levels.front()};
  return {x, *(above - 1), *above};
}

// A quantiser by its definition: the levels, ascending, for an array.
struct Definition {
  std::string spec;
  std::function<Reals(std::span<const float>)> levels;

  double variance(std::span<const float> x) const {
    const Reals all = levels(x);
    double sum = 0;
    for (const float value : x) sum += law_of(value, all).moment(2);
    return sum;
  }
  double relative(std::span<const float> x) const { return variance(x) / squared(x); }
};

Definition linear(const std::string& spec, int s, const std::string& p) {
  return {spec, [=](std::span<const float> x) {
            Reals levels;
            for (int l = -s; l <= s; ++l) levels.push_back(norm_of(p, x) * l / s);
            return levels;
          }};
}

Definition qsgd(int s, const std::string& norm = "2") {
  return linear("qsgd:" + std::to_string(s) + "," + norm, s, norm);
}
Definition terngrad() { return linear("terngrad", 1, "max"); }

// Entries beyond so many standard deviations are cut there.
Definition clipped(double clip) {
  return {"terngrad:" + std::to_string(clip), [=](std::span<const float> x) {
            const auto n = static_cast<double>(x.size());
            double sum = 0, squares = 0;
            for (const float value : x) sum += value;
            for (const float value : x) squares += std::pow(value - sum / n, 2);
            const double m = std::min(largest(x), clip * std::sqrt(squares / n));
            return Reals{-m, 0, m};
          }};
}

Definition dithering(int s, const std::string& p) {
  return {"dithering:" + std::to_string(s) + "," + p, [=](std::span<const float> x) {
            Reals levels = {0};
            for (int j = 0; j < s; ++j)
              for (const double sign : {-1.0, 1.0})
                levels.push_back(sign * std::ldexp(norm_of(p, x), -j));
            std::ranges::sort(levels);
            return levels;
          }};
}

Definition uniform(int bits, bool symmetric) {
  return {"uniform:" + std::to_string(bits) + (symmetric ? ",absmax" : ",minmax"),
          [=](std::span<const float> x) {
            const auto [low, high] = std::ranges::minmax(x);
            const double m = largest(x), from = symmetric ? -m : low, to = symmetric ? m : high;
            const int steps = (1 << bits) - (symmetric && bits > 1 ? 2 : 1);
            Reals levels;
            for (int c = 0; c <= steps; ++c) levels.push_back(from + (to - from) * c / steps);
            return levels;
          }};
}

std::vector<Definition> definitions() {
  std::vector<Definition> all = {terngrad()};
  for (const int s : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12})
    for (const char* p : {"1", "2", "inf"}) all.push_back(dithering(s, p));
  for (const int s : {1, 2, 3, 4, 7, 16, 33, 64})
    for (const char* norm : {"2", "max"}) all.push_back(qsgd(s, norm));
  for (int bits = 1; bits <= 8; ++bits)
    for (const bool symmetric : {false, true}) all.push_back(uniform(bits, symmetric));
  return all;
}

Values random_vector(std::mt19937_64& random) {
  std::normal_distribution<float> normal;
  Values x(1 + random() % 200);
  const auto kind = random() % 5;
  for (float& value : x)
    value = kind == 0   ? 1.0F
            : kind == 1 ? normal(random)
            : kind == 2 ? normal(random) * std::exp2(4 * normal(random))
            : kind == 3 ? (random() % 8 == 0 ? normal(random) : 0.0F)
                        : std::abs(normal(random)) + 0.5F;
  if (kind > 2) x[random() % x.size()] = 3;
  return x;
}

// Draws of one operator, with its memory kept.
class Draws {
 public:
  explicit Draws(const std::string& spec) : op_(parse_operator(spec)) {}
  const Values& of(const Values& x, std::uint64_t step) {
    section_.clear();
    const Keys keys = make_keys(3, step, 1);
    EXPECT_TRUE(op_.encode(x, section_, keys, scratch_));
    y_.assign(x.size(), 0);
    op_.add(section_.view(), 1, y_, keys, scratch_);
    return y_;
  }

 private:
  Operator op_;
  Scratch scratch_;
  Buffer section_;
  Values y_;
};

// Every draw is one of its entry's two levels, the mean of the draws is the entry, and their
// squared error is the variance: within 5 sigma, whose squares are the exact second and fourth
// moments.
void expect_law(const Definition& definition, const Values& x, int draws) {
  SCOPED_TRACE(definition.spec);
  std::vector<Law> laws;
  const Reals levels = definition.levels(x);
  for (const float value : x) laws.push_back(law_of(value, levels));
  const double unit = std::max(1e-30, largest(x) + levels.back());
  Draws sample(definition.spec);
  Reals bias(x.size());
  double error = 0, strange = 0;
  for (int draw = 0; draw < draws; ++draw) {
    const Values& y = sample.of(x, static_cast<std::uint64_t>(draw));
    for (std::size_t i = 0; i < x.size(); ++i) {
      const Law& law = laws[i];
      strange += std::min(std::abs(y[i] - law.low), std::abs(y[i] - law.high)) > 1e-6 * unit;
      bias[i] += y[i] - law.x;
      error += std::pow(y[i] - law.x, 2);
    }
  }
  EXPECT_EQ(strange, 0) << "values that are neither level";
  double variance = 0, spread = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double v = laws[i].moment(2);
    variance += v;
    spread += laws[i].moment(4) - v * v;
    if (draws * laws[i].p() * (1 - laws[i].p()) < 25) continue;  // too rare to judge one by one
    EXPECT_LE(std::abs(bias[i]), 5 * std::sqrt(draws * v) + draws * 1e-6 * unit) << "entry " << i;
  }
  const double rounding =
      1e-5 * variance + static_cast<double>(x.size()) * std::pow(1e-6 * unit, 2);
  EXPECT_NEAR(error, draws * variance, 5 * std::sqrt(draws * spread) + draws * rounding)
      << "variance";
}

TEST(Quantisers, EveryDrawFollowsTheDefinition) {
  std::mt19937_64 random(1);
  Values zeros(40);
  zeros[7] = -2;
  zeros[8] = 0.3F;
  const std::vector<Values> arrays = {{3, 4}, {-5, 12},         gaussian(60, 2),
                                      zeros,  {-1, -1.25F, -7}, random_vector(random)};
  for (const Definition& definition : definitions())
    for (const Values& x : arrays) expect_law(definition, x, 2000);
  for (const double clip : {0.5, 1.0, 2.5})
    for (const Values& x : arrays) expect_law(clipped(clip), x, 2000);
}

// A mean is no deviation, and equal entries, or one, have none: they are not clipped to nothing.
TEST(Quantisers, TernGradClipsAtDeviationsFromTheMean) {
  const Operator op = parse_operator("terngrad:clip=2.5");
  EXPECT_EQ(through(op, Values{0.3F}), Values{0.3F});
  EXPECT_EQ(through(op, Values(5000, -0.1F)), Values(5000, -0.1F));
  Values x = gaussian(5000, 1);
  for (float& value : x) value += 1;
  x[7] = 100;
  double sum = 0, squares = 0;
  for (const float value : x) sum += value;
  for (const float value : x) squares += std::pow(value - sum / 5000, 2);
  EXPECT_NEAR(through(op, x)[7], 2.5 * std::sqrt(squares / 5000), 1e-5);
  EXPECT_FALSE(op.traits(5000).unbiased);
}

TEST(Quantisers, NearestRoundingTakesTheNearestLevel) {
  std::mt19937_64 random(4);
  for (int trial = 0; trial < 20; ++trial)
    for (int bits = 1; bits <= 8; ++bits)
      for (const bool symmetric : {false, true}) {
        const Definition definition = uniform(bits, symmetric);
        const Values x = random_vector(random);
        const Reals levels = definition.levels(x);
        const Values y = through(parse_operator(definition.spec + ",nearest"), x);
        for (std::size_t i = 0; i < x.size(); ++i) {
          const Law law = law_of(x[i], levels);
          EXPECT_NEAR(std::abs(y[i] - x[i]), std::min(x[i] - law.low, law.high - x[i]),
                      2e-6 * largest(x))
              << definition.spec;
        }
      }
}

TEST(Quantisers, ThreeAndFourHaveTheKnownVariances) {
  const Values x = {3, 4}, other = {-12, 5};
  EXPECT_NEAR(dithering(1, "2").relative(x), 0.4, 1e-12);
  EXPECT_NEAR(dithering(1, "inf").relative(x), 0.12, 1e-12);
  EXPECT_NEAR(dithering(1, "inf").relative(other), 35.0 / 169, 1e-12);  // 12 x 5 - 25
  for (int s = 2; s <= 12; ++s) {
    EXPECT_NEAR(dithering(s, "2").relative(x), 0.1, 1e-12);
    EXPECT_NEAR(dithering(s, "inf").relative(x), 0.04, 1e-12);
    expect_law(dithering(s, "2"), x, 20000);
  }
  const double variances[] = {0.4, 0.1, 0.025, 0.00625},
               bounds[] = {std::sqrt(2.0), 0.5, 0.125, 0.03125};
  for (int i = 0; i < 4; ++i) {
    EXPECT_NEAR(qsgd(1 << i).relative(x), variances[i], 1e-12);
    EXPECT_DOUBLE_EQ(parse_operator(qsgd(1 << i).spec).traits(2).omega.value(), bounds[i]);
    expect_law(qsgd(1 << i), x, 20000);
  }
}

// Norm sqrt(d) and entries of 1, below the lowest level: each becomes that level or 0.
TEST(Quantisers, EqualEntriesBelowTheLowestLevel) {
  const auto expect = [](const Definition& definition, std::size_t d, double relative,
                         double nonzero, int draws) {
    SCOPED_TRACE(definition.spec + " of " + std::to_string(d));
    const Values x(d, 1);
    EXPECT_NEAR(definition.relative(x), relative, 1e-9 * relative);
    expect_law(definition, x, draws);
    Draws sample(definition.spec);
    double seen = 0;
    for (int draw = 0; draw < draws; ++draw)
      for (const float y : sample.of(x, static_cast<std::uint64_t>(draw))) seen += y != 0;
    EXPECT_NEAR(seen, draws * nonzero, 5 * std::sqrt(draws * nonzero));
  };
  expect(dithering(2, "2"), 100, 4, 20, 5000);
  expect(dithering(3, "2"), 400, 4, 80, 1000);
  expect(dithering(4, "2"), 10000, 11.5, 800, 50);
  expect(dithering(8, "2"), 1000000, 6.8125, 128000, 1);
  expect(qsgd(1), 100, 9, 10, 5000);
  expect(qsgd(1), 2500, 49, 50, 200);
  expect(qsgd(4), 1024, 7, 128, 200);  // s sqrt(d) of them, sqrt(d) / s - 1
}

TEST(Quantisers, EqualEntriesThatAreALevelAreExact) {
  for (int j = 0; j <= 7; ++j)
    for (int s = 1; s <= 12; ++s)
      for (const float value : {1.0F, -0.3F, 1e-20F}) {
        const Values x(std::size_t{1} << 2 * j, value);
        const bool exact = j <= s - 1;
        EXPECT_EQ(through(parse_operator(dithering(s, "2").spec), x) == x, exact) << j << " " << s;
      }
}

// D_nat of s levels is natural compression of D_sta of 2^(s-1) levels: counts of each outcome of
// values that are repeated, from both sides, chi-square.
TEST(Quantisers, NaturalDitheringIsNaturalCompressionOfLinearDithering) {
  constexpr std::size_t kRepeats = 4000;
  for (const auto& [p, norm, s] : std::vector<std::tuple<std::string, std::string, int>>{
           {"inf", "max", 1}, {"inf", "max", 2}, {"inf", "max", 4}, {"2", "2", 7}, {"2", "2", 9}}) {
    SCOPED_TRACE(p + " " + std::to_string(s));
    Values x = {2};
    for (const float value : {0.011F, 0.1F, 0.3F, 0.55F, 0.7F, 0.95F, 1.2F, 1.6F, 1.999F})
      x.insert(x.end(), kRepeats, value);
    const double n = static_cast<float>(norm_of(p, x)), steps = std::exp2(s - 1);
    auto linear = through(parse_operator(qsgd(1 << (s - 1), norm).spec), x);
    for (float& y : linear) y = static_cast<float>(std::round(y / n * steps) / steps);
    linear = through(parse_operator("natural"), linear, make_keys(9, 9, 9));
    auto powers = through(parse_operator(dithering(s, p).spec), x, make_keys(8, 8, 8));
    double chi2 = 0, freedom = 0;
    for (std::size_t from = 1; from < x.size(); from += kRepeats) {
      std::map<int, std::array<double, 2>> cells;  // by exponent
      for (std::size_t i = from; i < from + kRepeats; ++i) {
        const auto cell = [&](double y) { return y == 0 ? -1000 : std::ilogb(y * 1.0001); };
        ++cells[cell(linear[i])][0];
        ++cells[cell(powers[i] / n)][1];
      }
      EXPECT_LE(cells.size(), 2U);
      freedom += static_cast<double>(cells.size()) - 1;
      for (const auto& [cell, seen] : cells)
        chi2 += std::pow(seen[0] - seen[1], 2) / (seen[0] + seen[1]);
    }
    EXPECT_GE(freedom, 8);
    EXPECT_NEAR(chi2, freedom, 5 * std::sqrt(2 * freedom));
  }
}

TEST(Quantisers, TheVarianceIsWithinOmegaAndOmegaIsNearlyReached) {
  std::mt19937_64 random(2);
  std::map<std::string, double> reached;
  for (const Definition& definition : definitions()) {
    const Operator op = parse_operator(definition.spec);
    const std::string name(split_chain(definition.spec)[0].name);
    for (int trial = 0; trial < 60; ++trial) {
      const Values x = random_vector(random);
      const double omega = op.traits(x.size()).omega.value(), variance = definition.relative(x);
      EXPECT_LE(variance, omega * (1 + 1e-12) + 1e-12) << definition.spec;
      if (omega > 0) reached[name] = std::max(reached[name], variance / omega);
    }
  }
  EXPECT_GT(reached["dithering"], 0.98);
  EXPECT_GT(reached["qsgd"], 0.9);
  EXPECT_GT(reached["uniform"], 0.5);
}

TEST(Quantisers, WorstCasesAttainOmega) {
  for (const auto& [d, moment] :
       std::map<std::size_t, double>{{4, 1.5}, {9, 2}, {100, 5.5}, {10000, 50.5}}) {
    Values x(d, 1 / (1 + std::sqrt(static_cast<float>(d))));
    x[d / 2] = -1;
    EXPECT_NEAR(1 + terngrad().relative(x), moment, 1e-6 * moment);
    EXPECT_DOUBLE_EQ(1 + parse_operator("terngrad").traits(d).omega.value(), moment);
    expect_law(terngrad(), x, d > 1000 ? 100 : 2000);
  }
  for (int bits = 1; bits <= 8; ++bits) {  // zeros are halfway between two codes
    Values x(50);
    x[3] = 1;
    x[9] = -1;
    const Definition minmax = uniform(bits, false);
    EXPECT_NEAR(minmax.relative(x), parse_operator(minmax.spec).traits(50).omega.value(), 1e-12);
  }
}

// Theorem 3.2 of QSGD without its o(1), and corollary 3.3; the number of non-zeros and the last
// byte's padding are ours.
TEST(Quantisers, EliasMessagesAreWithinThePapersBounds) {
  const auto bits = [](int s, const Values& x) {
    double sum = 0;
    for (std::uint64_t step = 0; step < 20; ++step)
      sum += 8.0 / 20 *
             static_cast<double>(
                 encode(parse_operator(qsgd(s).spec + "+levels:elias"), x, make_keys(1, step, 1))
                     .size());
    return sum;
  };
  constexpr double kOurs = 24 + 8;
  for (const std::size_t d : {10000, 100000})
    for (const Values& x : {gaussian(d), made_up(d), Values(d, 1)})
      for (const int s : {1, 2, 4, 8, 16}) {
        const auto n = static_cast<double>(d);
        const double sparse = s * (s + std::sqrt(n));
        const double bound = (3 + 1.5 * std::log2(2 * (s * s + n) / sparse)) * sparse + 32;
        EXPECT_LE(bits(s, x), bound + kOurs) << d << " " << s;
      }
  EXPECT_LE(bits(100, gaussian(10000)), 2.8 * 10000 + 32);
  EXPECT_LE(bits(300, gaussian(90000)), 2.8 * 90000 + 32);
}

}  // namespace
}  // namespace laconic::testing

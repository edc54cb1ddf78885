// The grid's certificate: the step a section carries has a variance that anyone who holds the
// entries can compute, within the promise and close to it. And the sign operator's identity.
#include <algorithm>
#include <cstdio>
#include <map>
#include <numbers>

#include "laconic/base/bytes.h"
#include "tests/recorded.h"
#include "tests/support.h"

namespace laconic::testing {
namespace {

using Values = std::vector<float>;

const std::vector<std::string> kOmegas = {"0.001", "0.01", "0.125", "0.5", "1", "2", "16"};

// With made(random) called for each entry.
template <class Make>
Values filled(std::size_t count, Make make) {
  std::mt19937_64 random(count);
  Values x(count);
  for (float& value : x) value = static_cast<float>(make(random));
  return x;
}

double unit(std::mt19937_64& random) {
  return (static_cast<double>(random() >> 11) + 0.5) * 0x1p-53;
}
double laplace(std::mt19937_64& random) {
  return (random() % 2 ? 1 : -1) * 0.003 * std::log(unit(random));
}

std::map<std::string, Values> arrays(std::size_t count) {
  std::map<std::string, Values> all;
  all["gaussian"] = gaussian(count);
  all["laplace"] = filled(count, laplace);
  all["cauchy"] = filled(count, [](auto& r) { return std::tan(3.14159 * (unit(r) - 0.5)); });
  all["log-normal"] = filled(count, [](auto& r) { return std::exp(20 * unit(r) * unit(r) - 10); });
  all["uniform"] = filled(count, [](auto& r) { return 2 * unit(r) - 1; });
  all["binades"] = made_up(count);
  all["spike"] = Values(count, 1e-6F);
  all["spike"][count / 2] = 100;
  all["alone"] = Values(count);
  all["alone"][count - 1] = -7;
  all["constant"] = Values(count, -0.37F);
  all["two values"] = filled(count, [](auto& r) { return r() % 2 ? 1.0 : -0.01; });
  all["mostly zero"] = filled(count, [](auto& r) { return r() % 50 == 0 ? laplace(r) : 0.0; });
  // Every few entries are of another kind than the rest: a sample at even distances sees only one.
  const std::size_t stride = (count + 16383) / 16384;
  all["never sampled"] = all["always sampled"] = gaussian(count);
  for (std::size_t i = 0; i < count; ++i)
    (i % stride == 0 && i > 0 ? all["never sampled"] : all["always sampled"])[i] *= 1e-4F;
  all["huge"] = gaussian(count, 1e37F);
  all["tiny"] = gaussian(count, 1e-30F);
  return all;
}

float step_of(const std::string& omega, const Values& x) {
  return load<float>(encode(parse_operator("grid:" + omega), x).data());
}

// Of rounding x to multiples of the step at random without bias; the error's fourth moment less the
// squared second gives the spread of its square.
struct Moments {
  double variance = 0, spread = 0;
};
Moments moments(const Values& x, double step) {
  Moments sum;
  for (const float value : x) {
    const double y = std::abs(static_cast<double>(value)) / step, f = y - std::floor(y);
    const double v = f * (1 - f), fourth = v * (std::pow(f, 3) + std::pow(1 - f, 3));
    sum.variance += step * step * v;
    sum.spread += std::pow(step, 4) * (fourth - v * v);
  }
  return sum;
}

TEST(Grid, TheStepsExactVarianceIsWithinOmega) {
  for (const std::size_t count : {1, 2, 7, 100, 3000, 40000})
    for (const auto& [name, x] : arrays(count))
      for (const std::string& omega : kOmegas) {
        if (squared(x) == 0) continue;
        const double promised = std::stod(omega) * squared(x), step = step_of(omega, x);
        EXPECT_LE(moments(x, step).variance, promised) << name << " " << count << " " << omega;
        EXPECT_GT(step, 0) << name;
      }
}

TEST(Grid, TheStepUsesTheVarianceThatIsAllowed) {
  for (const std::size_t count : {3000, 40000, 200000}) {
    auto all = arrays(count);
    for (const char* name : {"gaussian", "laplace", "uniform", "mostly zero", "huge", "tiny",
                             "never sampled", "always sampled"})
      for (const std::string& omega : kOmegas)
        EXPECT_GE(moments(all[name], step_of(omega, all[name])).variance,
                  0.9 * std::stod(omega) * squared(all[name]))
            << name << " " << count << " " << omega;
  }
}

// Below the largest entry there is no closed form; above it D |x|_1 - |x|^2 is the variance, so
// equal entries get the step (1 + omega) |x|.
TEST(Grid, EqualEntriesGetTheStepOfTheClosedForm) {
  for (const std::string& omega : kOmegas)
    for (const float value : {1.0F, -0.37F, 3e-20F})
      EXPECT_NEAR(step_of(omega, Values(1000, value)) / std::abs(value), 1 + std::stod(omega),
                  1e-5 * (1 + std::stod(omega)))
          << omega;
}

TEST(Grid, DrawsAreTheNeighbouringMultiplesWithTheExactVarianceAndNoBias) {
  for (const auto& [name, x] : arrays(5000))
    for (const std::string omega : {"0.125", "2"}) {
      SCOPED_TRACE(name + " " + omega);
      const double step = step_of(omega, x);
      const Operator op = parse_operator("grid:" + omega);
      constexpr int kDraws = 40;
      double error = 0, strange = 0, along = 0;
      for (std::uint64_t draw = 0; draw < kDraws; ++draw) {
        const Values y = through(op, x, make_keys(draw, 1, 1));
        for (std::size_t i = 0; i < x.size(); ++i) {
          const double off = static_cast<double>(y[i]) - x[i], level = y[i] / step;
          strange += std::abs(off) > step * 1.000001 || static_cast<double>(y[i]) * x[i] < 0 ||
                     std::abs(level - std::round(level)) > 1e-6 * std::abs(level);
          error += off * off;
          along += Key(5).bits(i) % 2 ? off : -off;
        }
      }
      EXPECT_EQ(strange, 0);
      const Moments exact = moments(x, step);
      EXPECT_NEAR(error, kDraws * exact.variance,
                  5 * std::sqrt(kDraws * exact.spread) + 1e-4 * kDraws * exact.variance);
      EXPECT_LE(std::abs(along), 5 * std::sqrt(kDraws * exact.variance));
      const double sigma = 5 * std::sqrt(kDraws * exact.spread) / kDraws;
      EXPECT_LE(error / kDraws, std::stod(omega) * squared(x) + sigma) << "second moment";
    }
}

TEST(Grid, ARealGradientTakesAFourteenthAtTheVarianceOfNaturalCompression) {
  const Values x = recorded_gradient();
  for (const char* spec : {"grid:0.125", "grid:0.125+entropy"}) {
    const double ratio = 4.0 * static_cast<double>(x.size()) /
                         static_cast<double>(encode(parse_operator(spec), x).size());
    std::printf("%s: %.2f\n", spec, ratio);
    EXPECT_GE(ratio, 14) << spec;
  }
  const double exact = moments(x, step_of("0.125", x)).variance / squared(x);
  EXPECT_LE(exact, 0.125);
  EXPECT_GE(exact, 0.9 * 0.125);
}

// Longer than the sample that suggests a step, and unlike itself from half to half: a sample taken
// into the array that shrink wrote would be quantised in place of the entries.
TEST(Grid, BehindShrinkKeepsSignsAndItsPromiseOnLongSlices) {
  Values x = gaussian(100000, 1);
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = i < x.size() / 2 ? std::abs(x[i]) : -std::abs(x[i]);
  for (const std::string omega : {"0.125", "0.5", "2"}) {
    SCOPED_TRACE(omega);
    const Operator op = parse_operator("shrink+grid:" + omega);
    const Values y = through(op, x);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < x.size(); ++i) wrong += x[i] * y[i] < 0;
    EXPECT_EQ(wrong, 0U);
    const double promised = 1 - *op.traits(x.size()).delta;
    EXPECT_LE(squared_distance(x, y) / squared(x), promised * 1.02);  // one draw: sigma is 0.3 %
  }
}

double l1(const Values& x) {
  double sum = 0;
  for (const float value : x) sum += std::abs(static_cast<double>(value));
  return sum;
}

// |x - C(x)|^2 = |x|^2 - |x|_1^2 / n, and every entry arrives as plus or minus the mean magnitude.
// The code of levels is chosen from some of them: one that these do not show must not cost bits of
// all.
TEST(Grid, ALevelThatNoSampleSeesCostsOnlyItself) {
  for (const std::size_t at : {std::size_t{0}, std::size_t{5000}, std::size_t{299999}}) {
    Values x = gaussian(300000);
    x[at] = 1e9F;
    EXPECT_LT(encode(parse_operator("grid"), x).size(), 200U) << at;
  }
}

TEST(Sign, TheErrorIsItsClosedForm) {
  for (const std::size_t count : {1, 2, 9, 64, 5000})
    for (const auto& [name, x] : arrays(count)) {
      SCOPED_TRACE(name + " " + std::to_string(count));
      const Values y = through(parse_operator("sign"), x);
      const double n = static_cast<double>(count), mean = l1(x) / n;
      EXPECT_NEAR(squared_distance(x, y), squared(x) - l1(x) * l1(x) / n, 1e-6 * squared(x));
      for (std::size_t i = 0; i < count; ++i)
        EXPECT_NEAR(y[i], x[i] < 0 ? -mean : mean, 1e-6 * mean) << i;
    }
}

TEST(Sign, BellShapedEntriesLeaveOneMinusTwoOverPi) {
  constexpr double kCount = 1000000;
  const Values x = gaussian(1000000, 1);
  const double delta = 1 - squared_distance(x, through(parse_operator("sign"), x)) / squared(x);
  // |x|_1 / n and |x|^2 / n have the sigmas sqrt((1 - 2/pi) / n) and sqrt(2 / n).
  const double pi = std::numbers::pi,
               sigma = (2 * std::sqrt(2 / pi) * std::sqrt(1 - 2 / pi) + 2 / pi * std::sqrt(2)) /
                       std::sqrt(kCount);
  EXPECT_NEAR(delta, 2 / pi, 5 * sigma);
}

}  // namespace
}  // namespace laconic::testing

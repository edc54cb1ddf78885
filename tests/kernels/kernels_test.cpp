// The kernels below selectors and quantisers, each against its plain twin on every instruction set,
// and against closed forms.
#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

#include "laconic/kernels/codes.h"
#include "laconic/kernels/levels.h"
#include "laconic/kernels/looks.h"
#include "laconic/kernels/natural.h"
#include "laconic/kernels/ones.h"
#include "laconic/kernels/reduce.h"
#include "laconic/kernels/signs.h"
#include "tests/kernels/inputs.h"

namespace laconic::testing {
namespace {

using kernels::Rounding;
using kernels::Scale;

const Key kKey = make_keys(3, 1, 4).own;
const std::vector<std::uint64_t> kFirsts = {0, (std::uint64_t{1} << 32) - 5,
                                            (std::uint64_t{7} << 32) - 333};

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

// The norms worth trying for an array: its largest entry, a part of it, and the extremes.
std::vector<float> norms(std::span<const float> x) {
  const float largest = std::bit_cast<float>(kernels::largest_magnitude(x));
  return {largest > 0 ? largest : 1, largest > 1 ? largest / 3 : 0.01F, kLeast, kMax};
}

// ---- levels.h

// What is added before the fraction is cut off.
float moved_by(Rounding rounding, std::uint32_t draw) {
  return rounding == Rounding::nearest ? std::nextafter(0.5F, 0.0F)
                                       : static_cast<float>(draw >> 8) * 0x1p-24F;
}

// |x| in steps, by the factors.
float plain_steps(float x, Scale scale) {
  const auto [first, second] = kernels::factors_of(scale);
  return std::abs(x) * first * second;
}

std::int32_t plain_level(float x, Scale scale, std::int32_t most, Rounding rounding,
                         std::uint32_t draw) {
  const float moved = plain_steps(x, scale) + moved_by(rounding, draw);
  const auto level = static_cast<std::int32_t>(std::min(moved, static_cast<float>(most)));
  return x < 0 ? -level : level;
}

// Levels with room for wide ones.
struct LevelArray {
  explicit LevelArray(std::size_t count) : small(count, 99), wide(count, 99) {}
  explicit LevelArray(const std::vector<std::int32_t>& levels) : LevelArray(levels.size()) {
    for (std::size_t i = 0; i < levels.size(); ++i) span().set(i, levels[i]);
  }
  kernels::LevelSpan span() { return {small.data(), wide.data()}; }
  std::vector<std::int32_t> all() {
    std::vector<std::int32_t> levels(small.size());
    for (std::size_t i = 0; i < levels.size(); ++i) levels[i] = kernels::LevelView(span())[i];
    return levels;
  }
  std::vector<std::int8_t> small;
  std::vector<std::int32_t> wide;
};

TEST(Levels, FactorsMakeStepsOfEveryNorm) {
  for (const float steps : {1.0F, 3.0F, 127.0F, 32767.0F})
    for (int e = -149; e <= 127; ++e)
      for (const float mantissa : {1.0F, 1.1F, 1.5F, 1.9999999F}) {
        const float norm = std::ldexp(mantissa, e);
        const float y = plain_steps(norm, {norm, steps});
        ASSERT_GE(y, steps) << norm;
        ASSERT_LE(y, steps * (1 + 0x1p-22F)) << norm;
      }
}

struct LevelsCase {
  float steps;
  std::int32_t most;
};
const std::vector<LevelsCase> kLevelsCases = {{1, 1},         {7, 7},    {7, 3}, {0x1p24F, 1 << 24},
                                              {255, 1 << 30}, {100, 127}};

std::uint32_t largest_of(const std::vector<std::int32_t>& levels) {
  std::uint32_t largest = 0;
  for (const auto level : levels)
    largest = std::max(largest, static_cast<std::uint32_t>(std::abs(level)));
  return largest;
}

// In 16 lanes of float.
kernels::Spreads plain_spreads(std::span<const float> x, Scale scale) {
  float variance[16] = {}, squares[16] = {};
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float y = plain_steps(x[i], scale);
    const float f = y - std::floor(y);
    variance[i % 16] += f * (1 - f);
    squares[i % 16] += y * y;
  }
  return {std::accumulate(variance, variance + 16, 0.0),
          std::accumulate(squares, squares + 16, 0.0)};
}

TEST(Levels, TheSpreadIsThatOfTheSameLevels) {
  for (const std::size_t count : {1, 15, 64, 100, 4096}) {
    const auto x = gaussian(count);
    for (const float norm : {0.001F, 0.3F, 7.0F})
      on_every_cpu([&](const std::string&) {
        const Scale scale{norm, 1};
        LevelArray levels(count), alone(count);
        const kernels::Spreads sums =
            kernels::to_levels_and_spread(x, scale, 1 << 20, kKey, 5, levels.span());
        kernels::to_levels(x, scale, 1 << 20, Rounding::stochastic, kKey, 5, alone.span());
        ASSERT_EQ(levels.all(), alone.all());
        ASSERT_EQ(sums.variance, plain_spreads(x, scale).variance);
        ASSERT_EQ(sums.squares, plain_spreads(x, scale).squares);
        ASSERT_NEAR(sums.variance, kernels::spread(x, norm), 1e-3 * static_cast<double>(count));
      });
  }
}

TEST(Levels, ToLevelsEqualsItsPlainTwin) {
  for_inputs(
      [](std::span<const float> x) {
        for (const LevelsCase& c : kLevelsCases)
          for (const float norm : norms(x))
            for (const Rounding rounding : {Rounding::stochastic, Rounding::nearest}) {
              const Scale scale{norm, c.steps};
              const std::uint64_t first = kFirsts[x.size() % kFirsts.size()];
              std::vector<std::int32_t> expected(x.size());
              for (std::size_t i = 0; i < x.size(); ++i)
                expected[i] = plain_level(x[i], scale, c.most, rounding, kKey.bits32(first + i));
              on_every_cpu([&](const std::string&) {
                LevelArray levels(x.size());
                kernels::to_levels(x, scale, c.most, rounding, kKey, first, levels.span());
                ASSERT_EQ(levels.all(), expected) << c.steps << " " << c.most << " " << norm;
                ASSERT_EQ(kernels::largest_level(levels.span(), x.size()), largest_of(expected));
              });
            }
      },
      8191);
}

// Levels from -most to most.
std::vector<std::int32_t> some_levels(std::size_t count, std::int32_t most) {
  std::mt19937_64 random(count + 1);
  std::vector<std::int32_t> levels(count);
  const std::int64_t limit = most;
  for (auto& level : levels)
    level = static_cast<std::int32_t>(static_cast<std::int64_t>(random() >> 2) % (2 * limit + 1) -
                                      limit);
  return levels;
}

// add(y) on every instruction set against y[i] += weight * value(i).
template <class Value, class Add>
void expect_adds(std::span<const float> start, float weight, Value value, Add add) {
  std::vector<float> expected(start.begin(), start.end());
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += weight * value(i);
  on_every_cpu([&](const std::string&) {
    std::vector<float> y(start.size() + 1);
    std::ranges::copy(start, y.begin() + 1);
    add(std::span(y).subspan(1));
    ASSERT_TRUE(same_bits(std::span(y).subspan(1), expected));
  });
}

TEST(Levels, AddLevelsEqualsItsPlainTwin) {
  for (const std::size_t count : kLengths)
    for (const LevelsCase& c : kLevelsCases)
      for (const float norm : {1.7F, 0x1p-140F, 0x1p100F}) {
        const auto start = made_up(count);
        const auto levels = some_levels(count, c.most);
        LevelArray stored(levels);
        const kernels::Unit unit = kernels::unit_of({norm, c.steps});
        expect_adds(
            start, -0.3F,
            [&](std::size_t i) {
              return std::clamp(static_cast<float>(levels[i]) * unit.unit, -norm, norm);
            },
            [&](std::span<float> y) { kernels::add_levels(stored.span(), unit, -0.3F, y); });
      }
}

// Natural dithering by its definition, in double.
std::int32_t plain_power(float x, float norm, int s, std::uint32_t draw) {
  const double y = std::min(plain_steps(x, {norm, 1}), 1.0F);
  const double lowest = std::ldexp(1.0, 1 - s);
  std::int32_t level = 0;
  if (y < lowest) {
    level = (draw >> 8) * 0x1p-24 < y / lowest;
  } else {
    int exponent;
    const double fraction =
        2 * std::frexp(y, &exponent) - 1;  // y = (1 + fraction) 2^(exponent - 1)
    level = exponent - 1 + s + ((draw & 0x7fffffU) * 0x1p-23 + fraction >= 1);
  }
  return x < 0 ? -level : level;
}

TEST(Levels, ToPowersEqualsItsPlainTwin) {
  for_inputs(
      [](std::span<const float> x) {
        for (const int s : {1, 2, 8, 100, 127})
          for (const float norm : norms(x)) {
            const std::uint64_t first = kFirsts[x.size() % kFirsts.size()];
            std::vector<std::int8_t> expected(x.size());
            for (std::size_t i = 0; i < x.size(); ++i)
              expected[i] =
                  static_cast<std::int8_t>(plain_power(x[i], norm, s, kKey.bits32(first + i)));
            on_every_cpu([&](const std::string&) {
              std::vector<std::int8_t> levels(x.size(), 99);
              kernels::to_powers(x, norm, s, kKey, first, levels.data());
              ASSERT_EQ(levels, expected) << s << " " << norm;
            });
          }
      },
      8191);
}

TEST(Levels, AddPowersEqualsItsPlainTwin) {
  for (const std::size_t count : kLengths)
    for (const int s : {1, 2, 8, 100, 127})
      for (const float norm : {1.7F, 0x1p-140F, kMax}) {
        const auto some = some_levels(count, s);
        const std::vector<std::int8_t> levels(some.begin(), some.end());
        expect_adds(
            made_up(count), 0.3F,
            [&](std::size_t i) {
              const float value = norm * std::ldexp(1.0F, std::abs(levels[i]) - s);
              return levels[i] == 0 ? 0 : levels[i] < 0 ? -value : value;
            },
            [&](std::span<float> y) { kernels::add_powers(levels.data(), norm, s, 0.3F, y); });
      }
}

std::uint8_t plain_code(float x, float low, float high, unsigned bits, Rounding rounding,
                        std::uint32_t draw) {
  const auto last = static_cast<float>((1 << bits) - 1);
  const float fit = !std::isfinite(high - low) ? 0.5F : high - low < 0x1p-100F ? 0x1p64F : 1.0F;
  const float range = fit * high - fit * low;
  float factor = last / range;
  if (range * factor < last) factor = std::nextafter(factor, 0x1p127F);
  const float t = (fit * x - fit * low) * factor;
  return static_cast<std::uint8_t>(std::min(std::max(t, 0.0F) + moved_by(rounding, draw), last));
}

TEST(Levels, ToCodesEqualsItsPlainTwin) {
  for_inputs(
      [](std::span<const float> x) {
        std::vector<std::pair<float, float>> ranges = {{-1, 0.5F}, {-kMax, kMax}, {0, kLeast}};
        if (!x.empty()) {
          const auto [low, high, finite] = kernels::range_of(x);
          if (low < high) ranges.emplace_back(low, high);
        }
        for (const auto& range : ranges)
          for (const unsigned bits : {1U, 2U, 5U, 8U})
            for (const Rounding rounding : {Rounding::stochastic, Rounding::nearest}) {
              const std::uint64_t first = kFirsts[x.size() % kFirsts.size()];
              std::vector<std::uint8_t> expected(x.size());
              for (std::size_t i = 0; i < x.size(); ++i)
                expected[i] = plain_code(x[i], range.first, range.second, bits, rounding,
                                         kKey.bits32(first + i));
              on_every_cpu([&](const std::string&) {
                std::vector<std::uint8_t> codes(x.size(), 99);
                kernels::to_codes(x, range.first, range.second, bits, rounding, kKey, first,
                                  codes.data());
                ASSERT_EQ(codes, expected) << range.first << " " << range.second << " " << bits;
              });
            }
      },
      8191);
}

TEST(Levels, AddCodesEqualsItsPlainTwin) {
  for (const std::size_t count : kLengths)
    for (const unsigned bits : {1U, 2U, 5U, 8U})
      for (const auto& [low, high] :
           std::vector<std::pair<float, float>>{{-1, 0.5F}, {0.1F, 0.7F}, {-kLeast, kLeast}}) {
        const auto last = static_cast<float>((1 << bits) - 1);
        std::vector<std::uint8_t> codes(count);
        for (std::size_t i = 0; i < count; ++i)
          codes[i] = static_cast<std::uint8_t>(kKey.bits32(i) % (1U << bits));
        const float from = low, to = high;  // a lambda captures no structured binding in clang 14
        expect_adds(
            made_up(count), 0.3F,
            [&](std::size_t i) {
              const float t = codes[i] * (1 / last);
              return std::clamp(from * (1 - t) + to * t, from, to);
            },
            [&](std::span<float> y) { kernels::add_codes(codes.data(), from, to, bits, 0.3F, y); });
      }
}

TEST(Levels, EveryCodeIsFiniteAndTheEndsAreExact) {
  const float below_max = std::nextafter(kMax, 0.0F);
  const std::vector<std::pair<float, float>> ranges = {
      {-kMax, kMax},   {below_max, kMax}, {-kMax, -below_max}, {0.3F, 0.7F}, {0, kLeast},
      {-kMax, kLeast}, {-1, 0},           {kMax / 3, kMax}};
  for (const auto& [low, high] : ranges)
    for (unsigned bits = 1; bits <= 8; ++bits) {
      std::vector<std::uint8_t> codes(std::size_t{1} << bits);
      std::iota(codes.begin(), codes.end(), std::uint8_t{0});
      std::vector<float> y(codes.size());
      kernels::add_codes(codes.data(), low, high, bits, 1, y);
      for (const float value : y) ASSERT_TRUE(value >= low && value <= high) << value;
      EXPECT_EQ(y.front(), low);
      EXPECT_EQ(y.back(), high);
    }
}

// 16 lanes over blocks of 4096; lanes, then blocks, in index order.
template <class Term>
double plain_sum(std::span<const float> x, Term term) {
  double sum = 0;
  for (std::size_t from = 0; from < x.size(); from += 4096) {
    double lanes[16] = {};
    for (std::size_t i = from; i < std::min(from + 4096, x.size()); ++i)
      lanes[i % 16] += term(x[i]);
    sum += std::accumulate(lanes, lanes + 16, 0.0);
  }
  return sum;
}

double plain_spread(float x, float step) {
  const float y = std::abs(x) / step;
  const float f = y < 0x1p24F ? y - std::floor(y) : 0;
  return f * (1 - f);
}

TEST(Levels, SumsEqualTheirPlainTwins) {
  for_inputs([](std::span<const float> x) {
    const double squares = plain_sum(x, [](double v) { return v * v; });
    const double magnitudes = plain_sum(x, [](double v) { return std::abs(v); });
    const double sum = plain_sum(x, [](double v) { return v; });
    on_every_cpu([&](const std::string&) {
      ASSERT_EQ(kernels::sum_of_squares(x), squares);
      ASSERT_EQ(kernels::sum_of_magnitudes(x), magnitudes);
      if (x.size() > 4096) return;
      const kernels::Measures all = kernels::measure_block(x);
      ASSERT_EQ(all.squares, squares);
      ASSERT_EQ(all.magnitudes, magnitudes);
      ASSERT_EQ(all.largest, kernels::largest_magnitude(x));
      const kernels::Measures moments = kernels::moments_of(x);
      ASSERT_EQ(moments.squares, squares);
      ASSERT_EQ(moments.sum, sum);
      ASSERT_EQ(moments.largest, all.largest);
    });
    for (const float step : norms(x)) {
      const double spread = plain_sum(x, [&](float v) { return plain_spread(v, step); });
      on_every_cpu(
          [&](const std::string&) { ASSERT_EQ(kernels::spread(x, step), spread) << step; });
    }
  });
}

TEST(Levels, RangeEqualsItsPlainTwin) {
  for_inputs([](std::span<const float> x) {
    if (x.empty()) return;
    const auto [low, high] = std::ranges::minmax(x);
    const std::vector<float> expected = {low + 0.0F, high + 0.0F};
    on_every_cpu([&](const std::string&) {
      const auto range = kernels::range_of(x);
      ASSERT_TRUE(same_bits(std::vector{range.low, range.high}, expected));
      ASSERT_TRUE(range.finite);
    });
  });
}

// Callers look for NaN and Inf first; should they not, nothing is read or written out of bounds.
TEST(Levels, NanAndInfDoNotCrash) {
  auto x = gaussian(1000);
  x[3] = x[700] = std::numeric_limits<float>::quiet_NaN();
  x[5] = x[999] = -std::numeric_limits<float>::infinity();
  on_every_cpu([&](const std::string&) {
    std::vector<std::int8_t> levels(x.size());
    std::vector<std::uint8_t> codes(x.size());
    kernels::to_levels(x, {1, 7}, 7, Rounding::stochastic, kKey, 0, {levels.data()});
    for (const int level : levels) EXPECT_LE(std::abs(level), 7);
    kernels::to_powers(x, 1, 8, kKey, 0, levels.data());
    for (const int level : levels) EXPECT_LE(std::abs(level), 8);
    kernels::to_codes(x, -1, 1, 3, Rounding::stochastic, kKey, 0, codes.data());
    for (const std::uint8_t code : codes) EXPECT_LE(code, 7);
    kernels::spread(x, 0.1F);
    EXPECT_FALSE(kernels::range_of(x).finite);
  });
}

// ---- signs.h

TEST(Signs, EqualTheirPlainTwins) {
  for_inputs([](std::span<const float> x) {
    std::vector<std::uint8_t> expected((x.size() + 7) / 8);
    for (std::size_t i = 0; i < x.size(); ++i)
      expected[i / 8] |= static_cast<std::uint8_t>((x[i] < 0) << i % 8);
    on_every_cpu([&](const std::string&) {
      std::vector<std::uint8_t> signs(expected.size(), 99);
      kernels::pack_signs(x, signs.data());
      ASSERT_EQ(signs, expected);
    });
    expect_adds(
        x, 0.3F, [&](std::size_t i) { return expected[i / 8] >> i % 8 & 1 ? -0.7F : 0.7F; },
        [&](std::span<float> y) { kernels::add_signs(expected.data(), 0.7F, 0.3F, y); });
  });
}

// ---- Laws. With N draws of known variance V a mean lies within 5 sqrt(V / N).

constexpr std::size_t kDraws = 1 << 20;

std::vector<std::int32_t> levels_of(std::span<const float> x, Scale scale, std::uint64_t seed) {
  LevelArray levels(x.size());
  kernels::to_levels(x, scale, static_cast<std::int32_t>(scale.steps), Rounding::stochastic,
                     Key(seed), 0, levels.span());
  return levels.all();
}

std::vector<std::int8_t> powers_of(std::span<const float> x, float norm, int s,
                                   std::uint64_t seed) {
  std::vector<std::int8_t> levels(x.size());
  kernels::to_powers(x, norm, s, Key(seed), 0, levels.data());
  return levels;
}

TEST(Levels, HaveTheEntryAsTheirMean) {
  for (const float t : {0.01F, 0.125F, -0.3F, 0.5F, 0.77F, -0.999F})
    for (const float steps : {1.0F, 3.0F, 255.0F}) {
      double sum = 0;
      for (const auto level : levels_of(std::vector<float>(kDraws, t), {1, steps}, 11))
        sum += static_cast<double>(level);
      const double y = static_cast<double>(t * steps), f = std::abs(y) - std::floor(std::abs(y));
      EXPECT_NEAR(sum / kDraws, y, 5 * std::sqrt(f * (1 - f) / kDraws)) << t << " " << steps;
    }
}

TEST(Levels, HaveTheSpreadAsTheirVariance) {
  const auto x = gaussian(kDraws, 1);
  for (const float steps : {2.0F, 16.0F, 100.0F}) {
    const Scale scale{8, steps};
    const auto levels = levels_of(x, scale, 12);
    double squares = 0, variance = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double y = std::abs(x[i]) / 8 * steps, f = y - std::floor(y);
      squares += std::pow(std::abs(levels[i]) - y, 2);
      variance += f * (1 - f) * std::pow(1 - 2 * f, 2);  // of f^2 or (1 - f)^2
    }
    EXPECT_NEAR(squares, kernels::spread(x, 8 / steps), 5 * std::sqrt(variance)) << steps;
  }
}

TEST(Levels, CodesHaveTheEntryAsTheirMean) {
  for (const float t : {-0.9F, -0.1F, 0.33F, 1.4F})
    for (const unsigned bits : {1U, 3U, 8U}) {
      std::vector<std::uint8_t> codes(kDraws);
      kernels::to_codes(std::vector<float>(kDraws, t), -1, 1.5F, bits, Rounding::stochastic,
                        Key(13), 0, codes.data());
      std::vector<float> y(kDraws);
      kernels::add_codes(codes.data(), -1, 1.5F, bits, 1, y);
      const double step = 2.5 / ((1 << bits) - 1),
                   mean = std::accumulate(y.begin(), y.end(), 0.0) / kDraws;
      const double place = (t + 1) / step, f = place - std::floor(place);
      EXPECT_NEAR(mean, t, 5 * step * std::sqrt(f * (1 - f) / kDraws) + 1e-6) << t << " " << bits;
    }
}

template <class Level>
std::vector<double> histogram(const std::vector<Level>& levels, int s) {
  std::vector<double> cells(2 * static_cast<std::size_t>(s) + 1);
  for (const auto level : levels) ++cells.at(static_cast<std::size_t>(level + s));
  return cells;
}

// Linear dithering with 2^(s-1) levels, then natural compression of the level.
std::vector<std::int32_t> in_two_steps(std::span<const float> x, float norm, int s) {
  const auto linear = levels_of(x, {norm, std::ldexp(1.0F, s - 1)}, 14);
  const std::vector<float> values(linear.begin(), linear.end());
  std::vector<std::uint8_t> fields(x.size()), signs((x.size() + 7) / 8);
  kernels::natural_encode(values, Rounding::stochastic, Key(15), 0, fields.data(), signs.data());
  std::vector<std::int32_t> levels(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::int32_t level = fields[i] == 0 ? 0 : fields[i] - 127 + 1;
    levels[i] = values[i] < 0 ? -level : level;
  }
  return levels;
}

// Two histograms of as many draws are of one law: chi-square on the cells that are seen.
void expect_same_law(const std::vector<double>& a, const std::vector<double>& b) {
  double chi2 = 0, cells = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] + b[i] < 10) continue;
    chi2 += std::pow(a[i] - b[i], 2) / (a[i] + b[i]);
    ++cells;
  }
  EXPECT_LE(chi2, cells + 5 * std::sqrt(2 * cells));
}

TEST(Levels, PowersHaveTheLawOfNaturalCompressionOfLinearDithering) {
  for (const int s : {1, 2, 3, 5, 8}) {
    SCOPED_TRACE(s);
    for (const float t : {0.003F, 0.07F, 0.26F, 0.7F, -0.9F, 1.0F}) {
      const std::vector<float> x(kDraws / 4, t);
      expect_same_law(histogram(powers_of(x, 1, s, 16), s), histogram(in_two_steps(x, 1, s), s));
    }
    expect_same_law(histogram(powers_of(gaussian(kDraws, 1, 1), 6, s, 17), s),
                    histogram(in_two_steps(gaussian(kDraws, 1, 2), 6, s), s));
  }
}

// x = 1 in all d entries, 1 / sqrt(d) below the lowest level: the relative variance is
// sqrt(d) 2^(1-s) - 1, and sqrt(d) 2^(s-1) entries are expected not to be zero.
TEST(Levels, PowersOfEqualEntriesBelowTheLowestLevel) {
  struct Case {
    float root;
    int s;
    double variance;
  };
  for (const Case& c : {Case{10, 2, 4}, Case{100, 4, 11.5}, Case{1000, 8, 6.8125}}) {
    const std::vector<float> x(kDraws, 1);
    std::vector<float> y(kDraws);
    const auto levels = powers_of(x, c.root, c.s, 18);
    kernels::add_powers(levels.data(), c.root, c.s, 1, y);
    const double p = std::ldexp(1.0, c.s - 1) / static_cast<double>(c.root), value = 1 / p;
    const double sigma = std::sqrt(p * (1 - p) / kDraws);
    const auto zeros = static_cast<double>(std::ranges::count(levels, 0));
    EXPECT_NEAR(1 - zeros / kDraws, p, 5 * sigma);
    EXPECT_NEAR(squared_distance(y, x) / kDraws, c.variance,
                5 * sigma * std::abs(std::pow(value - 1, 2) - 1));
  }
}

// 4^j equal entries with j < s: their share of the norm is a level, so nothing is lost.
TEST(Levels, PowersOfEqualEntriesThatAreALevelAreExact) {
  for (const int s : {1, 4, 9})
    for (int j = 0; j < s; ++j) {
      const std::vector<float> x(std::size_t{1} << 2 * std::min(j, 8), -3.0F);
      const float norm = 3 * std::ldexp(1.0F, j);
      std::vector<float> y(x.size());
      kernels::add_powers(powers_of(x, norm, s, 19).data(), norm, s, 1, y);
      EXPECT_EQ(y, x) << s << " " << j;
    }
}

TEST(Levels, ThatAreNotZeroAndTheLargest) {
  for (const std::size_t count : kLengths)
    for (const unsigned share : {1U, 3U, 200U}) {
      std::mt19937_64 random(count + share);
      std::vector<std::int8_t> small(count);
      std::vector<std::int32_t> wide(count);
      std::vector<std::uint32_t> expected;
      std::uint32_t largest = 0;
      for (std::size_t i = 0; i < count; ++i) {
        if (random() % share != 0) continue;
        const std::int32_t level = static_cast<std::int32_t>(random() % 301) - 150;
        kernels::LevelSpan{small.data(), wide.data()}.set(i, level);
        if (level != 0) expected.push_back(static_cast<std::uint32_t>(i));
        largest = std::max(largest, static_cast<std::uint32_t>(std::abs(level)));
      }
      on_every_cpu([&](const std::string&) {
        std::vector<std::uint32_t> found(count + kernels::kSpareOnes);
        found.resize(kernels::nonzero_levels(small.data(), count, found.data()));
        ASSERT_EQ(found, expected) << count << ' ' << share;
        ASSERT_EQ(kernels::largest_level({small.data(), wide.data()}, count), largest);
      });
    }
}

}  // namespace
}  // namespace laconic::testing

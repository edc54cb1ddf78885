// The bins against a plain twin, the closed form of what they lose, and the message of SparseLoCo.
#include <algorithm>
#include <map>

#include "laconic/base/bytes.h"
#include "tests/support.h"

namespace laconic::testing {
namespace {

using Values = std::vector<float>;

std::string binned(unsigned bits) { return "binned:" + std::to_string(bits); }

std::map<std::string, Values> arrays(std::size_t count) {
  std::map<std::string, Values> all;
  all["gaussian"] = gaussian(count);
  all["binades"] = made_up(count);
  all["heavy tails"] = gaussian(count, 1, 3);
  for (float& value : all["heavy tails"]) value *= value * value;
  all["positive"] = gaussian(count, 1, 4);
  for (float& value : all["positive"]) value = std::abs(value);
  all["constant"] = Values(count, -0.37F);
  all["zero"] = Values(count);
  all["spike"] = Values(count, 1e-6F);
  all["spike"][count / 2] = -100;
  all["mostly zero"] = gaussian(count, 1, 5);
  for (std::size_t i = 0; i < count; ++i)
    if (i % 50 != 0) all["mostly zero"][i] = i % 3 == 0 ? -0.0F : 0.0F;
  all["huge"] = gaussian(count, 1e38F / 4);
  all["subnormal"] = gaussian(count, 1e-42F);
  return all;
}

double mean(const Values& magnitudes) {
  double sum = 0;
  for (const float value : magnitudes) sum += value;
  return magnitudes.empty() ? 0 : sum / static_cast<double>(magnitudes.size());
}

struct Halves {
  Values low, high;
};
Halves cut(const Values& magnitudes, double edge) {
  Halves halves;
  for (const float value : magnitudes) (value > edge ? halves.high : halves.low).push_back(value);
  return halves;
}

// By its definition: the means of a bin that is cut `cuts` times in two, and what is in between.
struct Twin {
  std::vector<double> edges, means;

  Twin(const Values& magnitudes, unsigned cuts) { split(magnitudes, cuts); }

  double decoded(double magnitude) const {
    const auto beyond = std::ranges::lower_bound(edges, magnitude);
    return means[static_cast<std::size_t>(beyond - edges.begin())];
  }

 private:
  void split(const Values& magnitudes, unsigned cuts) {
    if (cuts == 0) return means.push_back(mean(magnitudes));
    double edge = mean(magnitudes);
    for (int round = 0; round < 4; ++round) {
      const auto [low, high] = cut(magnitudes, edge);
      edge = (mean(low) + mean(high)) / 2;
    }
    const auto [low, high] = cut(magnitudes, edge);
    split(low, cuts - 1);
    edges.push_back(edge);
    split(high, cuts - 1);
  }
};

TEST(Binned, DecodesAsThePlainTwinDoes) {
  for (unsigned bits = 1; bits <= 4; ++bits)
    for (const std::size_t count : {1, 2, 3, 64, 5000})
      for (const auto& [name, x] : arrays(count)) {
        SCOPED_TRACE(name + " " + std::to_string(count) + ", bits " + std::to_string(bits));
        Values sides[2];
        for (const float value : x) sides[value < 0].push_back(std::abs(value));
        const Twin above(sides[0], bits - 1), below(sides[1], bits - 1);
        const Values y = through(parse_operator(binned(bits)), x);
        std::size_t strange = 0;
        for (std::size_t i = 0; i < count; ++i)
          strange += y[i] != static_cast<float>(x[i] < 0 ? -below.decoded(-x[i])
                                                         : above.decoded(std::abs(x[i])));
        EXPECT_EQ(strange, 0U);
      }
}

// |x - C(x)|^2 = |x|^2 - sum n mu^2 with n entries of mean mu in a bin; and no bin has both signs,
// so that sum is at least |x|_1^2 / n, which is what `sign` keeps.
TEST(Binned, TheErrorIsItsClosedFormAndAtMostThatOfSign) {
  for (const std::size_t count : {1, 2, 9, 64, 5000})
    for (const auto& [name, x] : arrays(count)) {
      double before = squared_distance(x, through(parse_operator("sign"), x));
      const double rounding =
          1e-6 * squared(x) + static_cast<double>(count) * std::pow(0x1p-149, 2);
      for (unsigned bits = 1; bits <= 4; ++bits) {
        SCOPED_TRACE(name + " " + std::to_string(count) + ", bits " + std::to_string(bits));
        const Values y = through(parse_operator(binned(bits)), x);
        std::map<float, Values> bins;  // by what their entries are decoded as
        for (std::size_t i = 0; i < count; ++i) bins[y[i]].push_back(x[i]);
        EXPECT_LE(bins.size(), 1U << bits);
        double kept = 0;
        for (const auto& [value, bin] : bins) {
          const auto [low, high] = std::ranges::minmax(bin);
          EXPECT_FALSE(low < 0 && high >= 0) << "both signs";
          kept += static_cast<double>(bin.size()) * std::pow(mean(bin), 2);
        }
        const double error = squared_distance(x, y);
        EXPECT_NEAR(error, squared(x) - kept, rounding);
        EXPECT_LE(error, before + rounding) << "a bit more and a worse error";
        before = error;
      }
    }
}

TEST(Binned, AsFewValuesAsBinsAreExact) {
  constexpr float kMost = std::numeric_limits<float>::max(), kTiny = 0x1p-149F;
  for (const Values& values :
       {Values{0}, Values{-3}, Values{kMost}, Values{-kTiny}, Values{-1, 0.1F},
        Values{kMost, -kMost}, Values{0, kTiny, -kMost}, Values{1, 7, -5, -0.5F}}) {
    Values x;
    for (std::size_t i = 0; i < 1000; ++i) x.push_back(values[i % values.size()]);
    EXPECT_EQ(through(parse_operator("binned"), x), x);
  }
}

TEST(Binned, ZerosAreInTheFirstBin) {
  for (unsigned bits = 1; bits <= 4; ++bits)
    for (const float zero : {0.0F, -0.0F}) {
      const auto section = encode(parse_operator(binned(bits)), Values(100, zero));
      EXPECT_EQ(section, std::vector<std::uint8_t>(section.size())) << bits;
      const Values y = through(parse_operator(binned(bits)), Values{zero, -3, 0.5F, 7, 7});
      EXPECT_EQ(y[0], bits == 1 ? 3.625F : bits == 2 ? 0.25F : 0.0F);
    }
}

// 64 positions of 12 bits and 64 codes of 2 bits for each 4096 entries: 112 bytes. Beside them a
// section has the byte in front of the positions, and the table once.
TEST(Binned, AChunkOfSparseLoCoIsOneHundredAndTwelveBytes) {
  const Operator op = parse_operator("chunk:4096,kept=64,fixed+binned:2");
  for (const std::size_t chunks : {1, 2, 10})
    EXPECT_EQ(encode(op, gaussian(4096 * chunks)).size(), 1 + 4 * 4 + 112 * chunks);
}

double lost(const std::string& spec, const Values& x) {
  return squared_distance(x, through(parse_operator(spec), x)) / squared(x);
}

// The entries that a selector keeps, alone.
TEST(Binned, LosesFarLessOfWhatTopKKeepsThanQuantisersOfAsManyBits) {
  for (const char* name : {"gaussian", "heavy tails"}) {
    Values x = through(parse_operator("topk:0.01"), arrays(100000)[name]);
    std::erase(x, 0.0F);
    ASSERT_EQ(x.size(), 1000U);
    EXPECT_LT(lost("binned", x), 0.5 * lost("sign", x)) << name;
    EXPECT_LT(lost("binned", x), 0.25 * lost("uniform:2,nearest", x)) << name;
    EXPECT_LT(lost("binned:4", x), 0.15 * lost("binned", x)) << name;
  }
}

TEST(Binned, MeansThatAreNotFiniteAreRefused) {
  const Operator op = parse_operator("binned");
  for (const float bad : {INFINITY, -INFINITY, NAN})
    for (std::size_t bin = 0; bin < 4; ++bin) {
      auto section = encode(op, gaussian(9));
      store(section.data() + bin * sizeof(float), bad);
      EXPECT_NE(message_of<DataError>([&] { decode(op, section, 9); }).find("allowed: finite"),
                std::string::npos);
    }
}

}  // namespace
}  // namespace laconic::testing

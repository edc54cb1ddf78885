// Selectors and sparse quantisers against their definitions: plain twins that sort, known vectors,
// and the closed forms of what is left out.
#include <algorithm>
#include <numeric>

#include "laconic/codecs/index.h"
#include "tests/support.h"

namespace laconic::testing {
namespace {

using Values = std::vector<float>;
using Chosen = std::vector<std::size_t>;

const Values kPrinted = {5, -1, 0.5F, -7, 2, -6, 0.1F, 3};

struct Input {
  std::string name;
  Values x;
};

std::vector<Input> inputs() {
  constexpr std::size_t kCount = 3000;
  Values negative = gaussian(kCount), spike(kCount), tied(kCount), mostly_zero(kCount), few(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    negative[i] = -std::abs(negative[i]) - 1e-6F;
    tied[i] = (i % 2 ? -0.25F : 0.25F) * static_cast<float>(1 + i % 3);
    if (i % 200 == 7) mostly_zero[i] = negative[i];
    few[i] = i % 200 == 3 ? 0.02F : negative[i];
  }
  spike[1234] = -3;
  return {{"gaussian", gaussian(kCount, 1)},
          {"many magnitudes", made_up(kCount)},
          {"zero", Values(kCount)},
          {"minus zero", Values(kCount, -0.0F)},
          {"constant", Values(kCount, 0.7F)},
          {"all negative", negative},
          {"a spike", spike},
          {"ties", tied},
          {"mostly zero", mostly_zero},
          {"mostly negative", few},
          {"one entry", {-2}},
          {"printed", kPrinted}};
}

// The k positions of largest key(x) above 0, the lowest first among equals, ascending.
template <class Key>
Chosen largest(std::span<const float> x, std::size_t k, Key key) {
  Chosen order(x.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::erase_if(order, [&](std::size_t i) { return !(key(x[i]) > 0); });
  std::ranges::stable_sort(order, [&](auto a, auto b) { return key(x[a]) > key(x[b]); });
  order.resize(std::min(k, order.size()));
  std::ranges::sort(order);
  return order;
}
Chosen largest(std::span<const float> x, std::size_t k) {
  return largest(x, k, [](float value) { return std::abs(value); });
}

Chosen not_below(std::span<const float> x, float least) {
  Chosen chosen;
  for (std::size_t i = 0; i < x.size(); ++i)
    if (std::abs(x[i]) >= least && x[i] != 0) chosen.push_back(i);
  return chosen;
}

Chosen in_runs(std::span<const float> x, std::size_t size, std::size_t kept) {
  Chosen chosen;
  for (std::size_t from = 0; from < x.size(); from += size)
    for (const auto i : largest(x.subspan(from, std::min(size, x.size() - from)), kept))
      chosen.push_back(from + i);
  return chosen;
}

Chosen nonzero(const Values& x) { return not_below(x, 0); }

Values only(const Values& x, const Chosen& chosen) {
  Values y(x.size());
  for (const auto i : chosen) y[i] = x[i];
  return y;
}

// n p / 100 rounded up, in integers.
std::size_t percent(std::size_t p, std::size_t n) {
  return std::min(n, std::max<std::size_t>(1, (n * p + 99) / 100));
}

TEST(Selectors, KeepWhatTheirPlainTwinsKeepAndSendItUnchanged) {
  for (const auto& [name, x] : inputs()) {
    SCOPED_TRACE(name);
    const auto expect = [&x = x](const std::string& spec, const Chosen& chosen) {
      EXPECT_EQ(through(parse_operator(spec), x), only(x, chosen)) << spec;
    };
    for (const std::size_t p : {1, 7, 29, 50, 100})
      expect("topk:" + std::to_string(static_cast<double>(p) / 100),
             largest(x, percent(p, x.size())));
    for (const float v : {0.01F, 0.25F, 0.5F, 0.7F, 3.0F})
      expect("threshold:" + std::to_string(v), not_below(x, v));
    float most = 0;
    for (const float value : x) most = std::max(most, std::abs(value));
    for (const int factor : {1, 2, 4, 1024})
      expect("adaptive:" + std::to_string(factor), not_below(x, most / static_cast<float>(factor)));
    expect("chunk", in_runs(x, 4096, 64));
    expect("chunk:64,kept=4", in_runs(x, 64, 4));
    expect("chunk:7,kept=7", in_runs(x, 7, 7));
    expect("chunk:1000,kept=999", in_runs(x, 1000, 999));
  }
}

TEST(Selectors, AShareIsRoundedUpWithoutBinaryNoise) {
  for (std::size_t p = 1; p <= 100; ++p)
    for (const std::size_t n : {1, 3, 10, 64, 99, 100, 1000, 12300}) {
      const std::string density =
          std::to_string(p / 100) + "." + (p % 100 < 10 ? "0" : "") + std::to_string(p % 100);
      EXPECT_EQ(nonzero(through(parse_operator("topk:" + density), Values(n, 1))).size(),
                percent(p, n))
          << density << " of " << n;
    }
}

TEST(TopK, TheErrorIsTheSumOfTheSmallestSquares) {
  for (const auto& [name, x] : inputs())
    for (const std::size_t p : {1, 7, 50}) {
      Values sorted = x;
      std::ranges::sort(sorted, [](float a, float b) { return std::abs(a) > std::abs(b); });
      const auto k = static_cast<std::ptrdiff_t>(percent(p, x.size()));
      const double rest = squared(std::span(sorted).subspan(static_cast<std::size_t>(k)));
      const Values y =
          through(parse_operator("topk:" + std::to_string(0.01 * static_cast<double>(p))), x);
      EXPECT_NEAR(squared_distance(x, y), rest, 1e-12 * squared(x)) << name << " " << p;
      const auto kept = nonzero(y).size();
      EXPECT_EQ(kept, std::min<std::size_t>(static_cast<std::size_t>(k), nonzero(x).size()));
    }
}

TEST(TopK, OfEqualMagnitudesOneMinusTheShareIsLostAndTheFirstAreKept) {
  for (const std::size_t n : {4, 100, 1000})
    for (const std::size_t p : {25, 50, 75}) {
      Values x(n, 0.5F);
      for (std::size_t i = 0; i < n; i += 3) x[i] = -0.5F;
      const Values y = through(parse_operator("topk:0." + std::to_string(p)), x);
      EXPECT_EQ(squared_distance(x, y), (1 - 0.01 * static_cast<double>(p)) * squared(x));
      for (std::size_t i = 0; i < n; ++i) EXPECT_EQ(y[i], i < n * p / 100 ? x[i] : 0.0F);
    }
}

// How often each entry, and each pair, is among the k chosen of d.
TEST(RandomK, EntriesAndPairsAreChosenEquallyOften) {
  constexpr double kDraws = 20000;
  for (const auto& [d, k, spec] :
       std::vector<std::tuple<std::size_t, std::size_t, std::string>>{{20, 6, "randomk:0.3"},
                                                                      {7, 6, "randomk:0.8"},
                                                                      {65, 1, "randomk:0.001"},
                                                                      {70, 35, "randomk:0.5"}}) {
    SCOPED_TRACE(spec);
    std::vector<std::vector<double>> together(d, std::vector<double>(d));
    for (std::uint64_t step = 0; step < kDraws; ++step) {
      const auto chosen =
          nonzero(through(parse_operator(spec), Values(d, 1), make_keys(1, step, 0)));
      ASSERT_EQ(chosen.size(), k);
      for (const auto i : chosen)
        for (const auto j : chosen) ++together[i][j];
    }
    const auto n = static_cast<double>(d), kept = static_cast<double>(k);
    const double one = kept / n, two = kept * (kept - 1) / (n * (n - 1));
    for (std::size_t i = 0; i < d; ++i)
      for (std::size_t j = 0; j <= i; ++j) {
        const double p = i == j ? one : two;
        EXPECT_NEAR(together[i][j], kDraws * p, 5 * std::sqrt(kDraws * p * (1 - p)))
            << i << " " << j;
      }
  }
}

// E|C(x)|^2 = (d/k)|x|^2: a sum of k squares drawn without replacement, of known variance.
TEST(RandomK, TheSecondMomentIsTheInverseShareTimesTheSquares) {
  constexpr double kDraws = 4000;
  for (const Values& x : {gaussian(50, 1), kPrinted, made_up(200)}) {
    const auto d = static_cast<double>(x.size()), k = std::ceil(0.1 * d * (1 - 1e-12));
    const double mean = squared(x) / d;
    double population = 0, scaled = 0, left = 0, along = 0;
    for (const float value : x) population += std::pow(std::pow(value, 2) - mean, 2) / (d - 1);
    for (std::uint64_t step = 0; step < kDraws; ++step) {
      const Values y = through(parse_operator("randomk:0.1"), x, make_keys(4, step, 0));
      scaled += squared(y);
      along += std::accumulate(y.begin(), y.end(), 0.0) - std::accumulate(x.begin(), x.end(), 0.0);
      left += squared_distance(
          x, through(parse_operator("randomk:0.1,unscaled"), x, make_keys(4, step, 0)));
    }
    const double sigma = std::sqrt(kDraws * k * (1 - k / d) * population);
    const double rounding = 1e-6 * kDraws * d / k * squared(x);
    EXPECT_NEAR(scaled, kDraws * d / k * squared(x), 5 * d * d / (k * k) * sigma + rounding);
    EXPECT_NEAR(left, kDraws * (1 - k / d) * squared(x), 5 * sigma + rounding);
    EXPECT_LE(std::abs(along), 5 * std::sqrt(kDraws * (d / k - 1) * d / (d - 1) * squared(x)));
  }
}

TEST(RandomK, PositionsAreTheSameOnAllRanksOthersInOtherStepsAndSlicesAndNeverSent) {
  const Operator op = parse_operator("randomk:0.1");
  const Values x(1000, 1);
  const auto positions = [&](const Keys& keys) { return nonzero(through(op, x, keys)); };
  const auto here = positions(make_keys(1, 2, 3));
  for (std::uint64_t rank = 0; rank < 20; ++rank) EXPECT_EQ(positions(make_keys(1, 2, rank)), here);
  for (std::uint64_t other = 3; other < 20; ++other) {
    EXPECT_NE(positions(make_keys(1, other, 3)), here);
    EXPECT_NE(positions(make_keys(other, 2, 3)), here);
    EXPECT_NE(positions(make_keys(1, 2, 3).at(1000 * other)), here);
  }
  for (const std::size_t n : {1, 9, 10, 11, 1000, 4097}) {
    const std::size_t k = percent(10, n);
    EXPECT_EQ(encode(op, made_up(n)).size(), 4 * k);
    EXPECT_EQ(encode(parse_operator("randomk:0.1,unscaled"), made_up(n)).size(), 4 * k);
    EXPECT_EQ(encode(parse_operator("randomk:0.1+natural"), made_up(n)).size(), (9 * k + 7) / 8);
  }
}

TEST(Sbc, PrintedVector) {
  const Values y = through(parse_operator("sbc:0.25"), kPrinted);
  EXPECT_EQ(y, (Values{0, 0, 0, -6.5F, 0, -6.5F, 0, 0}));
  Values residual = kPrinted;
  for (std::size_t i = 0; i < y.size(); ++i) residual[i] -= y[i];
  EXPECT_EQ(residual, (Values{5, -1, 0.5F, -0.5F, 2, 0.5F, 0.1F, 3}));
  EXPECT_EQ(through(parse_operator("sbc:0.125"), kPrinted), (Values{0, 0, 0, -7, 0, 0, 0, 0}));
  // Four positive ones: 5, 3, 2, 0.5; but three negative: -7, -6, -1 with the larger mean.
  EXPECT_EQ(through(parse_operator("sbc:0.5"), kPrinted)[5], -14.0F / 3);
  EXPECT_EQ(through(parse_operator("sbc:0.5"), Values{1, -1, 0, 0}), (Values{1, 0, 0, 0}));
}

TEST(Stc, PrintedVector) {
  const float mu = 5.25F;
  EXPECT_EQ(through(parse_operator("stc:0.5"), kPrinted), (Values{mu, 0, 0, -mu, 0, -mu, 0, mu}));
  EXPECT_EQ(through(parse_operator("stc:0.25"), kPrinted),
            (Values{0, 0, 0, -6.5F, 0, -6.5F, 0, 0}));
}

// The side of larger mean, of its own sign, and |x - C(x)|^2 = |x|^2 - |S| mu^2.
TEST(Sbc, SendsTheSideOfLargerMeanAndLosesTheRest) {
  std::vector<Input> all = inputs();
  for (std::uint64_t seed = 0; seed < 200; ++seed)
    all.push_back({"random " + std::to_string(seed), made_up(1 + 3 * seed, seed)});
  for (const auto& [name, x] : all)
    for (const std::size_t p : {1, 5, 25, 50}) {
      SCOPED_TRACE(name + " " + std::to_string(p));
      const std::size_t k = percent(p, x.size());
      const auto up = largest(x, k, [](float v) { return v; });
      const auto down = largest(x, k, [](float v) { return -v; });
      const auto mean = [&x = x](const Chosen& chosen) {
        double sum = 0;
        for (const auto i : chosen) sum += x[i];
        return chosen.empty() ? 0 : sum / static_cast<double>(chosen.size());
      };
      const bool positive = mean(up) >= -mean(down);
      const auto& chosen = positive ? up : down;
      const double mu = mean(chosen);
      const Values y =
          through(parse_operator("sbc:" + std::to_string(0.01 * static_cast<double>(p))), x);
      EXPECT_EQ(nonzero(y), chosen);
      for (const auto i : chosen) EXPECT_NEAR(y[i], mu, 1e-7 * std::abs(mu));
      EXPECT_NEAR(squared_distance(x, y), squared(x) - static_cast<double>(chosen.size()) * mu * mu,
                  1e-6 * squared(x));
    }
}

TEST(Sbc, ASpikeAndAOneSidedVectorLoseLittle) {
  const auto delta = [](const Values& x) {
    return 1 - squared_distance(x, through(parse_operator("sbc:0.01"), x)) / squared(x);
  };
  Values spike(1000);
  spike[500] = 3;
  EXPECT_NEAR(delta(spike), 1, 1e-9);
  for (std::size_t i = 0; i < spike.size(); ++i)
    if (i != 500) spike[i] = -0.001F;  // ten large ones would hold nine of these
  EXPECT_GT(delta(spike), 0.99);
  Values negative(1000);
  for (std::size_t i = 0; i < negative.size(); ++i)
    negative[i] = i % 200 == 0 ? 3.0F : -0.1F * static_cast<float>(i % 7);
  const double share = 5 * 9.0 / squared(negative);  // the five positive ones are all of their side
  EXPECT_NEAR(delta(negative), share, 1e-6);
}

TEST(Stc, IsTopKThenSignBitForBitAndLosesTheRest) {
  for (const auto& [name, x] : inputs())
    for (const std::string p : {"0.01", "0.1", "0.5", "1"}) {
      SCOPED_TRACE(name + " " + p);
      const auto section = encode(parse_operator("stc:" + p), x);
      EXPECT_EQ(section, encode(parse_operator("topk:" + p + "+sign"), x));
      const Values y = decode(parse_operator("stc:" + p), section, x.size());
      const auto chosen =
          largest(x, percent(static_cast<std::size_t>(100 * std::stod(p) + 0.5), x.size()));
      EXPECT_EQ(nonzero(y), chosen);
      double mu = 0;
      for (const auto i : chosen) mu += std::abs(x[i]) / static_cast<double>(chosen.size());
      for (const auto i : chosen) EXPECT_NEAR(y[i], x[i] < 0 ? -mu : mu, 1e-6 * mu);
      EXPECT_NEAR(squared_distance(x, y), squared(x) - static_cast<double>(chosen.size()) * mu * mu,
                  1e-6 * squared(x));
    }
}

std::size_t without_varint(const std::vector<std::uint8_t>& section) {
  std::size_t at = 0;
  while (at < section.size() && section[at] >= 128) ++at;
  return section.size() - std::min(at + 1, section.size());
}

TEST(Selectors, EveryCodeOfPositionsGivesTheSameValuesAndNoneIsSmallerThanAuto) {
  for (const auto& [name, x] : inputs())
    for (const char* spec : {"topk:0.01", "topk:0.5", "threshold:0.25", "adaptive", "adaptive:1024",
                             "chunk:64,kept=4", "chunk", "sbc:0.05", "stc:0.05"}) {
      SCOPED_TRACE(name + " " + spec);
      const auto smallest = encode(parse_operator(spec), x);
      std::size_t least = ~std::size_t{0};
      for (const IndexCodec& codec : index_codecs()) {
        const std::string separator = std::string(spec).find(':') == std::string::npos ? ":" : ",";
        const Operator named = parse_operator(spec + separator + codec.name);
        const auto section = encode(named, x);
        EXPECT_EQ(decode(named, section, x.size()), through(parse_operator(spec), x)) << codec.name;
        least = std::min(least, without_varint(section));
      }
      EXPECT_EQ(without_varint(smallest), least);
    }
}

}  // namespace
}  // namespace laconic::testing

// Layer-wise against entire-model: what is known of each operator without any training run, under
// the layouts themselves. Dutta et al. (arXiv 1911.08250).
#include <algorithm>

#include "laconic/base/bytes.h"
#include "tests/support.h"

namespace laconic::testing {
namespace {

using Values = std::vector<float>;

const Model kExample = {{"A", {2}}, {"B", {2}}};
const Values kEntries = {8, 4, 1, 0.5F};

struct Sent {
  Values values;
  std::vector<std::vector<std::uint8_t>> sections;
};

Sent send(const Plan& plan, const Values& x, std::uint64_t step = 0) {
  Sent sent;
  for (std::size_t i = 0; i < plan.layout.size(); ++i) {
    const Slice& slice = plan.layout[i];
    const Keys keys = make_keys(1, step, 0).at(slice.offset);
    const auto part = std::span(x).subspan(slice.offset, slice.count);
    sent.sections.push_back(encode(plan.op(i), part, keys));
    const auto y = decode(plan.op(i), sent.sections.back(), slice.count, keys);
    EXPECT_EQ(sent.values.size(), slice.offset);
    sent.values.insert(sent.values.end(), y.begin(), y.end());
  }
  return sent;
}

Sent send(const Model& model, const std::string& layout, const std::string& op, const Values& x,
          std::uint64_t step = 0) {
  return send(make_plan(model, layout, parse_operator(op)), x, step);
}

double error(const Model& model, const std::string& layout, const std::string& op,
             const Values& x) {
  return squared_distance(x, send(model, layout, op, x).values);
}

// The variance of rounding to 0 or the norm in each section: norm |x|_1 - |x|^2, and the spread of
// the squared error. The norm is the one that is sent.
struct Moments {
  double variance = 0, spread = 0;
};
Moments two_level(const Model& model, const std::string& layout, const std::string& op,
                  const Values& x) {
  const Plan plan = make_plan(model, layout, parse_operator(op));
  const Sent sent = send(plan, x);
  Moments sum;
  for (std::size_t i = 0; i < plan.layout.size(); ++i) {
    const double norm = load<float>(sent.sections[i].data());
    const Slice& slice = plan.layout[i];
    for (const float value : std::span(x).subspan(slice.offset, slice.count)) {
      const double a = std::abs(static_cast<double>(value)), p = norm > 0 ? a / norm : 0;
      const double second = a * (norm - a);
      sum.variance += second;
      sum.spread += p * std::pow(norm - a, 4) + (1 - p) * std::pow(a, 4) - second * second;
    }
  }
  return sum;
}

void expect_example(const std::string& layout, const std::string& op, double variance) {
  SCOPED_TRACE(op + " " + layout);
  const Moments exact = two_level(kExample, layout, op, kEntries);
  EXPECT_NEAR(exact.variance, variance, 5e-5);
  constexpr int kDraws = 20000;
  const Plan plan = make_plan(kExample, layout, parse_operator(op));
  double seen = 0;
  for (std::uint64_t step = 0; step < kDraws; ++step)
    seen += squared_distance(kEntries, send(plan, kEntries, step).values) / kDraws;
  EXPECT_NEAR(seen, variance, 5 * std::sqrt(exact.spread / kDraws) + 5e-5);
}

TEST(Granularity, WorkedExample) {
  expect_example("tensor", "terngrad", 16.25);
  expect_example("whole", "terngrad", 26.75);
  expect_example("tensor", "qsgd:1", 27.7583);
  expect_example("whole", "qsgd:1", 40.4374);
  EXPECT_EQ(error(kExample, "tensor", "topk:0.5", kEntries), 16.25);
  EXPECT_EQ(error(kExample, "whole", "topk:0.5", kEntries), 1.25);
  EXPECT_EQ(send(kExample, "tensor", "topk:0.5", kEntries).values, (Values{8, 0, 1, 0}));
  EXPECT_EQ(send(kExample, "whole", "topk:0.5", kEntries).values, (Values{8, 4, 0, 0}));
  EXPECT_EQ(send(kExample, "tensor", "adaptive", kEntries).values, kEntries);
  EXPECT_EQ(send(kExample, "whole", "adaptive", kEntries).values, (Values{8, 4, 0, 0}));
}

// Layers of random sizes and scales.
struct Case {
  Model model;
  Values x;
};
Case random_case(std::mt19937_64& random) {
  Case made;
  std::normal_distribution<float> normal;
  const std::uint64_t layers = 1 + random() % 6;
  for (std::uint64_t layer = 0; layer < layers; ++layer) {
    const std::uint64_t count = 1 + random() % 40;
    made.model.push_back({"layer" + std::to_string(layer), {count}});
    const float scale = std::exp2(3 * normal(random));
    for (std::uint64_t i = 0; i < count; ++i)
      made.x.push_back(random() % 9 == 0 ? 0.0F : scale * normal(random));
  }
  return made;
}

template <class Body>
void for_random_cases(Body body) {
  std::mt19937_64 random(1);
  for (int trial = 0; trial < 3000; ++trial) {
    SCOPED_TRACE(trial);
    const Case made = random_case(random);
    body(made.model, made.x);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(Granularity, OneLevelDitheringVariesLessLayerWise) {
  std::size_t less = 0;
  for_random_cases([&](const Model& model, const Values& x) {
    for (const char* op : {"terngrad", "qsgd:1", "dithering:1,1"}) {
      const double layers = two_level(model, "tensor", op, x).variance,
                   whole = two_level(model, "whole", op, x).variance;
      EXPECT_LE(layers, whole * (1 + 1e-6) + 1e-6 * squared(x)) << op;
      less += layers < 0.9 * whole;
    }
  });
  EXPECT_GT(less, 3000U);
}

TEST(Granularity, AnAdaptiveThresholdKeepsMoreLayerWise) {
  std::size_t more = 0;
  for_random_cases([&](const Model& model, const Values& x) {
    const Values layers = send(model, "tensor", "adaptive", x).values,
                 whole = send(model, "whole", "adaptive", x).values;
    for (std::size_t i = 0; i < x.size(); ++i) EXPECT_TRUE(whole[i] == 0 || layers[i] == whole[i]);
    EXPECT_LE(squared_distance(x, layers), squared_distance(x, whole));
    more += layers != whole;
  });
  EXPECT_GT(more, 1000U);
}

// With as many entries in all as the layers keep, each rounded up.
TEST(Granularity, TopKLosesLessOnTheEntireModel) {
  std::size_t less = 0;
  for_random_cases([&](const Model& model, const Values& x) {
    std::size_t total = 0;
    for (const Tensor& tensor : model) total += (tensor.count() + 9) / 10;
    const double density = (static_cast<double>(total) - 0.5) / static_cast<double>(x.size());
    const Values kept = send(model, "whole", "topk:" + std::to_string(density), x).values;
    std::size_t number = 0;
    for (const float value : kept) number += value != 0;
    const auto zeros = static_cast<std::size_t>(std::ranges::count(x, 0.0F));
    EXPECT_EQ(number, std::min(total, x.size() - zeros));
    const double layers = error(model, "tensor", "topk:0.1", x), whole = squared_distance(x, kept);
    EXPECT_LE(whole, layers * (1 + 1e-12));
    less += whole < layers;
  });
  EXPECT_GT(less, 1000U);
}

TEST(Granularity, RandomKHasOneOmegaForAllPartsOfEqualShare) {
  const Operator op = parse_operator("randomk:0.1");
  for (const std::size_t count : {10, 50, 1000, 123450})
    EXPECT_DOUBLE_EQ(op.traits(count).omega.value(), 9);
}

// Same entries, same draws: the draw of an entry is made at its position in the model.
TEST(Granularity, EntryByEntryOperatorsAreEqualUnderEveryLayout) {
  Model large;
  for (std::uint64_t i = 1; i < 12; ++i) large.push_back({"t" + std::to_string(i), {i, 977}});
  const auto expect_equal = [](const Model& model, const Values& x) {
    for (const char* op : {"natural", "natural:nearest", "threshold:0.5", "half:bf16"})
      for (std::uint64_t step = 0; step < 2; ++step) {
        const Values whole = send(model, "whole", op, x, step).values;
        EXPECT_EQ(send(model, "tensor", op, x, step).values, whole) << op;
        EXPECT_EQ(send(model, "fused:64", op, x, step).values, whole) << op;
        EXPECT_EQ(send(model, "split:10", op, x, step).values, whole) << op;
      }
  };
  expect_equal(large, made_up(count_of(large)));
  std::mt19937_64 random(7);
  for (int trial = 0; trial < 200; ++trial) {
    const Case made = random_case(random);
    expect_equal(made.model, made.x);
  }
}

// A bucket draws at its entries' positions, like a slice that begins there.
TEST(Granularity, ABucketIsASliceOfItsOwn) {
  const Model model = {{"a", {1000}}, {"b", {777}}};
  const Values x = made_up(count_of(model));
  for (const std::string op : {"natural", "natural:8", "half", "terngrad", "qsgd:3", "qsgd:100,max",
                               "dithering:4,1", "sign", "uniform:4", "uniform:3,absmax", "grid"})
    EXPECT_EQ(send(model, "whole", "bucket:64+" + op, x).values,
              send(model, "split:64", op, x).values)
        << op;
  EXPECT_EQ(send(model, "whole", "bucket:64+natural", x).values,
            send(model, "whole", "natural", x).values);
}

TEST(Granularity, ARuleSendsTensorsOfOneDimensionAsTheyAre) {
  const Model model = {{"conv.weight", {8, 3, 5, 5}}, {"conv.bias", {8}},
                       {"fc.weight", {30, 20}},       {"fc.bias", {30}},
                       {"norm.scale", {30}},          {"out.weight", {10, 30}}};
  const Values x = gaussian(count_of(model), 1);
  const std::vector<Rule> rules = {parse_rule("max_rank=1,op=identity")};
  for (const char* layout : {"tensor", "whole", "fused:100", "split:64"})
    for (const char* op : {"terngrad", "topk:0.01", "sbc:0.01", "sign"}) {
      SCOPED_TRACE(std::string(layout) + " " + op);
      const Values y = send(make_plan(model, layout, parse_operator(op), rules), x).values;
      std::size_t from = 0;
      for (const Tensor& tensor : model) {
        const auto sent = std::span(y).subspan(from, tensor.count()),
                   was = std::span<const float>(x).subspan(from, tensor.count());
        EXPECT_EQ(std::ranges::equal(sent, was), tensor.shape.size() == 1) << tensor.name;
        from += tensor.count();
      }
    }
}

}  // namespace
}  // namespace laconic::testing

// Bytes that really crossed, beside those of a dense ring all-reduce: what a rank sends, with
// frames of c times the gradient, is 2 (n-1)/n under dense, (n-1) c under gather, 2 (n-1)/n c under
// sharded.
#include "laconic/layout/models.h"
#include "tests/exchange/support.h"
#include "tests/recorded.h"

namespace laconic::testing {
namespace {

const Model kLarge = {
    {"a", {300, 100}}, {"b", {100}}, {"c", {64, 500}}, {"d", {17}}, {"e", {400, 90}}};

struct Costs {
  double total = 0, largest = 0;  // sent by all ranks, and of the one that sends most
  std::vector<StepStats> stats;   // by rank

  // Of a rank, on average, in gradients as they are.
  double egress() const {
    return total / static_cast<double>(stats.size()) / static_cast<double>(stats[0].dense_bytes);
  }
};

// One step of ranks that hold the gradient, each beginning at another entry.
Costs costs_of(const char* exchange, const char* op, int ranks, const Model& model,
               std::span<const float> gradient, const char* layout = "tensor") {
  Costs costs;
  costs.stats.resize(static_cast<std::size_t>(ranks));
  expect_no_errors(on_ranks(ranks, [&](Transport& transport) {
    const auto aggregator = make_aggregator(
        exchange, {.transport = transport,
                   .model = model,
                   .plan = make_plan(model, layout, parse_operator(op)),
                   .memory = exchange == std::string("sparse") ? "feedback" : "none"});
    const auto rank = static_cast<std::size_t>(transport.rank());
    std::vector<float> mine(gradient.begin(), gradient.end());
    std::rotate(mine.begin(), mine.begin() + static_cast<std::ptrdiff_t>(rank * 97 % mine.size()),
                mine.end());
    costs.stats[rank] = aggregator->average(mine, {});
    EXPECT_EQ(costs.stats[rank].traffic_bytes, transport.bytes_sent());
  }));
  for (const StepStats& each : costs.stats) {
    const double sent =
        exchange == std::string("dense") ? floats_of(each, ranks) : sent_of(each, ranks);
    costs.total += sent;
    costs.largest = std::max(costs.largest, sent);
  }
  return costs;
}

// On a recorded gradient, as one tensor. Entropy-coded natural compression takes 4.57 bits of its
// entries, Rice codes of the largest hundredth 8.9 bits of a position.
TEST(Traffic, OfARecordedGradientIsWhatTheTableSays) {
  const auto x = recorded_gradient();
  const Model model = {{"x", {x.size()}}};
  const auto egress = [&](const char* exchange, const char* op, int ranks) {
    return costs_of(exchange, op, ranks, model, x).egress();
  };
  EXPECT_NEAR(egress("dense", "identity", 4), 1.5, 1e-4);
  EXPECT_NEAR(egress("gather", "natural", 4), 0.844, 0.001);  // 3 * 9/32
  EXPECT_NEAR(egress("gather", "natural+entropy", 4), 3 * 4.57 / 32, 0.001);
  EXPECT_NEAR(egress("gather", "topk:0.01,rice", 4), 0.038, 0.0005);
  EXPECT_NEAR(egress("sharded", "natural", 4), 0.422, 0.002);  // 3/2 * 9/32
  // Sums are closer to each other in size than single gradients are.
  EXPECT_LT(egress("sharded", "natural+entropy", 4), 1.5 * 4.57 / 32);
  EXPECT_GT(egress("sharded", "natural+entropy", 4), 0.95 * 1.5 * 4.57 / 32);
  EXPECT_NEAR(egress("sparse", "topk:0.01,rice", 4), 0.019, 0.0015);
  // From eight ranks on, natural compression by gather sends more than the dense ring.
  EXPECT_LT(egress("gather", "natural", 7), egress("dense", "identity", 7));
  EXPECT_NEAR(egress("gather", "natural", 8), 1.97, 0.002);
  EXPECT_NEAR(egress("dense", "identity", 8), 1.75, 1e-4);
  EXPECT_NEAR(egress("sharded", "natural", 8), 1.75 * 9 / 32, 0.005);
}

// Whatever the number of ranks; heads and tables of many slices, and lengths, come on top.
TEST(Traffic, OfManySlicesIsWhatTheTableSays) {
  const auto x = gaussian(count_of(kLarge), 1);
  constexpr double c = 9.0 / 32;
  for (const int n : {2, 4, 8, 16}) {
    const double share = 2.0 * (n - 1) / n;
    const auto egress = [&](const char* exchange, const char* op) {
      return costs_of(exchange, op, n, kLarge, x, "split:500").egress();
    };
    EXPECT_DOUBLE_EQ(egress("dense", "identity"), share);
    EXPECT_NEAR(egress("gather", "natural"), (n - 1) * c, 0.03 * (n - 1) * c);
    EXPECT_NEAR(egress("sharded", "natural"), share * c, 0.05 * share * c);
  }
}

TEST(Traffic, OfShardedDoesNotGrowWithRanks) {
  const auto x = gaussian(count_of(kLarge), 1);
  for (const char* layout : {"split:500", "whole", "tensor"}) {
    const auto frame = costs_of("gather", "natural", 1, kLarge, x, layout).stats[0].wire_bytes;
    for (const int n : {2, 4, 8, 16})
      EXPECT_LT(costs_of("sharded", "natural", n, kLarge, x, layout).largest,
                2.3 * static_cast<double>(frame))
          << n << " ranks, layout " << layout;
  }
}

// Up to 256 ranks: the payload a rank sends up is the same for all, and of what it sends in all the
// rest is heads of frames and their lengths.
TEST(Traffic, PayloadOfShardedIsTheSameFor4And256Ranks) {
  const Model model = {{"x", {8192}}};
  const auto x = gaussian(8192, 1);
  constexpr double kPayload = 8192 * 9 / 8;
  for (const int n : {4, 16, 64, 256}) {
    const Costs costs = costs_of("sharded", "natural", n, model, x);
    const double share = 2.0 * (n - 1) / n;
    for (const StepStats& each : costs.stats) {
      EXPECT_EQ(each.payload_bytes, kPayload);
      const double heads = sent_of(each, n) - share * kPayload;
      EXPECT_GT(heads, 0);
      EXPECT_LT(heads, 2 * (n - 1) * 64);
    }
  }
}

// What one of two ranks really sent in a step, without heads, checksums and vote: 2 (n-1)/n with n
// = 2 is once.
std::uint64_t sent_by_one_of_two(const Model& model, const std::string& exchange,
                                 std::vector<float>& gradient) {
  std::uint64_t sent = 0;
  expect_no_errors(on_ranks(2, [&](Transport& transport) {
    std::vector<float> zeros(transport.rank() == 0 ? 0 : gradient.size());
    const StepStats stats =
        make_aggregator(exchange, {.transport = transport,
                                   .model = model,
                                   .plan = make_plan(model, "tensor", parse_operator("identity"))})
            ->average(transport.rank() == 0 ? gradient : zeros, {});
    EXPECT_EQ(stats.traffic_bytes, transport.bytes_sent());
    if (transport.rank() > 0) return;
    sent = static_cast<std::uint64_t>(floats_of(stats, 2));
    EXPECT_NEAR(static_cast<double>(sent), static_cast<double>(stats.payload_bytes), 64)
        << "odd entries of many units go one way";
  }));
  return sent;
}

// Ratios to a dense ring, which sends the gradient once if two ranks are in it, for ranks 1, 2 and
// 4: all vectors as they are, and of each matrix rank times rows and columns.
void expect_ratios(const char* name, const std::vector<double>& ratios) {
  const Model model = named_model(name);
  std::vector<float> gradient(count_of(model), 0.5F);
  const double dense = 4.0 * static_cast<double>(gradient.size());
  const char* const specs[] = {"powersgd:1", "powersgd:2", "powersgd:4"};
  for (std::size_t i = 0; i < ratios.size(); ++i)
    EXPECT_NEAR(dense / static_cast<double>(sent_by_one_of_two(model, specs[i], gradient)),
                ratios[i], 0.005)
        << name << " " << specs[i];
}

// Vogels et al., table of ResNet-18 on CIFAR-10.
TEST(Traffic, OfPowerSgdIsThatOfThePaper) {
  const Model model = named_model("resnet18-cifar");
  std::vector<float> gradient(count_of(model), 0.5F);
  EXPECT_NEAR(static_cast<double>(sent_by_one_of_two(model, "dense", gradient)),
              4.0 * static_cast<double>(gradient.size()), 64);
  expect_ratios("resnet18-cifar", {243.26, 135.84, 72.13});
}

// Vogels et al., table of the LSTM on WikiText-2.
TEST(Traffic, OfPowerSgdIsThatOfThePaperForTheLstm) {
  expect_ratios("lstm", {309.66, 203.14, 120.35});
}

}  // namespace
}  // namespace laconic::testing

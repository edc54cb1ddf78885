// The ring of partial sums that stay sparse.
#include "tests/exchange/support.h"

namespace laconic::testing {
namespace {

TEST(Sparse, SendsTwoSharesOfAFrameWhateverTheNumberOfRanks) {
  const Model model = {{"w", {100, 400}}};
  for (const int n : {2, 4, 8, 16}) {
    std::vector<StepStats> stats(static_cast<std::size_t>(n));
    expect_no_errors(on_ranks(n, [&](Transport& transport) {
      const auto aggregator = make_aggregator(
          "sparse", {.transport = transport,
                     .model = model,
                     .plan = make_plan(model, "split:100", parse_operator("topk:0.05,fixed")),
                     .memory = "feedback"});
      const auto rank = static_cast<std::size_t>(transport.rank());
      auto gradient = gaussian(count_of(model), 1, rank);
      stats[rank] = aggregator->average(gradient, {});
    }));
    for (const StepStats& each : stats) {
      const double frame = static_cast<double>(each.wire_bytes);
      EXPECT_NEAR(sent_of(each, n) / frame, 2.0 * (n - 1) / n, 0.12) << n;
      EXPECT_EQ(each.payload_bytes, stats[0].payload_bytes);
      EXPECT_EQ(each.down_bytes, stats[0].down_bytes);
    }
  }
}

// Two ranks and one shard each, by hand: rank 0's entries of the second shard pass through rank 1.
TEST(Sparse, KeepsWhatItDropsWhereItIsDropped) {
  const Model model = {{"a", {4}}, {"b", {4}}};
  const std::vector<std::vector<float>> given = {{1, 2, 9, 4, 50, 6, 7, 8},
                                                 {5, 3, 1, 2, 1, 30, 2, 40}};
  std::vector<std::vector<float>> means(2);
  std::vector<State> states(2);
  expect_no_errors(on_ranks(2, [&](Transport& transport) {
    const auto aggregator =
        make_aggregator("sparse", {.transport = transport,
                                   .model = model,
                                   .plan = make_plan(model, "tensor", parse_operator("topk:0.5")),
                                   .memory = "feedback"});
    const auto rank = static_cast<std::size_t>(transport.rank());
    means[rank] = given[rank];
    aggregator->average(means[rank], {});
    states[rank] = aggregator->save();
  }));
  // Shard a starts at rank 1, which sends 5 3; rank 0 makes 6 5 9 4 of it and keeps 6 9 for all.
  // Shard b starts at rank 0, which sends 50 8; rank 1 makes 51 30 2 48 of it and keeps 51 48.
  for (const auto& mean : means)
    EXPECT_EQ(mean, (std::vector<float>{3, 0, 4.5, 0, 25.5, 0, 0, 24}));
  EXPECT_EQ(states[0].at("feedback/a"), (std::vector<float>{0, 5, 0, 4}));
  EXPECT_EQ(states[1].at("feedback/a"), (std::vector<float>{0, 0, 1, 2}));
  EXPECT_EQ(states[0].at("feedback/b"), (std::vector<float>{0, 6, 7, 0}));
  EXPECT_EQ(states[1].at("feedback/b"), (std::vector<float>{0, 30, 2, 0}));
}

TEST(Sparse, UnsuitableSettingsAreRefused) {
  auto ends = make_thread_transports(1);
  const auto refusal = [&](const Job& job) {
    return message_of<UsageError>([&] { make(job, *ends[0]); });
  };
  EXPECT_EQ(refusal({.op = "topk:0.1", .exchange = "sparse"}),
            "exchange 'sparse' leaves with each rank what it drops; allowed: memory feedback, not "
            "'none'");
  EXPECT_EQ(refusal({.op = "randomk:0.6", .memory = "feedback", .exchange = "sparse"}),
            "exchange 'sparse' compresses a sum again at every rank, and 'randomk:0.6' would scale "
            "it every time; allowed: the unscaled form, such as randomk:0.01,unscaled");
}

}  // namespace
}  // namespace laconic::testing

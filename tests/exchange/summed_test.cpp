// The exchange that adds sections without decoding them.
#include "tests/exchange/support.h"

namespace laconic::testing {
namespace {

TEST(Summed, OperatorsThatAddUpAreTold) {
  for (const char* spec : {"identity", "randomk:0.1", "randomk:0.1,unscaled",
                           "randomk:0.1+identity", "shrink+randomk:0.1"})
    EXPECT_TRUE(parse_operator(spec).adds_up()) << spec;
  for (const char* spec :
       {"natural", "topk:0.1", "topk:1", "randomk:0.1+natural", "half", "stc:0.1",
        "identity+entropy", "randomk:0.1,own", "randomk:0.1+bucket:16+terngrad"})
    EXPECT_FALSE(parse_operator(spec).adds_up()) << spec;
}

// The law behind it, for every operator that claims it.
TEST(Summed, SumsOfSectionsAreSectionsOfSums) {
  std::size_t claims = 0;
  for (const std::string& spec : example_specs()) {
    const Operator op = parse_operator(spec);
    if (!op.adds_up()) continue;
    ++claims;
    const std::size_t count = 1000;
    std::vector<float> a(count), b(count), both(count);
    for (std::size_t i = 0; i < count; ++i) {
      a[i] = static_cast<float>(i % 64);
      b[i] = static_cast<float>(i % 17) - 8;
      both[i] = a[i] + b[i];
    }
    const auto of_a = encode(op, a), of_b = encode(op, b, make_keys(1, 2, 7)),
               of_both = encode(op, both);
    ASSERT_EQ(of_a.size(), op.max_size(count)) << spec;
    ASSERT_EQ(of_b.size(), of_a.size()) << spec;
    for (std::size_t at = 0; at < of_a.size(); at += sizeof(float))
      EXPECT_NEAR(load<float>(&of_a[at]) + load<float>(&of_b[at]), load<float>(&of_both[at]), 1e-4)
          << spec;
  }
  EXPECT_GE(claims, 3U);
}

TEST(Summed, OthersAreRefusedInWords) {
  auto ends = make_thread_transports(1);
  EXPECT_EQ(
      message_of<UsageError>([&] { make({.op = "topk:0.01", .exchange = "summed"}, *ends[0]); }),
      "exchange 'summed' needs an operator whose sections can be added, such as randomk:0.01; "
      "'topk:0.01' is none");
}

// Up to the order of additions it is what gather does with frames.
TEST(Summed, GivesTheMeanThatGatherGives) {
  for (const char* op : {"identity", "randomk:0.1", "randomk:0.1,unscaled"})
    for (const char* memory : {"none", "feedback"}) {
      if (!misfit(memory, make_plan(kModel, "tensor", parse_operator(op))).empty()) continue;
      Job job{.op = op, .memory = memory, .exchange = "summed", .ranks = 3};
      const auto summed = means_of(job);
      job.exchange = "gather";
      const auto gathered = means_of(job);
      for (std::uint64_t step = 0; step < job.steps; ++step)
        for (std::size_t i = 0; i < summed[0][step].size(); ++i)
          ASSERT_NEAR(summed[0][step][i], gathered[0][step][i], 1e-4) << text_of(job) << " " << i;
    }
}

TEST(Summed, SendsARingOfTheKeptValuesAndNothingElse) {
  for (const int ranks : {2, 4, 8}) {
    std::vector<double> sent(static_cast<std::size_t>(ranks));
    expect_no_errors(on_ranks(ranks, [&](Transport& transport) {
      auto gradient = gradient_of(transport.rank(), 0);
      const Job job{.op = "randomk:0.1", .exchange = "summed"};
      const StepStats stats = make(job, transport)->average(gradient, {});
      EXPECT_EQ(stats.payload_bytes, 4U * (120 + 4 + 40 + 1));
      EXPECT_EQ(stats.wire_bytes, stats.payload_bytes);
      sent[static_cast<std::size_t>(transport.rank())] = floats_of(stats, ranks);
    }));
    double total = 0;
    for (const double bytes : sent) total += bytes;
    EXPECT_EQ(total, 2.0 * (ranks - 1) * 4 * 165);
  }
}

}  // namespace
}  // namespace laconic::testing

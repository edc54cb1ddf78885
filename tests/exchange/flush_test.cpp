// What is owed at the end is delivered: a plain step with a gradient of zeros, after which nobody
// owes anything.
#include "tests/exchange/support.h"

namespace laconic::testing {
namespace {

// Means over 2^n ranks of whole numbers are exact: all steps and the last, plain one together are
// the mean of all gradients, bit for bit.
TEST(Flush, DeliversAllThatIsOwedInWholeNumbers) {
  const std::vector<Job> jobs = {
      {.op = "topk:0.1", .memory = "feedback"},
      {.op = "topk:0.1", .memory = "feedback", .layout = "whole"},
      {.op = "topk:0.1", .memory = "feedback", .exchange = "sharded"},
      {.op = "topk:0.2",
       .memory = "feedback",
       .exchange = "server",
       .down = "topk:0.1",
       .down_memory = "feedback"},
      {.op = "topk:0.1", .memory = "feedback", .exchange = "sparse"},
      {.op = "randomk:0.2,unscaled", .memory = "feedback", .exchange = "summed"},
      {.op = "topk:0.1", .memory = "feedback:step"},
  };
  for (Job job : jobs)
    for (const int ranks : {1, 2, 4}) {
      job.ranks = ranks;
      SCOPED_TRACE(text_of(job));
      expect_no_errors(on_ranks(ranks, [&](Transport& transport) {
        const auto aggregator = make(job, transport);
        std::vector<float> parameters, delivered(count_of(kModel)), given(delivered.size());
        for (std::uint64_t t = 0; t < job.steps; ++t) {
          auto g = whole_numbers(transport.rank(), t);
          for (int rank = 0; rank < ranks; ++rank) {
            const auto one = whole_numbers(rank, t);
            for (std::size_t i = 0; i < one.size(); ++i)
              given[i] += one[i] / static_cast<float>(ranks);
          }
          aggregator->average(g, info_of(t, parameters));
          for (std::size_t i = 0; i < g.size(); ++i) delivered[i] += g[i];
        }
        EXPECT_NE(delivered, given);
        EXPECT_TRUE(aggregator->owes());
        std::vector<float> owed(given.size());
        StepInfo info = info_of(job.steps, parameters);
        info.plain = true;
        const StepStats stats = aggregator->average(owed, info);
        EXPECT_EQ(stats.lane, Lane::dense);
        EXPECT_EQ(stats.payload_bytes, given.size() * 4);
        for (std::size_t i = 0; i < owed.size(); ++i) delivered[i] += owed[i];
        EXPECT_EQ(delivered, given);
        EXPECT_EQ(aggregator->residual_norm(), 0);
        aggregator->average(owed, info);  // of what it brought itself nothing is owed
        auto nothing = std::vector<float>(owed.size());
        aggregator->average(nothing, info);
        EXPECT_EQ(nothing, std::vector<float>(owed.size()));
        auto g = whole_numbers(transport.rank(), 99);  // and steps go on as the recipe says
        EXPECT_EQ(aggregator->average(g, info_of(job.steps + 1, parameters)).lane, Lane::recipe);
      }));
    }
}

TEST(Flush, NothingIsOwedWhereNothingIsRemembered) {
  auto ends = make_thread_transports(1);
  for (const auto& [job, owes] : {std::pair<Job, bool>{{.op = "natural"}, false},
                                  {{.op = "identity", .exchange = "dense"}, false},
                                  {{.op = "topk:0.1", .memory = "ef21"}, false},
                                  {{.op = "topk:0.1", .memory = "dgc"}, true},
                                  {{.op = "identity", .exchange = "powersgd"}, true}}) {
    SCOPED_TRACE(text_of(job));
    EXPECT_EQ(make(job, *ends[0])->owes(), owes);
  }
}

TEST(Flush, AStepOverSomeTensorsIsNotPlain) {
  auto ends = make_thread_transports(1);
  const auto aggregator = make({.memory = "feedback"}, *ends[0]);
  const std::size_t first[] = {0};
  EXPECT_EQ(message_of<UsageError>([&] { aggregator->begin({.plain = true}, first); }),
            "a step over some tensors is to be plain; allowed: over all");
}

}  // namespace
}  // namespace laconic::testing

// Laws that every registered exchange keeps, with every pair of operator and memory it takes.
#include "tests/exchange/jobs.h"

namespace laconic::testing {
namespace {

TEST(ExchangeLaws, EveryRankGetsTheSameMeanBitForBit) {
  for (const int ranks : {1, 2, 3, 4, 5, 8})
    for (Job job : all_jobs(ranks)) {
      job.steps = 3;
      expect_same_means(job);
    }
}

// On slices long enough that threads share them.
TEST(ExchangeLaws, ThreadsChangeNothing) {
  for (Job job : all_jobs(2)) {
    if (job.layout != "tensor") continue;
    job.model = kLargeModel;
    job.steps = 2;
    const auto means = means_of(job);
    EXPECT_EQ(means[1], means[0]) << text_of(job);
    job.threads = 3;
    EXPECT_EQ(means_of(job), means) << text_of(job);
  }
}

TEST(ExchangeLaws, WithoutCompressionTheMeanIsTheTrueMean) {
  for (const ExchangeInfo& exchange : exchanges())
    for (const int ranks : {1, 3, 4}) {
      if (compresses_itself(exchange.name)) continue;
      const Job job{.op = exchange.name == "sparse" ? "topk:1" : "identity",
                    .memory = exchange.name == "sparse" ? "feedback" : "none",
                    .exchange = exchange.name,
                    .ranks = ranks,
                    .steps = 2};
      SCOPED_TRACE(text_of(job));
      const auto means = means_of(job);
      for (std::uint64_t step = 0; step < job.steps; ++step) {
        const auto mean = true_mean(ranks, step);
        for (std::size_t i = 0; i < mean.size(); ++i)
          ASSERT_NEAR(means[0][step][i], mean[i], 1e-5) << i;
      }
    }
}

TEST(ExchangeLaws, NanAndInfRollTheStepBackOnEveryRank) {
  const float nan = NAN, inf = -INFINITY;
  for (const Job& job : all_jobs(3)) {
    SCOPED_TRACE(text_of(job));
    const auto states = states_after(job, nullptr);
    EXPECT_EQ(states_after(job, &nan), states);
    EXPECT_EQ(states_after(job, &inf), states);
  }
}

TEST(ExchangeLaws, SavedAndLoadedStateGoesOnAsIfNothingHadHappened) {
  for (const Job& job : all_jobs(3))
    expect_no_errors(on_ranks(job.ranks, [&](Transport& transport) {
      const auto straight = make(job, transport);
      auto resumed = make(job, transport);
      std::vector<float> parameters;
      for (std::uint64_t step = 0; step < 4; ++step) {
        const StepInfo info = info_of(step, parameters);
        auto a = gradient_of(transport.rank(), step), b = a;
        straight->average(a, info);
        resumed->average(b, info);
        EXPECT_EQ(a, b) << text_of(job) << " in step " << step;
        const Buffer state = write_state(resumed->save());
        resumed = make(job, transport);
        resumed->load(read_state(state.view()));
      }
    }));
}

TEST(ExchangeLaws, AForeignStateIsRefusedAndChangesNothing) {
  for (const Job& job : all_jobs(2))
    expect_no_errors(on_ranks(job.ranks, [&](Transport& transport) {
      const auto aggregator = make(job, transport);
      std::vector<float> parameters;
      auto gradient = gradient_of(transport.rank(), 0);
      aggregator->average(gradient, info_of(0, parameters));
      const State before = aggregator->save();
      State extra = before;
      extra["strange/w1"] = {1, 2, 3};
      EXPECT_THROW(aggregator->load(extra), DataError) << text_of(job);
      EXPECT_EQ(aggregator->save(), before) << text_of(job);
      if (before.empty()) return;
      State missing = before, longer = before;
      missing.erase(missing.begin());
      longer.begin()->second.push_back(0);
      for (const State& state : {missing, longer}) {
        EXPECT_THROW(aggregator->load(state), DataError) << text_of(job);
        EXPECT_EQ(aggregator->save(), before) << text_of(job);
      }
    }));
}

// One step that fails on this rank: memory is as before it.
void expect_a_failure_without_trace(Aggregator& aggregator, int rank, std::uint64_t step) {
  std::vector<float> parameters;
  auto gradient = gradient_of(rank, step);
  const State state = aggregator.save();
  try {
    aggregator.average(gradient, info_of(step, parameters));
  } catch (const TransportError&) {
    EXPECT_EQ(aggregator.save(), state);
    throw;
  }
}

// At every message of a step, and ranks that fall silent: faults_test.cpp.
TEST(ExchangeLaws, ARankThatLeavesEndsAllWithASentence) {
  for (const Job& job : all_jobs(3)) {
    SCOPED_TRACE(text_of(job));
    const auto errors = on_ranks(job.ranks, [&](Transport& transport) {
      const auto aggregator = make(job, transport);
      std::vector<float> parameters;
      auto gradient = gradient_of(transport.rank(), 0);
      aggregator->average(gradient, info_of(0, parameters));
      if (transport.rank() == 1) throw std::runtime_error("gone");
      expect_a_failure_without_trace(*aggregator, transport.rank(), 1);
    });
    EXPECT_EQ(errors[1], "gone");
    for (const std::size_t rank : {0U, 2U}) {
      EXPECT_EQ(errors[rank].find("transport: rank "), 0U) << errors[rank];
      EXPECT_NE(errors[rank].find(" has left while rank "), std::string::npos) << errors[rank];
    }
  }
}

}  // namespace
}  // namespace laconic::testing

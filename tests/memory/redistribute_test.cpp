// States that outlive a change of the number of ranks.
#include <set>

#include "tests/exchange/support.h"

namespace laconic::testing {
namespace {

std::string role_of(const std::string& name) { return name.substr(0, name.find('/')); }

std::string operator_for(const MemoryInfo& info) {
  return info.wants_unbiased ? "natural" : "topk:0.1";
}

// Redistribution knows of a role by its registration alone.
TEST(Redistribute, EveryRoleIsRegistered) {
  const auto expect_known = [](const std::vector<StateRole>& roles, const State& state) {
    std::set<std::string> known, seen;
    for (const StateRole& role : roles) known.insert(role.name);
    for (const auto& [name, values] : state) seen.insert(role_of(name));
    EXPECT_TRUE(std::ranges::includes(known, seen)) << state.begin()->first;
    return seen;
  };
  auto ends = make_thread_transports(1);
  std::vector<float> parameters;
  for (const MemoryInfo& info : memories()) {
    std::set<std::string> seen;
    for (const std::string& memory : info.examples) {
      const auto aggregator = make({.op = operator_for(info), .memory = memory}, *ends[0]);
      for (std::uint64_t step = 0; step < 2; ++step) {
        seen.merge(expect_known(info.roles, aggregator->save()));
        auto gradient = gradient_of(0, step);
        aggregator->average(gradient, info_of(step, parameters));
      }
    }
    EXPECT_EQ(seen.size(), info.roles.size()) << info.name;
  }
  for (const ExchangeInfo& info : exchanges()) {
    const bool sparse = info.name == "sparse";
    const Job job{.op = "identity", .memory = sparse ? "feedback" : "none", .exchange = info.name};
    State state = make(job, *ends[0])->save();
    // Of the memory that an exchange has, or was given.
    std::erase_if(state, [](auto& entry) { return role_of(entry.first) == "feedback"; });
    EXPECT_EQ(expect_known(info.roles, state).size(), info.roles.size()) << info.name;
  }
}

// Everything that was owed before the change is paid or owed after it, in whole numbers: n times
// what was delivered, with n as it was then.
TEST(Redistribute, WhatIsOwedStaysOwed) {
  const std::vector<Job> jobs = {
      {.op = "topk:0.1", .memory = "feedback"},
      {.op = "topk:0.1", .memory = "feedback", .layout = "whole", .exchange = "sharded"},
      {.op = "topk:0.1", .memory = "feedback", .exchange = "sharded"},
      {.op = "topk:0.1", .memory = "feedback", .exchange = "sparse"},
      {.op = "topk:0.1", .memory = "feedback", .exchange = "server", .down_memory = "feedback"},
      {.op = "identity", .exchange = "server", .down = "topk:0.05", .down_memory = "feedback"},
      {.op = "randomk:0.1,unscaled", .memory = "feedback", .exchange = "summed"},
      {.op = "identity", .exchange = "powersgd"},
      {.op = "identity", .exchange = "arc:0.1"},
  };
  for (Job job : jobs)
    for (const auto& [from, to] : {std::pair(1, 3), {4, 2}, {3, 8}, {8, 1}, {2, 5}, {5, 3}}) {
      const bool selects = job.exchange != "powersgd";
      std::vector<State> states;
      Ledger ledger;
      job.steps = 3;
      job.ranks = from;
      run(job, 0, states, ledger, selects);
      states = redistribute(states, to);
      ASSERT_EQ(states.size(), static_cast<std::size_t>(to));
      if (job.exchange != "sharded" && job.exchange != "server") {
        EXPECT_LE(ledger.gap(states), selects ? 0 : 0.05) << text_of(job) << " to " << to;
      }
      job.ranks = to;
      run(job, 3, states, ledger, selects);
      EXPECT_LE(ledger.gap(states), selects ? 0 : 0.05) << text_of(job) << " from " << from;
    }
}

std::vector<State> states_of(const Job& job) {
  std::vector<State> states;
  Ledger ledger;
  run(job, 0, states, ledger);
  return states;
}

TEST(Redistribute, TheSameNumberOfRanksChangesNothing) {
  for (const MemoryInfo& info : memories()) {
    const Job job{.op = operator_for(info),
                  .memory = info.examples[0],
                  .exchange = info.wants_unbiased ? "gather" : "sharded",
                  .ranks = 3};
    const auto states = states_of(job);
    EXPECT_EQ(redistribute(states, 3), states) << info.name;
  }
}

// Debts stay with somebody and keep their sum; momentum is each rank's estimate of one thing, and
// every rank goes on from the mean.
TEST(Redistribute, MomentumBecomesTheMean) {
  const Job job{.op = "topk:0.1", .memory = "dgc:0.5", .ranks = 4};
  const auto states = states_of(job);
  std::vector<double> mean(count_of(kModel)), owed = mean;
  for (const State& state : states) {
    add_kept(state, Kept::mean, mean);
    add_kept(state, Kept::sum, owed);
  }
  for (double& value : mean) value /= 4;
  EXPECT_GT(std::ranges::count_if(mean, [](double value) { return value != 0; }), 1000);
  for (const int to : {1, 2, 3, 8}) {
    std::vector<double> still_owed(owed.size());
    for (const State& state : redistribute(states, to)) {
      std::vector<double> momentum(mean.size());
      add_kept(state, Kept::mean, momentum);
      EXPECT_EQ(momentum, mean) << to;
      add_kept(state, Kept::sum, still_owed);
    }
    EXPECT_EQ(still_owed, owed) << to;
  }
}

TEST(Redistribute, WhatAllRanksHaveInCommonIsCopied) {
  const auto states = states_of({.op = "topk:0.1", .memory = "gmc", .ranks = 3});
  for (const State& state : redistribute(states, 5))
    EXPECT_EQ(state.at("gmc.parameters/w1"), states[2].at("gmc.parameters/w1"));
}

// Every rank's h becomes their mean, which is what all ranks keep of it; a gradient that stands
// still then arrives as a whole, also where owners of shards owed some of the mean.
TEST(Redistribute, Ef21StillFindsTheMean) {
  for (const char* exchange : {"gather", "sharded", "auto"})
    for (const int to : {1, 2, 5}) {
      SCOPED_TRACE(exchange + std::string(" to ") + std::to_string(to));
      const auto states = redistribute(
          states_of({.op = "topk:0.2", .memory = "ef21", .exchange = exchange, .ranks = 6}), to);
      expect_no_errors(on_ranks(to, [&](Transport& transport) {
        const auto aggregator =
            make({.op = "topk:0.2", .memory = "ef21", .exchange = exchange}, transport);
        aggregator->load(states[static_cast<std::size_t>(transport.rank())]);
        const auto mean = true_mean(to, 0);
        std::vector<float> gradient;
        for (std::uint64_t step = 0; step < 60; ++step) {
          gradient = gradient_of(transport.rank(), 0);
          aggregator->average(gradient, {.step = step});
        }
        for (std::size_t i = 0; i < mean.size(); ++i) ASSERT_NEAR(gradient[i], mean[i], 1e-3) << i;
      }));
    }
}

TEST(Redistribute, StatesOfDifferentRunsAreRefused) {
  const auto data_error = [](const std::vector<State>& states) {
    return message_of<DataError>([&] { redistribute(states, 3); });
  };
  const State state{{"feedback/a", {1, 2}}};
  EXPECT_EQ(data_error({state, {{"feedback/b", {1, 2}}}}),
            "the states of rank 0 and rank 1 are not of the same memory and model");
  EXPECT_EQ(data_error({state, {{"feedback/a", {1}}}}),
            "the states' arrays 'feedback/a' differ in length");
  EXPECT_EQ(data_error({{{"strange/a", {1, 2}}}}),
            "the state has 'strange/a', which no memory or exchange remembers");
  EXPECT_EQ(data_error({{{"down.strange/a", {1, 2}}}}),
            "the state has 'strange/a', which no memory or exchange remembers");
  // What was given out is to be loaded and saved first: it has the owners' debts once per rank.
  const auto twice = redistribute({{{"down.feedback/a", {1, 2}}}, {}}, 3);
  EXPECT_EQ(twice[2].at("down.all.feedback/a"), (std::vector<float>{1, 2}));
  EXPECT_EQ(data_error({twice[0], twice[1]}),
            "the state has 'down.all.feedback/a', which no memory or exchange remembers");
  EXPECT_EQ(message_of<UsageError>([&] { redistribute({state}, 0); }),
            "0 ranks; allowed: 1 and more");
  EXPECT_EQ(message_of<UsageError>([&] { redistribute({}, 2); }),
            "states of 0 ranks; allowed: 1 and more");
}

}  // namespace
}  // namespace laconic::testing

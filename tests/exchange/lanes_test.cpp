// Whatever lane a step takes, all ranks have the same mean and nothing is lost.
#include "tests/exchange/records.h"
#include "tests/exchange/support.h"

namespace laconic::testing {
namespace {

Job replayed(Job job, const File& file, std::uint64_t steps) {
  job.guard = {.mode = GuardOptions::Mode::replay, .file = file.path};
  job.steps = steps;
  return job;
}

double owed(const std::vector<State>& states) {
  std::vector<double> sum(count_of(kModel));
  for (State state : states) {
    for (auto& [name, values] : state)
      for (float& value : values) value = std::abs(value);
    add_kept(state, Kept::sum, sum);
  }
  double all = 0;
  for (const double value : sum) all += value;
  return all;
}

// |mean - x|^2 / |x|^2 of a step whose gradients have this mean x.
double error_of(std::span<const float> mean, const Job& job, std::uint64_t step) {
  const auto exact = true_mean(job.ranks, step);
  double lost = 0, all = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const double difference = static_cast<double>(mean[i]) - exact[i];
    lost += difference * difference;
    all += exact[i] * exact[i];
  }
  return lost / all;
}

// In whole numbers, exactly, through every change; and after a step that goes as it is nobody owes
// anything.
TEST(Lanes, LoseNothing) {
  const std::vector<Job> jobs = {
      {.op = "topk:0.1", .memory = "feedback"},
      {.op = "topk:0.1", .memory = "feedback", .layout = "whole"},
      {.op = "topk:0.1", .memory = "feedback", .exchange = "sharded"},
      {.op = "topk:0.1", .memory = "feedback", .exchange = "auto", .ranks = 5},
      {.op = "topk:0.1", .memory = "feedback", .exchange = "sparse"},
      {.op = "topk:0.1", .memory = "feedback", .exchange = "server", .down_memory = "feedback"},
      {.op = "randomk:0.2,unscaled", .memory = "feedback", .exchange = "summed"}};
  const File file(script({"recipe", "dense", "recipe", "recipe", "dense", "recipe", "dense"}));
  for (const Job& job : jobs)
    for (const std::uint64_t steps : {4, 6, 7}) {
      std::vector<State> states;
      Ledger ledger;
      run(replayed(job, file, steps), 0, states, ledger, true);
      EXPECT_EQ(ledger.gap(states), 0) << text_of(job) << " after " << steps;
      EXPECT_EQ(owed(states) == 0, steps == 7) << text_of(job) << " after " << steps;
    }
}

TEST(Lanes, Of16BitsLoseNothingWhereOwnersRemember) {
  const File file(script({"recipe", "half", "recipe", "half", "dense"}));
  const Job job{.op = "topk:0.1", .memory = "feedback", .exchange = "sharded"};
  for (const std::uint64_t steps : {2, 4, 5}) {
    std::vector<State> states;
    Ledger ledger;
    run(replayed(job, file, steps), 0, states, ledger);
    EXPECT_LE(ledger.gap(states), 0.05) << steps;
    EXPECT_EQ(owed(states) == 0, steps == 5) << steps;
  }
}

TEST(Lanes, OfFactorsLoseNothing) {
  const File file(script({"recipe", "dense", "recipe", "dense"}));
  for (const std::uint64_t steps : {3, 4}) {
    std::vector<State> states;
    Ledger ledger;
    run(replayed({.op = "identity", .exchange = "powersgd"}, file, steps), 0, states, ledger);
    EXPECT_LE(ledger.gap(states), 0.05) << steps;
  }
}

// By its cheaper operator a slice keeps what the recipe's promises, and what that leaves is owed.
TEST(Lanes, OfCheaperOperatorsLoseNothing) {
  const File file(script({"recipe", "light", "recipe", "light", "dense"}));
  for (const char* exchange : {"gather", "sharded", "server"}) {
    Job job{.op = "natural:nearest+entropy", .memory = "feedback", .exchange = exchange};
    if (job.exchange == "server") job.down_memory = "feedback";
    for (const std::uint64_t steps : {2, 4, 5}) {
      std::vector<State> states;
      Ledger ledger;
      run(replayed(job, file, steps), 0, states, ledger);
      EXPECT_LE(ledger.gap(states), 0.05) << text_of(job) << " after " << steps;
      EXPECT_EQ(owed(states) == 0, steps == 5) << text_of(job) << " after " << steps;
    }
  }
}

// Powers of two of whole numbers leave whole numbers: nothing is lost, not even by rounding.
TEST(Lanes, OfSmallerOperatorsLoseNothing) {
  const File file(script({"recipe", "tight", "recipe", "tight", "half", "tight", "dense"}));
  const File exact(script({"recipe", "tight", "recipe", "tight", "tight", "recipe", "dense"}));
  for (const char* op : {"natural:nearest", "natural"})
    for (const char* exchange : {"gather", "sharded", "server"}) {
      Job job{.op = op, .memory = "feedback", .exchange = exchange};
      if (job.exchange == "server") job.down_memory = "feedback";
      const bool whole = job.op == "natural:nearest" && job.exchange == "gather";
      const bool takes_half = job.exchange == "sharded";
      for (const std::uint64_t steps : {2, 4, 7}) {
        std::vector<State> states;
        Ledger ledger;
        run(replayed(job, takes_half ? file : exact, steps), 0, states, ledger, whole);
        EXPECT_LE(ledger.gap(states), whole ? 0 : 0.05) << text_of(job) << " after " << steps;
        EXPECT_EQ(owed(states) == 0, steps == 7) << text_of(job) << " after " << steps;
      }
    }
}

// The same values in fewer bytes: a coder changes nothing else.
TEST(Lanes, OfTheSameValuesGiveTheSameMeans) {
  const File tight(script({"recipe", "tight", "tight"})), recipe(script({"recipe"}));
  for (const char* exchange : {"gather", "sharded", "server"}) {
    const Job job{.op = "natural:nearest", .memory = "feedback", .exchange = exchange};
    EXPECT_EQ(means_of(replayed(job, tight, 3)), means_of(replayed(job, recipe, 3))) << exchange;
  }
}

// The mean's error, too, which strata make smaller than any rank's.
TEST(Lanes, OfSmallerOperatorsKeepThePromise) {
  const File file(script({"recipe", "tight"}));
  for (const char* op : {"natural", "natural:8", "natural+entropy"})
    for (const char* memory : {"none", "diana"})
      for (const char* exchange : {"gather", "sharded", "server", "auto"}) {
        const Job job =
            replayed({.op = op, .memory = memory, .exchange = exchange, .ranks = 5}, file, 2);
        if (job.memory == "diana" && job.exchange != "gather" && job.exchange != "auto") continue;
        const auto means = means_of(job);
        for (const auto& other : means) EXPECT_EQ(other, means[0]) << text_of(job);
        EXPECT_GT(error_of(means[0][1], job, 1), 0) << text_of(job);
        EXPECT_LE(error_of(means[0][1], job, 1), 2.5 * error_of(means[0][0], job, 0))
            << text_of(job);  // of one draw each
      }
}

// Rules, which give tensors operators of their own, keep what has no smaller one.
TEST(Lanes, OfSmallerOperatorsGoByTensor) {
  const File file(script({"tight"})), recipe(script({"recipe"}));
  const auto bytes = [](const File& lanes, const std::vector<std::string>& rules) {
    std::uint64_t sent = 0;
    expect_no_errors(on_ranks(2, [&](Transport& transport) {
      auto setup = setup_of(replayed({.op = "natural", .ranks = 2}, lanes, 1), transport);
      std::vector<Rule> parsed;
      for (const std::string& rule : rules) parsed.push_back(parse_rule(rule));
      setup.plan = make_plan(kModel, "tensor", parse_operator("natural"), parsed);
      const auto aggregator = make_aggregator("gather", setup);
      auto gradient = gradient_of(transport.rank(), 0);
      const StepStats stats = aggregator->average(gradient, {});
      if (transport.rank() == 0) sent = stats.payload_bytes;
    }));
    return sent;
  };
  const std::vector<std::string> rules = {"name=b*,op=identity"};
  EXPECT_LT(bytes(file, rules) + 600, bytes(recipe, rules));
  EXPECT_GT(bytes(file, rules), bytes(file, {}) + 100);
}

TEST(Lanes, OfSmallerOperatorsAreNotEverywhere) {
  const File file(script({"tight"}));
  const auto refusal = [&](const Job& job) {
    std::string all;
    for (const std::string& error :
         on_ranks(2, [&](Transport& transport) { make(replayed(job, file, 1), transport); }))
      all += error + "\n";
    return all;
  };
  const Job jobs[] = {{.op = "grid", .ranks = 2},
                      {.op = "topk:0.1+natural", .ranks = 2},
                      {.op = "identity", .ranks = 2},
                      {.op = "sign", .memory = "feedback", .ranks = 2},
                      {.op = "natural", .warmup = "identity", .ranks = 2}};
  for (const Job& job : jobs)
    EXPECT_NE(refusal(job).find("lane 'tight' is none of this recipe's"), std::string::npos)
        << text_of(job) << ": " << refusal(job);
  EXPECT_EQ(refusal({.op = "natural", .ranks = 2}), "\n\n");
}

TEST(Lanes, OfCheaperOperatorsKeepThePromise) {
  const File file(script({"recipe", "light"}));
  for (const char* op : {"natural+entropy", "grid", "bucket:512+terngrad"})
    for (const char* exchange : {"gather", "sharded", "auto"}) {
      const Job job = replayed({.op = op, .exchange = exchange, .ranks = 5}, file, 2);
      const auto means = means_of(job);
      for (const auto& other : means) EXPECT_EQ(other, means[0]) << text_of(job);
      EXPECT_GT(error_of(means[0][1], job, 1), 0) << text_of(job);
      EXPECT_LE(error_of(means[0][1], job, 1), 2 * error_of(means[0][0], job, 0))
          << text_of(job);  // of one draw each
    }
}

TEST(Lanes, OfCheaperOperatorsAreNotEverywhere) {
  const File file(script({"light"}));
  for (const char* op : {"natural", "topk:0.1+natural", "identity"})
    for (const std::string& error : on_ranks(2, [&](Transport& transport) {
           make(replayed({.op = op, .ranks = 2}, file, 1), transport);
         }))
      EXPECT_NE(error.find("lane 'light' is none of this recipe's"), std::string::npos)
          << op << ": " << error;
}

// Every memory: all ranks have the same mean, and where nothing but the gradient is remembered a
// step that goes as it is brings the mean gradient.
TEST(Lanes, GoWithEveryMemory) {
  const File file(script({"recipe", "dense", "half", "dense"}));
  const File without_half(script({"recipe", "dense", "recipe", "dense"}));
  for (const std::string memory :
       {"none", "feedback", "feedback:step", "dgc", "gmc", "ef21", "diana"})
    for (const std::string exchange : {"gather", "sharded"}) {
      const bool adds_up =
          memory == "diana";  // and takes no lane that drops anything on its way back
      if (adds_up && exchange == "sharded") continue;
      const Job job =
          replayed({.op = adds_up ? "natural" : "topk:0.1", .memory = memory, .exchange = exchange},
                   adds_up ? without_half : file, 5);
      const auto means = means_of(job);
      for (const auto& other : means) EXPECT_EQ(other, means[0]) << text_of(job);
      if (memory != "ef21" && memory != "none" && memory != "diana") continue;
      const auto exact = true_mean(job.ranks, 1);
      for (std::size_t i = 0; i < exact.size(); ++i)
        ASSERT_NEAR(static_cast<double>(means[0][1][i]), exact[i], 1e-5) << text_of(job) << i;
    }
}

struct Traces {
  std::vector<std::vector<float>> means;
  std::vector<std::uint64_t> traffic;
  std::vector<std::string> record;
  friend bool operator==(const Traces&, const Traces&) = default;
};

Traces traces_of(const Job& job) {
  std::vector<Traces> all(static_cast<std::size_t>(job.ranks));
  expect_no_errors(on_ranks(job.ranks, [&](Transport& transport) {
    const auto aggregator = make(job, transport);
    Traces& own = all[static_cast<std::size_t>(transport.rank())];
    std::vector<float> parameters;
    for (std::uint64_t step = 0; step < job.steps; ++step) {
      auto gradient = gradient_of(transport.rank(), step);
      own.traffic.push_back(aggregator->average(gradient, info_of(step, parameters)).traffic_bytes);
      own.means.push_back(gradient);
      for (auto& line : aggregator->take_guard_record()) own.record.push_back(std::move(line));
    }
  }));
  for (const Traces& other : all) {
    EXPECT_EQ(other.means, all[0].means);
    EXPECT_EQ(other.record, all[0].record);
  }
  return all[0];
}

TEST(Lanes, AreReplayedByteForByte) {
  Job job{.op = "topk:0.1", .memory = "feedback", .steps = 80, .guard = kGuardOn};
  const Traces first = traces_of(job);
  EXPECT_FALSE(first.record.empty());
  const File file(first.record);
  job = replayed(job, file, job.steps);
  Traces again = traces_of(job);
  again.record = first.record;
  EXPECT_EQ(again, first);
}

TEST(Lanes, OfSmallerOperatorsAreReplayedByteForByte) {
  const File file(
      script({"recipe", "tight", "tight", "half", "tight", "recipe", "dense", "tight"}));
  for (const char* exchange : {"gather", "sharded"}) {
    const Job job =
        replayed({.op = "natural", .memory = "feedback", .exchange = exchange}, file, 10);
    const Traces first = traces_of(job);
    EXPECT_EQ(traces_of(job), first);
    EXPECT_LT(2 * first.traffic[1], first.traffic[0]) << exchange;  // nothing else is as small
  }
}

// Of every step, with its probe where it has one; less than the step took.
TEST(Lanes, TellWhatTheGuardTakes) {
  for (const bool guarded : {true, false}) {
    const auto errors = on_ranks(2, [&](Transport& transport) {
      Job job{.op = "natural", .ranks = 2};
      if (guarded) job.guard = kGuardOn;
      const auto aggregator = make(job, transport, 60);
      for (std::uint64_t step = 0; step < 6; ++step) {
        auto gradient = gradient_of(transport.rank(), step);
        const Stopwatch watch;
        const StepStats stats = aggregator->average(gradient, {.step = step});
        EXPECT_EQ(stats.guard_seconds > 0, guarded);
        EXPECT_LT(stats.guard_seconds, watch.time());
        if (step < 4) {
          EXPECT_EQ(stats.probe_bytes > 0, guarded && step > 0);
        }
      }
    });
    expect_no_errors(errors);
  }
}

// Whoever differs is told, and nothing is committed.
TEST(Lanes, AreTheSameOnAllRanks) {
  const File file(script({"dense"}));
  const auto errors = on_ranks(2, [&](Transport& transport) {
    Job job = replayed({.op = "identity", .ranks = 2}, file, 1);
    if (transport.rank() == 1) job.guard.mode = GuardOptions::Mode::report;
    auto gradient = gradient_of(transport.rank(), 0);
    make(job, transport, 60)->average(gradient, {});
  });
  for (const auto& error : errors) EXPECT_NE(error, "");
}

}  // namespace
}  // namespace laconic::testing

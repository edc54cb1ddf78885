// Nothing is lost: what was delivered and what is still owed is what was given, under every
// exchange that takes a pair of operator and memory.
#include <set>

#include "tests/exchange/support.h"

namespace laconic::testing {
namespace {

bool is_taken(const Job& job) {
  auto ends = make_thread_transports(1);
  try {
    make(job, *ends[0]);
    return true;
  } catch (const UsageError&) {  // refused in words: exchange_pairs_test.cpp
    return false;
  }
}

// This operator and memory under every exchange that takes them, where what an exchange's way back
// drops is remembered too.
std::vector<Job> jobs_of(const std::string& op, const std::string& memory, int ranks,
                         std::uint64_t steps = 4) {
  std::vector<Job> jobs;
  for (const ExchangeInfo& exchange : exchanges()) {
    Job job{
        .op = op,
        .memory = memory,
        .exchange = exchange.name,
        .down_memory = exchange.has_way_back && memory.starts_with("feedback") ? memory : "none",
        .ranks = ranks,
        .steps = steps};
    if (is_taken(job)) jobs.push_back(job);
  }
  return jobs;
}

// A way back without a memory drops for good.
bool forgets(const Job& job) { return job.exchange == "server" && job.down_memory == "none"; }

double gap_after(const Job& job, bool selects) {
  std::vector<State> states;
  Ledger ledger;
  run(job, 0, states, ledger, selects);
  return ledger.gap(states);
}

std::string stage_of(const std::string& spec) { return spec.substr(0, spec.find_first_of(":+")); }

// In whole numbers, exactly: n times a mean is one, once the rounding of 1/n is taken off. One
// chain of each stage on every number of ranks, the others, which differ in how they write
// positions, on one.
TEST(Conservation, IsExactWhereEntriesAreOnlySelected) {
  std::set<std::string> stages;
  for (const std::string& op : example_specs()) {
    if (!selects_only(op) || jobs_of(op, "feedback", 1).empty()) continue;
    const bool first = stages.insert(stage_of(op)).second;
    for (const int ranks : first ? std::vector{1, 2, 3, 4, 5, 8} : std::vector{3}) {
      const auto jobs = jobs_of(op, "feedback", ranks);
      EXPECT_GE(jobs.size(), 4U) << op << ": gather, sharded, server, sparse";
      for (const Job& job : jobs) EXPECT_EQ(gap_after(job, true), 0) << text_of(job);
    }
  }
  for (const char* stage : {"identity", "topk", "randomk", "threshold", "adaptive", "chunk"})
    EXPECT_TRUE(stages.contains(stage)) << stage;
}

TEST(Conservation, HoldsUpToRoundingForEveryOperator) {
  for (const std::string& op : example_specs()) {
    if (selects_only(op)) continue;
    for (const Job& job : jobs_of(op, "feedback", 3)) {
      // Sums of some thousands in float32, a few roundings in each step.
      EXPECT_LE(gap_after(job, false), 0.05) << text_of(job);
    }
  }
}

TEST(Conservation, HoldsWhereTheExchangeRemembersItself) {
  for (const int ranks : {1, 2, 3, 4, 5, 8})
    for (const Job& job : jobs_of("identity", "none", ranks)) {
      if (forgets_what_it_drops(job.exchange)) continue;
      EXPECT_LE(gap_after(job, false), 0.05) << text_of(job);
    }
}

// What is owed when the operator changes is not lost, whoever owes it; and the warm-up is followed.
TEST(Conservation, SurvivesTheEndOfAWarmUp) {
  for (Job job : jobs_of("randomk:0.1,unscaled", "feedback", 4)) {
    const auto at = std::ranges::find(exchanges(), job.exchange, &ExchangeInfo::name);
    if (!at->follows_warmup) continue;
    const auto without = means_of(job);
    for (const char* warmup : {"identity", "randomk:0.5,unscaled"}) {
      job.warmup = warmup;
      EXPECT_EQ(gap_after(job, true), 0) << text_of(job);
      EXPECT_NE(means_of(job)[0][0], without[0][0]) << text_of(job);
    }
  }
}

// One step of all ranks.
struct Step {
  int ranks;
  std::span<const State> before;
  std::vector<double> gradients, sum;  // over ranks; n times the mean
  std::vector<float> parameters, previous;
};

// What a memory promises: which sums of what a step was given and delivered differ by what is owed.
struct Invariant {
  std::string spec;
  double tolerance;  // 0, or rounding: sums of some thousands in float32
  void (*add)(const Step& step, Ledger& ledger);
  int bits = 24;  // of the numbers that are kept
  // Whether what owners of sums owe is owed once, not in every step anew.
  bool both_ways = true;
};

constexpr double kLr = 0.5;  // of info_of

void add_plain(const Step& step, Ledger& ledger) {
  for (std::size_t i = 0; i < step.sum.size(); ++i) {
    ledger.given[i] += step.gradients[i];
    ledger.delivered[i] += step.sum[i];
  }
}

template <int kHalvings>
void add_decayed(const Step& step, Ledger& ledger) {
  for (std::size_t i = 0; i < step.sum.size(); ++i) {
    ledger.given[i] = std::ldexp(ledger.given[i], -kHalvings) + step.gradients[i];
    ledger.delivered[i] = std::ldexp(ledger.delivered[i], -kHalvings) + step.sum[i];
  }
}

void add_in_steps(const Step& step, Ledger& ledger) {
  for (std::size_t i = 0; i < step.sum.size(); ++i) {
    ledger.given[i] += kLr * step.gradients[i];
    ledger.delivered[i] += kLr * step.sum[i];
  }
}

// u before masking is m times what was kept of it, and the gradient.
void add_momentum(const Step& step, Ledger& ledger) {
  std::vector<double> u(step.sum.size());
  for (const State& state : step.before) add_kept(state, Kept::mean, u);
  for (std::size_t i = 0; i < u.size(); ++i) {
    ledger.given[i] += 0.5 * u[i] + step.gradients[i];
    ledger.delivered[i] += step.sum[i];
  }
}

// Every rank adds the model's movement to its own gradient.
void add_movement(const Step& step, Ledger& ledger) {
  for (std::size_t i = 0; i < step.sum.size(); ++i) {
    const double moved =
        step.previous.empty() ? 0 : static_cast<double>(step.parameters[i]) - step.previous[i];
    ledger.given[i] += step.gradients[i] - step.ranks * 0.5 / kLr * moved;
    ledger.delivered[i] += step.sum[i];
  }
}

const std::vector<Invariant> kInvariants = {
    {"feedback", 0, add_plain},
    {"feedback:0.5", 0.01, add_decayed<1>},
    {"feedback:0.25", 0.01, add_decayed<2>},
    {"feedback:step", 0.01, add_in_steps},
    {"feedback:bf16", 0.01, add_plain, 8},
    {"dgc:0.5", 0.01, add_momentum},
    {"gmc:0.5", 0.01, add_movement},
    {"econtrol:0.5", 0.01, add_plain, 24, false},  // h is handed out again in every step
};

bool two_way(const Job& job) { return job.exchange == "server" || job.exchange == "sharded"; }

double gap_after(const Job& job, const Invariant& invariant) {
  const auto n = static_cast<std::size_t>(job.ranks);
  std::vector<State> states(n);
  std::vector<float> mean(count_of(kModel)), previous;
  Ledger ledger;
  for (std::uint64_t step = 0; step < job.steps; ++step) {
    const auto before = states;
    Step now{.ranks = job.ranks,
             .before = before,
             .gradients = std::vector<double>(mean.size()),
             .sum = {},
             .parameters = {},
             .previous = previous};
    info_of(step, now.parameters);
    expect_no_errors(on_ranks(job.ranks, [&](Transport& transport) {
      const auto aggregator = make(job, transport);
      State& state = states[static_cast<std::size_t>(transport.rank())];
      if (step > 0) aggregator->load(state);
      std::vector<float> own;
      auto gradient = whole_numbers(transport.rank(), step);
      aggregator->average(gradient, info_of(step, own));
      state = aggregator->save();
      if (transport.rank() == 0) mean = gradient;
    }));
    for (int rank = 0; rank < job.ranks; ++rank) {
      const auto given = whole_numbers(rank, step);
      for (std::size_t i = 0; i < given.size(); ++i) now.gradients[i] += given[i];
    }
    for (const float value : mean) now.sum.push_back(job.ranks * static_cast<double>(value));
    invariant.add(now, ledger);
    if (invariant.bits < 24) ledger.note_rounding(states, invariant.bits);
    previous = now.parameters;
  }
  return ledger.gap(states);
}

TEST(Conservation, HoldsForEveryMemoryAsItIsStated) {
  for (const Invariant& invariant : kInvariants) {
    for (const int ranks : {1, 2, 4}) {
      const auto jobs = jobs_of("topk:0.1", invariant.spec, ranks);
      EXPECT_GE(jobs.size(), 2U) << invariant.spec;
      for (const Job& job : jobs) {
        if (forgets(job) || (!invariant.both_ways && two_way(job))) continue;
        EXPECT_LE(gap_after(job, invariant), invariant.tolerance) << text_of(job);
      }
    }
  }
}

// ef21 owes nothing: n times what was handed out is the sum of all h, but for what owners of shards
// still owe.
TEST(Conservation, Ef21HandsOutTheMeanOfAllH) {
  for (const int ranks : {1, 2, 3, 4, 5, 8})
    for (const Job& job : jobs_of("topk:0.2", "ef21", ranks)) {
      if (forgets(job)) continue;
      std::vector<State> states(static_cast<std::size_t>(ranks));
      std::vector<float> mean;
      expect_no_errors(on_ranks(ranks, [&](Transport& transport) {
        const auto aggregator = make(job, transport);
        std::vector<float> gradient;
        for (std::uint64_t step = 0; step < job.steps; ++step) {
          gradient = whole_numbers(transport.rank(), step);
          aggregator->average(gradient, {.step = step});
        }
        states[static_cast<std::size_t>(transport.rank())] = aggregator->save();
        if (transport.rank() == 0) mean = gradient;
      }));
      std::vector<double> h(mean.size()), owed(mean.size());
      for (const State& state : states) {
        add_kept(state, Kept::mean, h);
        add_kept(state, Kept::sum, owed);
      }
      for (std::size_t i = 0; i < h.size(); ++i)
        ASSERT_NEAR(ranks * static_cast<double>(mean[i]) + owed[i], h[i], 0.01) << text_of(job);
    }
}

// diana owes nothing: what ranks keep of each other is the mean of all h.
TEST(Conservation, DianaKeepsTheMeanOfAllH) {
  for (const int ranks : {1, 2, 3, 5})
    for (const Job& job : jobs_of("randomk:0.8", "diana", ranks)) {
      EXPECT_TRUE(!two_way(job)) << text_of(job);
      std::vector<State> states(static_cast<std::size_t>(ranks));
      expect_no_errors(on_ranks(ranks, [&](Transport& transport) {
        const auto aggregator = make(job, transport);
        for (std::uint64_t step = 0; step < job.steps; ++step) {
          auto gradient = whole_numbers(transport.rank(), step);
          aggregator->average(gradient, {.step = step});
        }
        states[static_cast<std::size_t>(transport.rank())] = aggregator->save();
      }));
      std::vector<double> h(count_of(kModel)), mean = h;
      for (const State& state : states) {
        add_kept(state, Kept::mean, h);
        add_kept(state, Kept::same, mean);
      }
      std::size_t learnt = 0;
      for (std::size_t i = 0; i < h.size(); ++i) {
        ASSERT_NEAR(mean[i], h[i], 0.01) << text_of(job);
        learnt += h[i] != 0;
      }
      EXPECT_GT(learnt, h.size() / 2);
    }
}

// A memory that is added here is proven here.
TEST(Conservation, EveryMemoryHasItsInvariant) {
  for (const MemoryInfo& info : memories()) {
    const auto of_it = [&](const Invariant& i) {
      return i.spec.substr(0, i.spec.find(':')) == info.name;
    };
    const bool elsewhere =  // promises nothing; above
        info.name == "none" || info.name == "ef21" || info.name == "diana";
    EXPECT_TRUE(elsewhere || std::ranges::any_of(kInvariants, of_it)) << info.name;
  }
}

}  // namespace
}  // namespace laconic::testing

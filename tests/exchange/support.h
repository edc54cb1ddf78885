// What tests of exchanges share: ranks as threads, their gradients, a run as a value.
#pragma once

#include <algorithm>

#include "laconic/exchange/vote.h"
#include "tests/ranks.h"

namespace laconic::testing {

inline const Model kModel = {{"w1", {40, 30}}, {"b1", {40}}, {"w2", {10, 40}}, {"b2", {10}}};

// Slices that several threads share, whether they are cut in halves or not: a piece is 65536
// entries.
inline const Model kLargeModel = {{"w", {300, 1000}}, {"b", {300}}};

inline std::vector<float> gradient_of(int rank, std::uint64_t step, const Model& model = kModel) {
  return gaussian(count_of(model), 1, 1000 * step + static_cast<std::uint64_t>(rank));
}

// Whole numbers, whose sums have no rounding where entries are only selected.
inline std::vector<float> whole_numbers(int rank, std::uint64_t step) {
  std::vector<float> x(count_of(kModel));
  const Key key = Key(step).fork(static_cast<std::uint64_t>(rank));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(key.bits(i) % 2001) - 1000;
  return x;
}

// The same on every rank, and never still.
inline StepInfo info_of(std::uint64_t step, std::vector<float>& parameters,
                        const Model& model = kModel) {
  parameters = gaussian(count_of(model), 1, 5000 + step);
  return {.step = step, .lr = 0.5F, .parameters = parameters};
}

// A method over a model, and how long it runs.
struct Job {
  std::string op = "natural", memory = "none", layout = "tensor", exchange = "gather";
  std::string down = "", down_memory = "none";
  std::string warmup = "";  // the operator of the first two steps, if another
  int ranks = 4;
  std::uint64_t steps = 5;
  unsigned threads = 1;
  Model model = kModel;
  GuardOptions guard = {};
  bool strata = true;
};

inline std::string text_of(const Job& job) {
  return job.exchange + " " + job.op + " " + job.memory + " " + job.layout + " down '" + job.down +
         "' " + job.down_memory + " warm-up '" + job.warmup + "' on " + std::to_string(job.ranks);
}

inline Setup setup_of(const Job& job, Transport& transport, double timeout_seconds = 3600) {
  Setup setup{.transport = transport,
              .model = job.model,
              .plan = make_plan(job.model, job.layout, parse_operator(job.op)),
              .memory = job.memory,
              .down_memory = job.down_memory,
              .seed = 9,
              .strata = job.strata,
              .timeout_seconds = timeout_seconds,
              .threads = job.threads,
              .guard = job.guard};
  if (!job.down.empty()) setup.down = make_plan(job.model, job.layout, parse_operator(job.down));
  if (!job.warmup.empty())
    setup.warmup = {
        {.until = 2, .plan = make_plan(job.model, job.layout, parse_operator(job.warmup))}};
  return setup;
}

inline std::unique_ptr<Aggregator> make(const Job& job, Transport& transport,
                                        double timeout_seconds = 3600) {
  return make_aggregator(job.exchange, setup_of(job, transport, timeout_seconds));
}

// Whether an exchange compresses in a way of its own, and whether it forgets what that drops.
inline bool compresses_itself(const std::string& exchange) {
  const std::string name = exchange.substr(0, exchange.find(':'));
  return name != "dense" && std::ranges::find(exchanges(), name, &ExchangeInfo::name)->own_form;
}
inline bool forgets_what_it_drops(const std::string& exchange) {
  if (!compresses_itself(exchange)) return false;
  const auto ends = make_thread_transports(1);
  return make({.op = "identity", .exchange = exchange}, *ends[0])->save().empty();
}

// What a rank has sent of a step's frames or values, without heads of messages and without the
// vote.
inline double sent_of(const StepStats& stats, int ranks) {
  const auto votes = static_cast<std::uint64_t>(ranks - 1);
  return static_cast<double>(stats.traffic_bytes - votes * kBallotBytes -
                             stats.messages * kMessageHead);
}

// Of that, the floats of a step that sends sums: half of its messages, votes apart, are checksums.
inline double floats_of(const StepStats& stats, int ranks) {
  const auto votes = static_cast<std::uint64_t>(ranks - 1);
  return sent_of(stats, ranks) - 4.0 * static_cast<double>(stats.messages - votes) / 2;
}

// means[rank][step]
inline std::vector<std::vector<std::vector<float>>> means_of(const Job& job) {
  std::vector<std::vector<std::vector<float>>> means(static_cast<std::size_t>(job.ranks));
  expect_no_errors(on_ranks(job.ranks, [&](Transport& transport) {
    const auto aggregator = make(job, transport);
    std::vector<float> parameters;
    for (std::uint64_t step = 0; step < job.steps; ++step) {
      auto gradient = gradient_of(transport.rank(), step, job.model);
      EXPECT_TRUE(aggregator->average(gradient, info_of(step, parameters, job.model)).finite);
      means[static_cast<std::size_t>(transport.rank())].push_back(gradient);
    }
  }));
  return means;
}

// Adds a state's arrays of this kind, entry by entry; what owners of shards owe are debts.
inline void add_kept(const State& state, Kept kept, std::vector<double>& sum) {
  const auto is = [&](const std::string& role) {
    if (role.starts_with("down.")) return kept == Kept::sum;
    const auto known = [&](const auto& infos) {
      return std::ranges::any_of(infos, [&](const auto& info) {
        return std::ranges::any_of(info.roles, [&](const StateRole& known_role) {
          return known_role.name == role && known_role.kept == kept;
        });
      });
    };
    return known(memories()) || known(exchanges());
  };
  std::size_t offset = 0;
  for (const Tensor& tensor : kModel) {
    for (const auto& [name, values] : state)
      if (name.ends_with("/" + tensor.name) && is(name.substr(0, name.find('/'))))
        for (std::size_t i = 0; i < values.size(); ++i) sum[offset + i] += values[i];
    offset += tensor.count();
  }
}

// What all ranks together were given and, n times the mean each, were handed out.
struct Ledger {
  std::vector<double> given = std::vector<double>(count_of(kModel)), delivered = given;
  std::vector<double> rounding = given;  // what memories may have lost by keeping fewer bits

  // The states were just rounded to so many bits.
  void note_rounding(std::vector<State> states, int bits) {
    for (State& state : states) {
      for (auto& [name, values] : state)
        for (float& value : values) value = std::ldexp(std::abs(value), -bits);
      add_kept(state, Kept::sum, rounding);
    }
  }

  // The largest gap between what was given and what was delivered or is still owed.
  double gap(const std::vector<State>& states) const {
    std::vector<double> sum = delivered;
    for (const State& state : states) add_kept(state, Kept::sum, sum);
    double most = 0;
    for (std::size_t i = 0; i < sum.size(); ++i)
      most = std::max(most, std::abs(given[i] - sum[i]) - rounding[i]);
    return most;
  }
};

// Steps of whole numbers from these states on, which become those after them. Where entries are
// only selected, n times a mean is a whole number too, but for the rounding of 1/n.
inline void run(const Job& job, std::uint64_t first, std::vector<State>& states, Ledger& ledger,
                bool selects_only = false) {
  states.resize(static_cast<std::size_t>(job.ranks));
  expect_no_errors(on_ranks(job.ranks, [&](Transport& transport) {
    const auto aggregator = make(job, transport);
    State& state = states[static_cast<std::size_t>(transport.rank())];
    if (!state.empty()) aggregator->load(state);
    std::vector<float> parameters;
    for (std::uint64_t step = first; step < first + job.steps; ++step) {
      auto gradient = whole_numbers(transport.rank(), step);
      aggregator->average(gradient, info_of(step, parameters));
      if (transport.rank() > 0) continue;
      for (std::size_t i = 0; i < gradient.size(); ++i) {
        const double sum = job.ranks * static_cast<double>(gradient[i]);
        const double delivered = selects_only ? std::nearbyint(sum) : sum;
        ASSERT_NEAR(sum, delivered, 0.1) << text_of(job);
        ledger.delivered[i] += delivered;
      }
      for (int rank = 0; rank < job.ranks; ++rank) {
        const auto given = whole_numbers(rank, step);
        for (std::size_t i = 0; i < given.size(); ++i) ledger.given[i] += given[i];
      }
    }
    state = aggregator->save();
  }));
}

// Whether an operator sends entries as they are or not at all.
inline bool selects_only(const std::string& spec) {
  std::vector<float> x(3000);
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = (i % 3 == 0 ? -1.0F : 1.0F) * static_cast<float>(1000003 + 7 * i);
  const auto y = through(parse_operator(spec), x);
  for (std::size_t i = 0; i < x.size(); ++i)
    if (y[i] != 0 && y[i] != x[i]) return false;
  return true;
}

inline std::vector<double> true_mean(int ranks, std::uint64_t step) {
  std::vector<double> mean(count_of(kModel));
  for (int rank = 0; rank < ranks; ++rank) {
    const auto gradient = gradient_of(rank, step);
    for (std::size_t i = 0; i < mean.size(); ++i)
      mean[i] += gradient[i] / static_cast<double>(ranks);
  }
  return mean;
}

inline void expect_same_means(const Job& job) {
  SCOPED_TRACE(text_of(job));
  const auto means = means_of(job);
  for (const auto& other : means) EXPECT_EQ(other, means[0]);
}

// Each rank's state after three steps; `bad` in one entry of one rank's gradient comes in between.
inline std::vector<State> states_after(const Job& job, const float* bad) {
  std::vector<State> states(static_cast<std::size_t>(job.ranks));
  expect_no_errors(on_ranks(job.ranks, [&](Transport& transport) {
    const auto aggregator = make(job, transport);
    std::vector<float> parameters;
    for (std::uint64_t step = 0; step < 3; ++step) {
      const StepInfo info = info_of(step, parameters);
      if (bad && step == 1) {
        auto gradient = gradient_of(transport.rank(), step);
        if (transport.rank() == job.ranks - 1) gradient[700] = *bad;
        EXPECT_FALSE(aggregator->average(gradient, info).finite);
        EXPECT_FALSE(std::ranges::all_of(gradient, [](float x) { return std::isfinite(x); }))
            << "the mean tells it too, on every rank";
      }
      auto gradient = gradient_of(transport.rank(), step);
      EXPECT_TRUE(aggregator->average(gradient, info).finite);
    }
    states[static_cast<std::size_t>(transport.rank())] = aggregator->save();
  }));
  return states;
}

}  // namespace laconic::testing

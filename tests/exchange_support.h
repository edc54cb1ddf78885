// What tests of exchanges share: ranks as threads, their gradients, a run as a value.
#pragma once

#include <algorithm>

#include "ranks.h"

namespace laconic::testing {

inline const Model kModel = {{"w1", {40, 30}}, {"b1", {40}}, {"w2", {10, 40}}, {"b2", {10}}};

inline std::vector<float> gradient_of(int rank, std::uint64_t step) {
  return gaussian(count_of(kModel), 1, 1000 * step + static_cast<std::uint64_t>(rank));
}

// The same on every rank, and never still.
inline StepInfo info_of(std::uint64_t step, std::vector<float>& parameters) {
  parameters = gaussian(count_of(kModel), 1, 5000 + step);
  return {.step = step, .lr = 0.5F, .parameters = parameters};
}

// A method over kModel, and how long it runs.
struct Job {
  std::string op = "natural", memory = "none", layout = "tensor", exchange = "gather";
  std::string down = "", down_memory = "none";
  std::string warmup = "";  // the operator of the first two steps, if another
  int ranks = 4;
  std::uint64_t steps = 5;
  unsigned threads = 1;
};

inline std::string text_of(const Job& job) {
  return job.exchange + " " + job.op + " " + job.memory + " " + job.layout + " down '" + job.down +
         "' " + job.down_memory + " warm-up '" + job.warmup + "' on " + std::to_string(job.ranks);
}

inline std::unique_ptr<Aggregator> make(const Job& job, Transport& transport,
                                        double timeout_seconds = 60) {
  Setup setup{.transport = transport,
              .model = kModel,
              .plan = make_plan(kModel, job.layout, parse_operator(job.op)),
              .memory = job.memory,
              .down_memory = job.down_memory,
              .seed = 9,
              .timeout_seconds = timeout_seconds,
              .threads = job.threads};
  if (!job.down.empty()) setup.down = make_plan(kModel, job.layout, parse_operator(job.down));
  if (!job.warmup.empty())
    setup.warmup = {
        {.until = 2, .plan = make_plan(kModel, job.layout, parse_operator(job.warmup))}};
  return make_aggregator(job.exchange, std::move(setup));
}

// means[rank][step]
inline std::vector<std::vector<std::vector<float>>> means_of(const Job& job) {
  std::vector<std::vector<std::vector<float>>> means(static_cast<std::size_t>(job.ranks));
  expect_no_errors(on_ranks(job.ranks, [&](Transport& transport) {
    const auto aggregator = make(job, transport);
    std::vector<float> parameters;
    for (std::uint64_t step = 0; step < job.steps; ++step) {
      auto gradient = gradient_of(transport.rank(), step);
      EXPECT_TRUE(aggregator->average(gradient, info_of(step, parameters)).finite);
      means[static_cast<std::size_t>(transport.rank())].push_back(gradient);
    }
  }));
  return means;
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

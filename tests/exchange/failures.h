// What tests of lost ranks share, in threads (faults_test.cpp) and in processes (mpi/killed.cpp).
#pragma once

#include "tests/exchange/support.h"

namespace laconic::testing {

// One job of each exchange, with a memory if it takes one.
inline std::vector<Job> one_of_each(int ranks) {
  std::vector<Job> jobs;
  auto ends = make_thread_transports(1);
  for (const ExchangeInfo& exchange : exchanges()) {
    const std::size_t before = jobs.size();
    for (const auto& [op, memory] : {std::pair("topk:0.1", "feedback"),
                                     {"randomk:0.1,unscaled", "feedback"},
                                     {"identity", "none"}}) {
      const Job job{.op = op,
                    .memory = memory,
                    .exchange = exchange.name,
                    .down_memory = exchange.has_way_back ? "feedback" : "none",
                    .ranks = ranks};
      try {
        make(job, *ends[0]);
        jobs.push_back(job);
        break;
      } catch (const UsageError&) {  // the next one, then
      }
    }
    EXPECT_EQ(jobs.size(), before + 1) << exchange.name;
  }
  return jobs;
}

// What one rank says of what it waited for.
struct End {
  std::string sentence;
  int rank = kNobody;  // at fault
};

// Steps until one fails; memory does not change in that one.
inline End steps_until_failure(Aggregator& aggregator, int rank) {
  for (std::uint64_t step = 0; step < 3; ++step) {
    auto gradient = gradient_of(rank, step);
    const State state = aggregator.save();
    try {
      aggregator.average(gradient, {.step = step});
    } catch (const TransportError& error) {
      EXPECT_EQ(aggregator.save(), state) << error.what();
      return {error.what(), error.rank()};
    }
  }
  return {"went on"};
}

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace laconic::testing

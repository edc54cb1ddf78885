// One job of every kind that exchanges take: what laws run over.
#pragma once

#include "tests/exchange/support.h"

namespace laconic::testing {

inline const std::vector<std::pair<const char*, const char*>> kPairs = {
    {"identity", "none"},
    {"natural", "none"},
    {"randomk:0.3", "none"},
    {"natural:nearest+entropy", "feedback"},
    {"topk:0.1", "feedback"},
    {"topk:0.1+natural", "feedback:step"},
    {"randomk:0.1,unscaled", "feedback"},
    {"randomk:0.2,unscaled", "feedback:bf16"},
    {"topk:0.05", "dgc"},
    {"topk:0.05", "gmc"},
    {"topk:0.2", "ef21"},
    {"randomk:0.6", "diana"},
};

// Every pair on every exchange that does not refuse it; two layouts, should one be refused.
inline std::vector<Job> all_jobs(int ranks) {
  std::vector<Job> runs;
  auto ends = make_thread_transports(1);
  for (const ExchangeInfo& exchange : exchanges()) {
    const std::size_t before = runs.size();
    for (const auto& [op, memory] : kPairs)
      for (const char* layout : {"tensor", "whole"}) {
        const Job job{.op = op,
                      .memory = memory,
                      .layout = layout,
                      .exchange = exchange.name,
                      .ranks = ranks};
        try {
          make(job, *ends[0]);
          runs.push_back(job);
        } catch (const UsageError&) {  // refused in words: tested elsewhere
        }
      }
    EXPECT_GT(runs.size(), before) << exchange.name << " takes nothing";
  }
  runs.push_back({.op = "topk:0.1+natural",
                  .memory = "feedback",
                  .exchange = "server",
                  .down = "natural",
                  .ranks = ranks});
  runs.push_back({.op = "stc:0.1",
                  .memory = "feedback",
                  .exchange = "server",
                  .down = "stc:0.1",
                  .down_memory = "feedback",
                  .ranks = ranks});
  return runs;
}

}  // namespace laconic::testing

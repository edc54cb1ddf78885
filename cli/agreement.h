// One run of gossip: workers that start with different models, as threads, and how far apart they
// are after every round.
#pragma once

#include "laconic/exchange/gossip/mixer.h"

namespace laconic::cli {

inline constexpr int kMostWorkers = 1024;  // threads of this process

struct Agreement {
  std::string mixer;  // spec
  Graph graph;
  Model model;
  Plan plan;
  std::uint64_t rounds = 1024, seed = 0;
  double timeout_seconds = 600;
};

// After a round, all workers together.
struct AgreementRow {
  std::uint64_t round = 0;
  double error = 1;                 // the sum of |x - mean of all starts|^2, relative to the start
  double payload = 0, traffic = 0;  // bytes sent so far, mean over workers
  double waits = 0;                 // how often a worker waited for others so far
  double apart = 0;                 // Mixer::apart in this round, the largest of all workers'
};

// One row per round, after that of the start. `progress` hears of rounds from one worker.
std::vector<AgreementRow> agree(const Agreement& run,
                                const std::function<void(std::uint64_t)>& progress);

}  // namespace laconic::cli

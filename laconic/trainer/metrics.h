// What a run tells about itself: one evaluation is one line of metrics.jsonl.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "laconic/exchange/aggregator.h"

namespace laconic::trainer {

// Sums since the start of the run, of rank 0.
struct Totals {
  std::uint64_t wire_bytes = 0, dense_bytes = 0;
  std::uint64_t traffic_bytes = 0, rounds = 0;  // all this rank sent and waited for
  std::uint64_t up_bytes = 0, down_bytes = 0;   // as in StepStats
  // Of traffic and rounds, what evaluations and checkpoints took: it grows with how often one
  // looks, not with the steps.
  std::uint64_t aside_bytes = 0, aside_rounds = 0;
  double compute_seconds = 0, compress_seconds = 0, exchange_seconds = 0, decompress_seconds = 0,
         update_seconds = 0;
  std::array<std::uint64_t, kLanes> lane_steps = {};  // steps by each lane
  double exposed_seconds = 0;  // how long steps waited for the method beside computing and updating

  double step_seconds() const { return compute_seconds + update_seconds + exposed_seconds; }
  std::uint64_t step_bytes() const { return traffic_bytes - aside_bytes; }
  std::uint64_t step_rounds() const { return rounds - aside_rounds; }

  // All of a step but traffic and rounds, which are the transport's to tell.
  void add(const StepStats& stats);
};

struct Evaluation {
  std::uint64_t step = 0;
  double epoch = 0;
  double loss = 0;             // on the training batches since the last evaluation, mean over ranks
  double test_loss = 0;        // on the test images
  double accuracy = 0;         // on the test images, of the mean of all replicas where they differ
  double worker_accuracy = 0;  // of the replicas themselves, each on its share of the test images
  double residual_norm = 0;
  double model_norm = 0;  // length of the mean of all replicas
  // How far replicas are apart: the root of the mean over ranks of |x_i - mean|^2, and the largest
  // difference of an entry between neighbours that mix; 0 where nobody mixes.
  double consensus_distance = 0, neighbour_difference = 0;
  std::uint64_t skipped = 0;  // steps rolled back because of NaN or Inf, since the start
  Totals totals;
};

// One JSON object on one line, and back. Reading throws DataError.
std::string write_evaluation(const Evaluation& evaluation);
Evaluation read_evaluation(const std::string& line);

// Totals alone, for checkpoints.
std::string write_totals(const Totals& totals);
Totals read_totals(const std::string& line);

}  // namespace laconic::trainer

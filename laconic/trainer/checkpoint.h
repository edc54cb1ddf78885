// A run on disk: written whole or not at all, and refused when a byte is wrong.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "laconic/memory/memory.h"
#include "laconic/trainer/metrics.h"

namespace laconic::trainer {

// How far a run has come, the same on all ranks but for times.
struct Course {
  std::uint64_t step = 0;        // steps done
  std::uint64_t loss_count = 0;  // losses of training batches since the last evaluation
  std::uint64_t images = 0;      // that all workers have seen
  std::uint64_t skipped = 0;
  Totals totals;
  std::vector<Evaluation> evaluations;
};

struct Checkpoint {
  std::string settings;  // JSON: what must be the same when the run goes on
  Course course;
  std::vector<double> loss_sums;  // by rank, since the last evaluation
  State common;                   // of model and method, on all ranks
  std::vector<State> own;         // by rank
};

void write_checkpoint(const std::string& path, const Checkpoint& checkpoint);

// Nothing when there is no such file. Throws DataError when it is damaged or something else.
std::optional<Checkpoint> read_checkpoint(const std::string& path);

}  // namespace laconic::trainer

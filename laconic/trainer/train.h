// Training: N workers, as threads or as processes, each with its replica, its share of the data and
// its end of a transport.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "laconic/methods/method.h"
#include "laconic/trainer/batches.h"
#include "laconic/trainer/data.h"
#include "laconic/trainer/metrics.h"
#include "laconic/trainer/schedule.h"

namespace laconic::trainer {

struct Settings {
  std::string model = "lenet5";
  Recipe recipe;
  std::size_t workers = 4, batch = 32;  // images per worker and step
  double epochs = 1;
  std::uint64_t steps = 0;  // above 0: instead of epochs
  OptimizerOptions optimizer;
  float lr = 0.05F;
  std::uint64_t warmup = 0;
  std::string decay = "constant";
  Split split = Split::reshuffled;
  std::uint64_t seed = 1;
  std::uint64_t evaluate_every = 0;  // steps; 0: as often as `evaluations` says, and at the start
  std::uint64_t evaluations = 10;
  double timeout_seconds = 120;
};

// Where a run leaves its traces. No folder, no traces.
struct Output {
  std::string folder = {};             // metrics.jsonl, checkpoint.lac, model.lac, gradients-*.npz
  std::uint64_t checkpoint_every = 0;  // steps; 0: only when stopped and at the end
  bool resume = false;                 // go on from the folder's checkpoint, if there is one
  std::vector<std::uint64_t> record =
      {};  // steps whose gradients (rank 0's, before averaging) are kept
};

struct Progress {
  std::uint64_t step, steps;
  double seconds;           // since the start of this process's part
  std::uint64_t done_here;  // steps in that time
};

struct Observer {
  std::function<void(const Progress&)> step = {};
  std::function<void(const Evaluation&)> evaluation = {};
  const std::atomic<bool>* stop =
      nullptr;  // when it becomes true, the run ends after the step under way
};

struct Result {
  std::vector<Evaluation> evaluations;
  std::uint64_t step = 0, steps = 0;  // done, planned
  std::size_t parameters = 0;
  bool finished() const { return step == steps; }
};

// The same settings and data give the same model, bit for bit, however often the run is stopped and
// resumed. After every step of which a recipe says that replicas are equal they are compared; a
// difference is an error. Where they are not, the run's model is their mean. Throws what a worker
// threw.
Result train(const Settings& settings, const Data& data, const Output& output,
             const Observer& observer);

// The same run with this process as one rank of it; all ranks call this with the same settings.
// Rank 0 alone writes files and is observed; all read the checkpoint that a run goes on from.
Result train_rank(const Settings& settings, const Data& data, const Output& output,
                  const Observer& observer, Transport& transport);

}  // namespace laconic::trainer

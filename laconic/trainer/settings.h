// What a run is: settings that decide its result, where it leaves its traces, who watches.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "laconic/recipes/recipe.h"
#include "laconic/trainer/batches.h"
#include "laconic/trainer/metrics.h"
#include "laconic/trainer/optimizer.h"

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
  std::uint64_t validation = 0;  // for load_data; the data say the rest
  // At the end what is still owed to the model is delivered, uncompressed, as one more update.
  bool flush = false;
  std::uint64_t seed = 1;
  std::uint64_t evaluate_every = 0;  // steps; 0: as often as `evaluations` says, and at the start
  std::uint64_t evaluations = 10;
  double timeout_seconds = 120;
  // How gradients are averaged, none of which changes the result: threads of each worker that share
  // in compression, and bytes of gradient that leave together while the rest is being computed (0:
  // nothing leaves before all is computed).
  unsigned threads = 1;
  std::uint64_t bucket_bytes = std::uint64_t{1} << 20;
  // What it decides changes the result, but for a replay of its record (docs/guard.md).
  GuardOptions guard = {};
};

// Where a run leaves its traces. No folder, no traces.
struct Output {
  std::string folder =
      {};  // metrics.jsonl, guard.jsonl, checkpoint.lac, model.lac, gradients-*.npz
  std::uint64_t checkpoint_every = 0;  // steps; 0: only when stopped and at the end
  bool trace = false;                  // steps.jsonl too, and a page that shows it
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
  std::function<void(const std::string&)> note = {};  // a sentence worth saying
  const std::atomic<bool>* stop = nullptr;  // when it becomes true, the run ends a few steps later
};

}  // namespace laconic::trainer

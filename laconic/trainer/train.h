// Training: N workers, as threads or as processes, each with its replica, its share of the data and
// its end of a transport.
#pragma once

#include "laconic/trainer/data.h"
#include "laconic/trainer/settings.h"

namespace laconic::trainer {

struct Result {
  std::vector<Evaluation> evaluations;
  std::uint64_t step = 0, steps = 0;  // done, planned
  std::size_t parameters = 0;
  bool finished() const { return step == steps; }
};

// The same settings and data give the same model, bit for bit, however often the run is stopped and
// resumed. It may go on with another number of workers (regroup.h): the number of steps stays.
// Where a recipe says that replicas are equal they are compared, every hundred steps and at
// evaluations; a difference is an error. Where they are not, the run's model is their mean. Throws
// what a worker threw.
Result train(const Settings& settings, const Data& data, const Output& output,
             const Observer& observer);

// The same run with this process as one rank of it; all ranks call this with the same settings.
// Rank 0 alone writes files and is observed; all read the checkpoint that a run goes on from.
Result train_rank(const Settings& settings, const Data& data, const Output& output,
                  const Observer& observer, Transport& transport);

// Throws what train and train_rank would throw about the arguments alone, before any worker starts.
// Nothing is written.
void check_run(const Settings& settings, const Data& data, const Output& output);

}  // namespace laconic::trainer

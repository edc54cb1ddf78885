// What a run's model is worth: all ranks share out the test images.
#pragma once

#include "laconic/trainer/group.h"
#include "laconic/trainer/metrics.h"
#include "laconic/trainer/replica.h"

namespace laconic::trainer {

// The mean of all replicas, the same on all ranks; this rank's own where all are equal.
std::vector<float> mean_model(Replica& replica, bool replicas_equal, Group& group);

// Losses of this rank's training batches since the last evaluation.
struct Losses {
  double sum = 0;
  std::uint64_t count = 0;
};

// Loss, accuracies and how far replicas are apart, the same on all ranks; the other members are the
// caller's to fill in. Where there are no training losses yet, the loss is that on the test images.
// `neighbours` are those that this rank mixes with now, none where nobody mixes.
Evaluation evaluate(Replica& replica, bool replicas_equal, std::span<const int> neighbours,
                    const Images& test, const Losses& losses, Group& group);

}  // namespace laconic::trainer

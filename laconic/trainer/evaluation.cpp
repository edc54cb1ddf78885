// Scores of shares, added up.
#include "laconic/trainer/evaluation.h"

#include <algorithm>

namespace laconic::trainer {
namespace {

// Of a replica's share of the test images with other parameters in it.
Score score_with(std::vector<float> parameters, Replica& replica, const auto& score) {
  std::ranges::swap_ranges(parameters, replica.parameters());
  const Score of_others = score();
  std::ranges::swap_ranges(parameters, replica.parameters());
  return of_others;
}

}  // namespace

std::vector<float> mean_model(Replica& replica, bool replicas_equal, Group& group) {
  const auto own = replica.parameters();
  std::vector<float> mean(own.begin(), own.end());
  if (!replicas_equal) group.average(mean, "all_reduce of models");
  return mean;
}

Evaluation evaluate(Replica& replica, bool replicas_equal, const Images& test, const Losses& losses,
                    Group& group) {
  const std::size_t images = test.count(), from = images * group.rank() / group.size(),
                    to = images * (group.rank() + 1) / group.size();
  const auto score = [&] { return replica.score(test, from, to); };
  const Score own = score();
  const Score mean =
      replicas_equal ? own : score_with(mean_model(replica, replicas_equal, group), replica, score);
  const std::array mine = {static_cast<double>(mean.correct), mean.loss, losses.sum,
                           static_cast<double>(losses.count), static_cast<double>(own.correct)};
  std::array<double, mine.size()> sum = {};
  for (const auto& part : group.gather(mine, "all_gather of scores"))
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
  const double n = static_cast<double>(images);
  Evaluation evaluation;
  evaluation.test_loss = sum[1] / n;
  evaluation.loss = sum[3] > 0 ? sum[2] / sum[3] : evaluation.test_loss;
  evaluation.accuracy = sum[0] / n;
  evaluation.worker_accuracy = sum[4] / n;
  return evaluation;
}

}  // namespace laconic::trainer

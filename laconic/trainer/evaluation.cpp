// Scores of shares, added up.
#include "laconic/trainer/evaluation.h"

#include <algorithm>
#include <cmath>

#include "laconic/kernels/reduce.h"

namespace laconic::trainer {
namespace {

// Of a replica's share of the test images with other parameters in it.
Score score_with(std::vector<float> parameters, Replica& replica, const auto& score) {
  std::ranges::swap_ranges(parameters, replica.parameters());
  const Score of_others = score();
  std::ranges::swap_ranges(parameters, replica.parameters());
  return of_others;
}

std::vector<float> difference(std::span<const float> x, std::span<const float> y) {
  std::vector<float> apart(x.size());
  std::ranges::transform(x, y, apart.begin(), std::minus<>());
  return apart;
}

// The largest difference of an entry between this rank and one it mixes with.
double farthest(std::span<const float> own, std::span<const int> neighbours, Group& group) {
  std::uint32_t largest = 0;
  for (const auto& theirs : group.swap(own, neighbours, "exchange of models"))
    largest = std::max(largest, kernels::largest_magnitude(difference(own, theirs)));
  return std::bit_cast<float>(largest);
}

// Fills in how far replicas are apart.
void compare(Evaluation& evaluation, std::span<const float> own, std::span<const float> mean,
             std::span<const int> neighbours, Group& group) {
  const std::array mine = {kernels::sum_of_squares(difference(own, mean)),
                           farthest(own, neighbours, group)};
  double squares = 0;
  for (const auto& [of_rank, apart] : group.gather(mine, "all_gather of distances")) {
    squares += of_rank;
    evaluation.neighbour_difference = std::max(evaluation.neighbour_difference, apart);
  }
  evaluation.consensus_distance = std::sqrt(squares / static_cast<double>(group.size()));
}

}  // namespace

std::vector<float> mean_model(Replica& replica, bool replicas_equal, Group& group) {
  const auto own = replica.parameters();
  std::vector<float> mean(own.begin(), own.end());
  if (!replicas_equal) group.average(mean, "all_reduce of models");
  return mean;
}

Evaluation evaluate(Replica& replica, bool replicas_equal, std::span<const int> neighbours,
                    const Images& test, const Losses& losses, Group& group) {
  const std::size_t images = test.count(), from = images * group.rank() / group.size(),
                    to = images * (group.rank() + 1) / group.size();
  const auto score = [&] { return replica.score(test, from, to); };
  const Score own = score();
  const std::vector<float> model = mean_model(replica, replicas_equal, group);
  const Score mean = replicas_equal ? own : score_with(model, replica, score);
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
  evaluation.model_norm = std::sqrt(kernels::sum_of_squares(model));
  if (!replicas_equal) compare(evaluation, replica.parameters(), model, neighbours, group);
  return evaluation;
}

}  // namespace laconic::trainer

// PowerGossip: exact after as many iterations as theory says, the papers' volumes, no dead vectors.
#include "tests/exchange/gossip/support.h"

namespace laconic::testing {
namespace {

// Two models whose difference is a sum of `rank` outer products.
Models pair_apart(std::size_t rows, std::size_t cols, std::size_t rank) {
  auto base = gaussian(rows * cols, 1, 5);
  Models models = {base, base};
  for (std::size_t r = 0; r < rank; ++r) {
    const auto p = gaussian(rows, 1, 10 + r), q = gaussian(cols, 1, 50 + r);
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t j = 0; j < cols; ++j) models[1][i * cols + j] += p[i] * q[j];
  }
  return models;
}

double relative(const Models& models, double start) {
  return std::sqrt(disagreement(models) / start);
}

// Closed form: rank-1 iterations with warm start take away one rank of the difference in every
// second one.
TEST(PowerGossip, TwoWorkersAgreeAfterTwiceTheRankOfTheirDifference) {
  for (const std::size_t rank : {1U, 2U, 4U, 8U}) {
    GossipRun run{.topology = "ring:2", .model = {{"w", {24, 17}}}, .rounds = 1};
    run.mixer = "powergossip:1," + std::to_string(2 * rank - 1);
    Models early = pair_apart(24, 17, rank);
    const double start = disagreement(early);
    const auto mean = mean_of(early);
    mix(run, early);
    EXPECT_GT(relative(early, start), 1e-3) << rank;

    run.mixer = "powergossip:1," + std::to_string(2 * rank);
    Models done = pair_apart(24, 17, rank);
    mix(run, done);
    EXPECT_LT(relative(done, start), 2e-5) << rank;
    const auto after = mean_of(done);
    for (std::size_t i = 0; i < mean.size(); ++i) EXPECT_NEAR(after[i], mean[i], 3e-6);
  }
}

TEST(PowerGossip, IterationsInOneStepOrInManyAreTheSame) {
  GossipRun run{.mixer = "powergossip:1,6", .model = {{"w", {12, 9}}}, .rounds = 1};
  Models one = starts_of(run), many = one;
  mix(run, one);
  run.mixer = "powergossip";
  run.rounds = 6;
  mix(run, many);
  EXPECT_EQ(one, many);
}

// Closed form: m r floats, then n r.
TEST(PowerGossip, PayloadAlternatesBetweenRowsAndColumns) {
  for (const std::size_t rank : {1U, 3U}) {
    GossipRun run{.mixer = "powergossip:" + std::to_string(rank),
                  .topology = "ring:2",
                  .model = {{"w", {24, 17}}},
                  .rounds = 4};
    Models models = starts_of(run);
    const auto stats = mix(run, models);
    for (std::size_t round = 0; round < 4; ++round)
      EXPECT_EQ(stats[0][round].payload_bytes, 4 * rank * (round % 2 == 0 ? 24 : 17));
  }
}

// Closed form: expected squared difference times 1 - 1/n for a random direction; n = 8. 400 pairs
// of 8 x 8.
TEST(PowerGossip, RandomDirectionsShrinkTheDifferenceByOneInEight) {
  Model model;
  for (int i = 0; i < 400; ++i) model.push_back({"w" + std::to_string(i), {8, 8}});
  GossipRun run{.mixer = "powergossip:random", .topology = "ring:2", .model = model, .rounds = 1};
  Models models = starts_of(run);
  double before = disagreement(models);
  for (std::uint64_t step = 0; step < 4; ++step) {
    run.first = step;
    mix(run, models);
    const double after = disagreement(models);
    // One direction takes |D q|^2 / |D|^2 away: mean 1/8, standard deviation below 0.06.
    EXPECT_NEAR(after / before, 0.875, 5 * 0.06 / 20);
    before = after;
  }
}

TEST(PowerGossip, RecoversWhenModelsWereEqual) {
  GossipRun run{.mixer = "powergossip:2", .topology = "ring:2", .model = {{"w", {10, 10}}}};
  Models models(2, gaussian(100, 1, 3));
  expect_no_errors(on_ranks(2, [&](Transport& transport) {
    auto& model = models[static_cast<std::size_t>(transport.rank())];
    const auto mixer = mixer_of(run, transport);
    for (std::uint64_t step = 0; step < 5; ++step) mixer->mix(model, {.step = step});
    EXPECT_EQ(model, gaussian(100, 1, 3));
    if (transport.rank() == 1) model = gaussian(100, 1, 4);
    for (std::uint64_t step = 5; step < 30; ++step) mixer->mix(model, {.step = step});
  }));
  EXPECT_LT(disagreement(models), 1e-8 * 100);
}

// What counts as rounding is relative to the products, and well below what floats can tell apart.
TEST(PowerGossip, FindsDifferencesThatAreSmallBesideTheModels) {
  GossipRun run{.mixer = "powergossip:1,2", .topology = "ring:2", .model = {{"w", {24, 17}}}};
  run.rounds = 1;
  Models models = pair_apart(24, 17, 1);
  for (std::size_t i = 0; i < models[0].size(); ++i)
    models[1][i] = models[0][i] + 1e-4F * (models[1][i] - models[0][i]);
  const double start = disagreement(models);
  mix(run, models);
  EXPECT_LT(relative(models, start), 1e-2);
}

// ResNet-20 for CIFAR-10 with projection shortcuts: 22 matrices, 272,474 parameters.
Model resnet20() {
  Model model;
  const auto convolution = [&](std::uint64_t out, std::uint64_t in, std::uint64_t side) {
    const std::string name = "layer" + std::to_string(model.size());
    model.push_back({name + ".weight", {out, in, side, side}});
    model.push_back({name + ".scale", {out}});
    model.push_back({name + ".shift", {out}});
  };
  convolution(16, 3, 3);
  std::uint64_t channels = 16;
  for (const std::uint64_t width : {16U, 32U, 64U})
    for (int block = 0; block < 3; ++block) {
      const std::uint64_t in = std::exchange(channels, width);
      convolution(width, in, 3);
      convolution(width, width, 3);
      if (in != width) convolution(width, in, 1);
    }
  model.push_back({"fc.weight", {10, 64}});
  model.push_back({"fc.bias", {10}});
  return model;
}

// Payload per worker and epoch of 49 steps in MiB, as the mean of two consecutive epochs:
// PowerGossip alternates between rows and columns, and 49 is odd.
double volume(const std::string& mixer) {
  GossipRun run{.mixer = mixer, .model = resnet20(), .rounds = 2};
  Models models = starts_of(run);
  const auto stats = mix(run, models);
  for (const auto& of_rank : stats) {
    EXPECT_EQ(of_rank[0].payload_bytes, stats[0][0].payload_bytes);
    EXPECT_EQ(of_rank[1].payload_bytes, stats[0][1].payload_bytes);
    EXPECT_LT(of_rank[0].traffic_bytes - of_rank[0].payload_bytes, 4096U);  // headers
  }
  const auto both = stats[0][0].payload_bytes + stats[0][1].payload_bytes;
  return static_cast<double>(49 * both) / 2 / (1 << 20);
}

TEST(PowerGossip, ResNet20TakesThePapersVolumes) {
  ASSERT_EQ(count_of(resnet20()), 272474U);
  ASSERT_EQ(resnet20().size(), 65U);
  EXPECT_NEAR(volume("powergossip"), 1.8141, 5e-5);
  EXPECT_NEAR(volume("powergossip:1,2"), 3.0382, 5e-5);
  EXPECT_NEAR(volume("dpsgd"), 101.862, 5e-4);
  EXPECT_NEAR(volume("moniqua:8"), 6.3664, 5e-4);
}

}  // namespace
}  // namespace laconic::testing

// NoLoCo: closed forms of its round, and the pairs it meets in.
#include <regex>
#include <set>

#include "tests/exchange/gossip/support.h"

namespace laconic::testing {
namespace {

// Closed form 1: without momentum and with a pull of 1 two ranks agree in one round.
TEST(Noloco, TwoRanksAgreeInOneRound) {
  GossipRun run{.mixer = "noloco:0,lr=0,pull=1", .topology = "pairs:2", .rounds = 1};
  Models models = starts_of(run);
  const auto mean = mean_of(models);
  mix(run, models);
  for (const auto& model : models)
    for (std::size_t i = 0; i < model.size(); ++i) EXPECT_NEAR(model[i], mean[i], 1e-6);
}

// Every rank's model after rounds in which its own steps move it by `moves(rank, round)`.
template <class Moves>
Models trained(const GossipRun& run, Models models, Moves moves) {
  expect_no_errors(on_ranks(static_cast<int>(models.size()), [&](Transport& transport) {
    auto& x = models[static_cast<std::size_t>(transport.rank())];
    const auto mixer = mixer_of(run, transport);
    for (std::uint64_t round = 0; round < run.rounds; ++round) {
      const float by = moves(transport.rank(), round);
      for (std::size_t i = 0; i < x.size(); ++i) x[i] -= by * static_cast<float>(i % 7);
      mixer->mix(x, {.step = round});
    }
  }));
  return models;
}

// Closed form 2: ranks that all hold and do the same are DiLoCo with a heavy ball, whoever meets
// whom. The first round finds the slow weights.
TEST(Noloco, RanksThatAreAlikeAreDilocoWithAHeavyBall) {
  const GossipRun run{.mixer = "noloco:0.5,lr=0.25,pull=1.5", .topology = "pairs:5", .rounds = 7};
  const std::vector<float> start = starts_of(run)[0];
  const auto moves = [](int, std::uint64_t round) { return 0.5F + static_cast<float>(round); };
  const Models models = trained(run, Models(5, start), moves);
  for (std::size_t i = 0; i < start.size(); ++i) {
    double f = start[i] - moves(0, 0) * static_cast<double>(i % 7), m = 0;
    for (std::uint64_t round = 1; round < run.rounds; ++round) {
      m = 0.5 * m + 0.25 * moves(0, round) * static_cast<double>(i % 7);
      f -= m;
    }
    for (const auto& model : models) ASSERT_NEAR(model[i], f, 2e-5) << i;
  }
}

// Closed form 3: the pull cancels in the mean over ranks, also where one of them rests.
TEST(Noloco, ThePullDoesNotMoveTheMean) {
  const auto means = [](const std::string& pull) {
    const GossipRun run{
        .mixer = "noloco:0.5,lr=0.7,pull=" + pull, .topology = "pairs:5", .rounds = 8};
    return mean_of(trained(run, starts_of(run), [](int rank, std::uint64_t round) {
      return static_cast<float>(rank) * 0.1F + static_cast<float>(round % 3);
    }));
  };
  const auto weak = means("0.001"), strong = means("1.3");
  for (std::size_t i = 0; i < weak.size(); ++i) EXPECT_NEAR(weak[i], strong[i], 2e-5);
}

// The pull alone: both roots of e' = e - m', m' = a m + c e are within the unit circle while 0 < c
// < 2 (1 + a); just below that bound ranks come together, slowly, and above it is refused.
TEST(Noloco, IsStableBelowItsBound) {
  for (const auto& [mixer, rounds] : {std::pair{"noloco:0.5,lr=0,pull=2.8", 120U},
                                      {"noloco:0,lr=0,pull=1.9", 120U},
                                      {"noloco:0.5,lr=0,pull=0.1", 60U},
                                      {"noloco:0.5,lr=0,pull=1", 60U}}) {
    GossipRun run{.mixer = mixer, .topology = "pairs:2", .rounds = rounds};
    Models models = starts_of(run);
    const double apart = disagreement(models);
    mix(run, models);
    EXPECT_LT(disagreement(models), 1e-3 * apart) << mixer;
  }
  auto ends = make_thread_transports(2);
  EXPECT_EQ(message_of<UsageError>([&] {
              mixer_of({.mixer = "noloco:0.5,lr=0.7,pull=3", .topology = "pairs:2"}, *ends[0]);
            }),
            "mixer 'noloco' with a pull of 3 and momentum 0.5 never comes to rest; allowed: a pull "
            "below 2 (1 + momentum)");
}

// Numbers that floats hold exactly: what one of a pair gains the other loses to the last bit, also
// while an operator leaves most of it for later.
TEST(Noloco, ThePairsSumStaysToTheLastBitWithAnyOperator) {
  for (const char* op : {"identity", "topk:0.1", "threshold:3", "natural:nearest"}) {
    GossipRun run{.mixer = "noloco:0.5,lr=0.5,pull=0.5", .topology = "pairs:2", .op = op};
    Models models = starts_of(run);
    for (auto& model : models)
      for (float& x : model) x = std::round(16 * x);
    const auto before = mean_of(models);
    const Models start = models;
    mix(run, models);
    EXPECT_EQ(mean_of(models), before) << op;
    EXPECT_NE(models, start) << op;
  }
}

TEST(Noloco, ComesTogetherWithOperatorsWhereThePullIsSmallEnough) {
  struct Case {
    const char *mixer, *op;
    double left;  // of the disagreement, after 300 rounds
  };
  for (const Case& one : {Case{"noloco", "half", 1e-6},
                          {"noloco", "natural", 1e-6},
                          {"noloco:0,pull=0.1", "shrink+qsgd:4", 0.01},
                          {"noloco:pull=0.3", "topk:0.2", 1e-6},
                          {"noloco:pull=0.1", "topk:0.05+natural", 0.01},
                          {"noloco:0,pull=0.1", "sign", 0.1}})
    for (const char* topology : {"pairs:2", "pairs:4", "ring:8"}) {
      GossipRun run{.mixer = one.mixer, .topology = topology, .op = one.op, .rounds = 300};
      Models models = starts_of(run);
      const double apart = disagreement(models);
      mix(run, models);
      EXPECT_LT(disagreement(models), one.left * apart) << one.mixer << " " << one.op << topology;
    }
}

// What an operator promises says too little of the pull that goes with it (topk:0.2 goes with 0.3,
// and its worst case with far less): who goes apart is told so, by both ends in the same round.
TEST(Noloco, APullThatIsTooMuchForTheOperatorIsFoundAndRefused) {
  for (const char* topology : {"pairs:2", "pairs:8", "ring:4"})
    for (const std::uint64_t seed : {1U, 2U}) {
      GossipRun run{.mixer = "noloco", .topology = topology, .op = "topk:0.05", .rounds = 2000};
      run.seed = seed;
      Models models = starts_of(run);
      const std::vector<std::string> errors =
          on_ranks(static_cast<int>(models.size()), [&](Transport& transport) {
            auto& x = models[static_cast<std::size_t>(transport.rank())];
            const auto mixer = mixer_of(run, transport);
            for (std::uint64_t round = 0; round < run.rounds; ++round)
              mixer->mix(x, {.step = round});
          });
      const std::regex told(
          "mixer 'noloco': the models of ranks [0-6] and [1-7] go further and further apart: a "
          "pull "
          "of 1 is too much for operator 'topk:0.05'; allowed: a smaller pull, or an operator that "
          "loses less");
      EXPECT_GE(
          std::ranges::count_if(
              errors, [&](const std::string& error) { return std::regex_match(error, told); }),
          2)
          << topology;
    }
}

// A first message is whole, between each two ranks; then as the operator says.
TEST(Noloco, SendsWholeMessagesToStrangersOnly) {
  const GossipRun run{
      .mixer = "noloco:pull=0.3", .topology = "pairs:4", .op = "topk:0.05", .rounds = 40};
  Models models = starts_of(run);
  const auto stats = mix(run, models);
  const Graph graph = make_graph(run.topology);
  for (std::size_t rank = 0; rank < 4; ++rank) {
    std::set<int> met;
    for (std::uint64_t round = 0; round < run.rounds; ++round) {
      const int partner = graph.neighbours(static_cast<int>(rank), round)[0].rank;
      const std::uint64_t whole = 4 * count_of(run.model);
      if (met.insert(partner).second)
        EXPECT_EQ(stats[rank][round].payload_bytes, whole) << rank << " " << round;
      else
        EXPECT_LT(stats[rank][round].payload_bytes, whole / 5) << rank << " " << round;
    }
    EXPECT_EQ(met.size(), 3U);
  }
}

TEST(Pairs, MeetAtRandomOncePerRound) {
  const Graph graph = make_graph("pairs:7,100");
  std::set<std::pair<int, int>> met;
  std::set<int> rested;
  for (std::uint64_t round = 0; round < 100; ++round) {
    EXPECT_EQ(graph.edges(round).size(), 3U);
    for (int rank = 0; rank < 7; ++rank) {
      EXPECT_LE(graph.degree(rank, round), 1);
      if (graph.degree(rank, round) == 0) rested.insert(rank);
    }
    for (const Edge& edge : graph.edges(round)) met.insert({edge.a, edge.b});
  }
  EXPECT_EQ(met.size(), 21U);  // everybody has met everybody
  EXPECT_EQ(rested.size(), 7U);
  EXPECT_NE(make_graph("pairs:7,100,seed=1"), graph);
  EXPECT_THROW(make_graph("pairs:7,1"), UsageError);
}

}  // namespace
}  // namespace laconic::testing

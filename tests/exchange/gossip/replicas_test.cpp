// dcd and ecd: what neighbours know of each other, closed forms, and what is lost.
#include "laconic/base/errors.h"
#include "tests/exchange/gossip/support.h"

namespace laconic::testing {
namespace {

// What `holder` has as its copy of `owner`, over the whole model.
std::vector<float> copy_in(const State& state, const GossipRun& run, std::size_t owner) {
  const std::string role = run.mixer.substr(0, run.mixer.find(':')) + "/" + std::to_string(owner);
  return load_tensors(role, run.model, state);
}

// Mixes with a gradient between rounds; the states of all ranks in the end.
std::vector<State> states_after(const GossipRun& run, Models& models) {
  std::vector<State> states(models.size());
  expect_no_errors(on_ranks(static_cast<int>(models.size()), [&](Transport& transport) {
    const auto rank = static_cast<std::size_t>(transport.rank());
    const auto mixer = mixer_of(run, transport);
    for (std::uint64_t round = 0; round < run.rounds; ++round) {
      if (!mixer->gradient_first()) mixer->mix(models[rank], {.step = round});
      for (std::size_t i = 0; i < models[rank].size(); ++i)
        models[rank][i] -= 0.05F * (models[rank][i] - static_cast<float>(rank));
      if (mixer->gradient_first()) mixer->mix(models[rank], {.step = round});
    }
    states[rank] = mixer->save();
  }));
  return states;
}

// On a graph that changes, too: there a rank's neighbours are those of all rounds.
TEST(Replicas, AreTheSameBitsOnBothEnds) {
  for (const char* mixer : {"dcd", "ecd"})
    for (const char* topology : {"ring:5", "star:4", "matching:8", "random:7,p=0.5,seed=3"}) {
      const GossipRun run{.mixer = mixer, .topology = topology, .op = "natural", .rounds = 7};
      SCOPED_TRACE(run.mixer + " " + run.topology);
      Models models = starts_of(run);
      const auto states = states_after(run, models);
      const Graph graph = make_graph(topology);
      std::size_t edges = 0;
      for (std::size_t round = 0; round < graph.period(); ++round)
        for (const auto& [low, high] : graph.edges(round)) {
          const auto a = static_cast<std::size_t>(low), b = static_cast<std::size_t>(high);
          EXPECT_EQ(copy_in(states[a], run, b), copy_in(states[b], run, b));
          EXPECT_EQ(copy_in(states[b], run, a), copy_in(states[a], run, a));
          ++edges;
        }
      EXPECT_GT(edges, 0U);
      for (std::size_t rank = 0; run.mixer == "dcd" && rank < models.size(); ++rank)
        EXPECT_EQ(copy_in(states[rank], run, rank), models[rank]);  // it is what neighbours think
    }
}

// Closed form: nothing is lost, so copies are the models. dcd's first round only tells them.
TEST(Replicas, WithIdentityBothArePlainGossip) {
  for (const char* topology : {"ring:8", "star:5", "matching:8"}) {
    GossipRun run{.mixer = "dpsgd:0.7", .topology = topology, .rounds = 12};
    const Models start = starts_of(run);
    Models plain = start, estimated = start, shifted = start;
    mix(run, plain);
    run.mixer = "ecd:0.7";
    mix(run, estimated);
    expect_near(estimated, plain, 4e-6);
    run.mixer = "dcd:0.7";
    run.rounds = 1;
    mix(run, shifted);
    EXPECT_EQ(shifted, start);
    run.rounds = 13;
    run.first = 2 * make_graph(topology).period() * 3 - 1;  // so that rounds 1 to 12 are 0 to 11
    mix(run, shifted);
    expect_near(shifted, plain, 4e-6);
  }
}

TEST(Replicas, TheFirstMessageIsTheModelAsItIs) {
  for (const char* mixer : {"dcd", "ecd"}) {
    const GossipRun run{.mixer = mixer, .op = "natural", .rounds = 3};
    Models models = starts_of(run);
    for (const auto& of_rank : mix(run, models)) {
      EXPECT_EQ(of_rank[0].payload_bytes, of_rank[0].dense_bytes);
      for (const std::size_t round : {1U, 2U})
        EXPECT_LT(of_rank[round].payload_bytes, of_rank[round].dense_bytes / 3);
    }
  }
}

// Tang et al., algorithm 1, written out for two workers whose gradient is x - rank.
TEST(Dcd, FollowsItsFormula) {
  GossipRun run{.mixer = "dcd", .topology = "ring:2", .op = "randomk:0.5", .rounds = 5};
  run.model = {{"x", {40}}};
  Models models = starts_of(run), expected = models;
  const auto descend = [](std::vector<float> x, std::size_t rank) {
    for (float& value : x) value -= 0.05F * (value - static_cast<float>(rank));
    return x;
  };
  for (std::size_t rank = 0; rank < 2; ++rank) expected[rank] = descend(expected[rank], rank);
  for (std::uint64_t round = 1; round < run.rounds; ++round) {
    const Models before = expected;
    for (std::size_t rank = 0; rank < 2; ++rank) {
      auto z = descend(before[rank], rank);
      for (std::size_t i = 0; i < z.size(); ++i)
        z[i] += 0.5F * (before[1 - rank][i] - before[rank][i]) - before[rank][i];
      const auto sent = through(parse_operator(run.op), z, make_keys(run.seed, round, rank));
      for (std::size_t i = 0; i < z.size(); ++i) expected[rank][i] += sent[i];
    }
  }
  states_after(run, models);
  expect_near(models, expected, 2e-6);
}

// Errors of an unbiased operator are not remembered: the sum of models is kept on average only.
// 300 seeds of one compressed round; the mean of 8 x 362 changes is 0 within five deviations.
TEST(Dcd, KeepsTheSumOnAverage) {
  double sum = 0, squares = 0;
  constexpr int kSeeds = 300;
  for (int seed = 0; seed < kSeeds; ++seed) {
    GossipRun run{.mixer = "dcd", .op = "natural", .rounds = 2};
    run.seed = static_cast<std::uint64_t>(seed);
    Models models = starts_of(run);
    const auto before = mean_of(models);
    mix(run, models);
    const auto after = mean_of(models);
    double change = 0;
    for (std::size_t i = 0; i < before.size(); ++i) change += after[i] - before[i];
    sum += change;
    squares += change * change;
  }
  EXPECT_GT(squares, 1.0);  // one run does move it
  EXPECT_LT(std::abs(sum), 5 * std::sqrt(squares));
}

// Closed form: of a model that stays, the estimate after t compressed rounds is off by the mean of
// all rounds' errors with weights 2 (k - 1) / (t (t - 1)).
TEST(Ecd, EstimatesAWeightedMeanOfErrors) {
  GossipRun run{.mixer = "ecd:0", .topology = "ring:2", .op = "natural"};
  run.model = {{"x", {50}}};
  const std::vector<float> x = starts_of(run)[0];
  constexpr std::uint64_t kRounds = 12;
  std::vector<double> expected(x.size());
  for (std::uint64_t k = 1; k <= kRounds; ++k) {
    const auto sent = through(parse_operator(run.op), x, make_keys(run.seed, k, 0));
    const double weight = 2 * static_cast<double>(k - 1) / (kRounds * (kRounds - 1.0));
    for (std::size_t i = 0; i < x.size(); ++i) expected[i] += weight * sent[i];
  }
  expect_no_errors(on_ranks(2, [&](Transport& transport) {
    const auto mixer = mixer_of(run, transport);
    std::vector<float> model;
    for (std::uint64_t k = 0; k <= kRounds; ++k) {
      model = x;  // with gamma 0 what comes out is the rank's own estimate
      mixer->mix(model, {.step = k});
    }
    for (std::size_t i = 0; transport.rank() == 0 && i < x.size(); ++i)
      ASSERT_NEAR(model[i], expected[i], 1e-5);
  }));
}

// And its variance is 2 (2 t - 1) / (3 t (t - 1)) of one message's.
TEST(Ecd, ErrorOfTheEstimateFallsLikeOneOverT) {
  GossipRun run{.mixer = "ecd:0", .topology = "ring:2", .op = "natural"};
  constexpr std::size_t kCount = 20000;
  run.model = {{"x", {kCount}}};
  const std::vector<float> x(kCount, 1.5F);  // 1 or 2: a variance of 1/4
  expect_no_errors(on_ranks(2, [&](Transport& transport) {
    const auto mixer = mixer_of(run, transport);
    for (std::uint64_t t = 0; t <= 64; ++t) {
      std::vector<float> model = x;
      mixer->mix(model, {.step = t});
      const double n = static_cast<double>(t);
      const double expected = t > 1 ? 2 * (2 * n - 1) / (3 * n * (n - 1)) / 4 : 0;
      if (t != 2 && t != 8 && t != 64) continue;
      EXPECT_NEAR(squared_distance(model, x) / kCount, expected, 0.05 * expected) << t;
    }
  }));
}

// Without gradients the mean of n models goes astray by the sum of their estimates' errors, 4 omega
// t / (3 n) |x|^2 after t rounds.
double astray(const std::string& op, std::uint64_t rounds) {
  GossipRun run{.mixer = "ecd", .topology = "ring:8", .op = op, .rounds = rounds + 1};
  run.model = {{"x", {100, 50}}};
  const std::vector<float> x = starts_of(run)[0];
  Models models(8, x);
  mix(run, models);
  double moved = 0, length = 0;
  const auto mean = mean_of(models);
  for (std::size_t i = 0; i < x.size(); ++i) {
    moved += std::pow(mean[i] - x[i], 2);
    length += std::pow(x[i], 2);
  }
  return moved / length;
}

TEST(Ecd, ErrorsOfAllRoundsAddUpInTheMean) {
  constexpr double kRounds = 240;
  const double expected = 4 * 0.001 * kRounds / (3 * 8);
  EXPECT_NEAR(astray("dither:0.001", 240), expected, 0.1 * expected);
  EXPECT_GT(astray("dither", 240), 5);  // what the formula says, and by its own doing
}

TEST(Replicas, TakeUnbiasedOperatorsOnly) {
  for (const char* mixer : {"dcd", "ecd"}) {
    const auto errors = on_ranks(2, [&](Transport& transport) {
      mixer_of({.mixer = mixer,
                .topology = "ring:2",
                .op = transport.rank() == 0 ? "topk:0.2" : "qsgd:1"},
               transport);
    });
    EXPECT_NE(errors[0].find("loses what 'topk:0.2' leaves out"), std::string::npos) << errors[0];
    EXPECT_EQ(errors[1], "");  // no contraction is asked for
  }
}

// A rank that has never been heard moves nobody, and begins with its whole model when it is finite.
TEST(Replicas, ARankMayBeHeardLater) {
  for (const char* mixer : {"dcd", "ecd"}) {
    const GossipRun run{.mixer = mixer, .topology = "ring:4", .op = "natural", .rounds = 6};
    Models models = starts_of(run);
    std::vector<State> states(models.size());
    expect_no_errors(on_ranks(4, [&](Transport& transport) {
      const auto rank = static_cast<std::size_t>(transport.rank());
      const auto own = mixer_of(run, transport);
      const auto start = models[rank];
      for (std::uint64_t round = 0; round < run.rounds; ++round) {
        if (rank == 2) {
          models[2] = start;
          if (round < 3) models[2][0] = std::numeric_limits<float>::infinity();
        }
        EXPECT_EQ(own->mix(models[rank], {.step = round}).finite, round >= 3 || rank == 0);
      }
      states[rank] = own->save();
    }));
    EXPECT_EQ(states[1].at(run.mixer + ".heard"), (std::vector<float>{6, 3, 6}));
    EXPECT_EQ(copy_in(states[1], run, 2), copy_in(states[2], run, 2));
  }
}

TEST(Replicas, AStateOfAnotherPlaceIsRefused) {
  expect_no_errors(on_ranks(3, [&](Transport& transport) {
    const GossipRun run{.mixer = "ecd", .topology = "ring:3", .op = "natural"};
    const auto mixer = mixer_of(run, transport);
    auto model = starts_of(run)[0];
    mixer->mix(model, {});
    const State good = mixer->save();
    const auto says = [&](float heard, std::size_t ranks) {
      State state = good;
      state["ecd.heard"] = std::vector<float>(ranks, heard);
      return message_of<DataError>([&] { mixer->load(state); });
    };
    EXPECT_EQ(says(1, 2), "the state's 'ecd.heard' is of 2 ranks; here are 3");
    EXPECT_NE(says(0.5F, 3).find("allowed: whole numbers"), std::string::npos);
    EXPECT_NE(says(-1, 3).find("allowed: whole numbers"), std::string::npos);
    EXPECT_NE(says(0, 3).find("which is not remembered here"), std::string::npos);
    EXPECT_EQ(mixer->save(), good);
    mixer->load(good);
  }));
}

}  // namespace
}  // namespace laconic::testing

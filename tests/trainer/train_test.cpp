// Training on small made-up images: it learns, repeats, resumes bit for bit, and stops with a
// sentence.
#include "laconic/trainer/train.h"

#include "laconic/trainer/evaluation.h"
#include "laconic/trainer/replica.h"
#include "tests/ranks.h"
#include "tests/trainer/pictures.h"

namespace laconic::trainer {
namespace {

using laconic::testing::message_of;

// Workers on a ring of three have two neighbours each, to whom plain gossip sends the model.
TEST(Train, EveryRecipeLearns) {
  for (const Recipe& recipe : recipes()) {
    SCOPED_TRACE(recipe.name);
    const Result result = train(small(recipe.name, 120), kData, {}, {});
    EXPECT_TRUE(result.finished());
    const Evaluation &first = result.evaluations.front(), &last = result.evaluations.back();
    EXPECT_GT(last.accuracy, 0.9);
    EXPECT_LT(first.accuracy, 0.5);
    EXPECT_EQ(last.skipped, 0U);
    const std::uint64_t messages = recipe.mixer.empty() ? 1 : 2;
    if (recipe.mixer.empty() || recipe.delay == 1) {
      EXPECT_EQ(last.totals.dense_bytes, messages * 120 * 4 * result.parameters);
    }
    EXPECT_TRUE(!recipe.mixer.empty() || last.worker_accuracy == last.accuracy);
    EXPECT_GT(last.worker_accuracy, 0.8);
  }
}

TEST(Train, SameSeedSameModelOtherSeedOtherModel) {
  const Folder a("a"), b("b"), c("c");
  Settings other = small("natural");
  other.seed = 2;
  train(small("natural"), kData, {.folder = a.path()}, {});
  train(small("natural"), kData, {.folder = b.path()}, {});
  train(other, kData, {.folder = c.path()}, {});
  EXPECT_EQ(a.bytes("model.lac"), b.bytes("model.lac"));
  EXPECT_NE(a.bytes("model.lac"), c.bytes("model.lac"));
}

// Stopped again and again, each time resumed: the model is that of a run that was never stopped.
TEST(Train, ResumingEqualsNotHavingStopped) {
  const std::string ranks = "powersgd, a rank by tensor";
  for (const std::string recipe : {"dense", "natural-feedback", "stc", "sbc2", "sparseloco",
                                   "streaming-diloco", "dpsgd", "powergossip", ranks.c_str()}) {
    for (const char* optimizer : {"sgd", "adamw"}) {
      if (recipe == "sbc2" && std::string(optimizer) == "adamw") continue;
      SCOPED_TRACE(recipe + " " + optimizer);
      const Folder straight("straight"), stopped("stopped");
      Settings settings = small(recipe == ranks ? "powersgd" : recipe);
      if (recipe == ranks) settings.recipe.rules = {"name=fc1.weight,rank=3"};
      settings.optimizer.kind = optimizer;
      settings.warmup = 5;
      settings.decay = "cosine";
      settings.flush = true;
      train(settings, kData, {.folder = straight.path()}, {});
      std::uint64_t runs = 0;
      for (bool finished = false; !finished; ++runs) {
        std::atomic<bool> stop = false;
        const Observer observer{.step = [&](const Progress& p) { stop = p.done_here >= 7; },
                                .evaluation = {},
                                .note = {},
                                .stop = &stop};
        finished =
            train(settings, kData, {.folder = stopped.path(), .resume = true}, observer).finished();
        ASSERT_LT(runs, 20U);
      }
      EXPECT_GT(runs, 3U);
      EXPECT_EQ(stopped.bytes("model.lac"), straight.bytes("model.lac"));
      train(settings, kData, {.folder = stopped.path(), .resume = true}, {});  // it is at its end
      EXPECT_EQ(stopped.bytes("model.lac"), straight.bytes("model.lac"));
    }
  }
}

// Bytes that leave together, threads, and who moves them change nothing in the model.
TEST(Train, BucketsAndThreadsChangeNothing) {
  for (const char* recipe : {"dense", "natural-feedback", "powersgd", "natural-bidirectional"}) {
    const Folder plain("plain");
    Settings settings = small(recipe, 12);
    settings.bucket_bytes = 0;
    train(settings, kData, {.folder = plain.path()}, {});
    for (const std::uint64_t bytes : {1, 500, 1 << 20}) {
      const Folder folder("buckets");
      settings.bucket_bytes = bytes;
      settings.threads = bytes == 500 ? 2 : 1;
      train(settings, kData, {.folder = folder.path(), .record = {0, 5}}, {});
      EXPECT_EQ(folder.bytes("model.lac"), plain.bytes("model.lac")) << recipe << bytes;
    }
  }
}

// Fingerprints, wishes to stop, scores, models and checkpoints: whatever a rank sends is counted,
// and what does not belong to steps apart.
TEST(Train, EverythingThatIsSentIsCounted) {
  for (const char* recipe : {"natural-feedback", "sbc2", "powergossip"}) {
    SCOPED_TRACE(recipe);
    const Folder folder("counted");
    Settings settings = small(recipe, 30);
    const auto run_to_end = [&] {
      Totals last;
      laconic::testing::expect_no_errors(laconic::testing::on_ranks(3, [&](Transport& end) {
        const Observer observer{.step = {}, .evaluation = [&](const Evaluation& e) {
                                  last = e.totals;
                                  EXPECT_EQ(e.totals.traffic_bytes, end.bytes_sent());
                                  EXPECT_EQ(e.totals.rounds, end.rounds());
                                }};
        const Output output{.folder = folder.path(), .checkpoint_every = 7};
        train_rank(settings, kData, output, observer, end);
      }));
      return last;
    };
    const Totals totals = run_to_end();
    EXPECT_GT(totals.aside_bytes, 0U);
    EXPECT_LT(totals.aside_bytes, totals.traffic_bytes);
    settings.evaluations = 2;
    std::filesystem::remove_all(folder.path());
    const Totals fewer = run_to_end();
    EXPECT_LT(fewer.aside_bytes, totals.aside_bytes);
    EXPECT_EQ(fewer.step_bytes(), totals.step_bytes());
  }
}

TEST(Train, ARunIsNotOverwrittenNorMixedWithAnother) {
  const Folder folder("kept");
  train(small("natural", 5), kData, {.folder = folder.path()}, {});
  const auto before = folder.bytes("checkpoint.lac");
  EXPECT_NE(message_of<UsageError>([&] {
              train(small("natural", 5), kData, {.folder = folder.path()}, {});
            }).find("holds a run already"),
            std::string::npos);
  Settings other = small("natural", 5);
  other.batch = 4;
  EXPECT_NE(message_of<UsageError>([&] {
              train(other, kData, {.folder = folder.path(), .resume = true}, {});
            }).find("has batch 8, not 4"),
            std::string::npos);
  EXPECT_EQ(folder.bytes("checkpoint.lac"), before);
}

TEST(Train, RecordsGradientsAndMetrics) {
  const Folder folder("record");
  train(small("natural", 6), kData, {.folder = folder.path(), .record = {0, 3}}, {});
  EXPECT_GT(folder.bytes("gradients-step-0.npz").size(), 4000U);
  EXPECT_GT(folder.bytes("gradients-step-3.npz").size(), 4000U);
  const auto metrics = folder.bytes("metrics.jsonl");
  EXPECT_EQ(std::ranges::count(metrics, '\n'), 7);
  EXPECT_THROW(train(small("natural", 6), kData, {.folder = folder.path(), .record = {6}}, {}),
               UsageError);
}

TEST(Train, MistakesAreNamedBeforeAnythingIsWritten) {
  const Folder folder("mistakes");
  const auto refusal = [&](auto change) {
    Settings settings = small("natural", 5);
    change(settings);
    return message_of<UsageError>([&] { train(settings, kData, {.folder = folder.path()}, {}); });
  };
  EXPECT_EQ(refusal([](Settings& s) { s.workers = 0; }), "0 workers; allowed: 1 to 256");
  EXPECT_EQ(refusal([](Settings& s) { s.model = "resnet"; }),
            "no model 'resnet'; known: lenet5 perceptron");
  EXPECT_EQ(refusal([](Settings& s) { s.model = "lenet5"; }),
            "model lenet5 takes images of 28 x 28, not 6 x 6");
  EXPECT_NE(refusal([](Settings& s) { s.batch = 1000; }).find("need more than the 800 images"),
            std::string::npos);
  EXPECT_NE(refusal([](Settings& s) { s.steps = 0, s.epochs = -1; }).find("epochs -1"),
            std::string::npos);
  EXPECT_NE(refusal([](Settings& s) { s.recipe.op = "natrual"; }).find("no operator 'natrual'"),
            std::string::npos);
}

// A learning rate that blows the model up: the steps are skipped and counted, nothing crashes,
// replicas stay equal.
TEST(Train, StepsThatAreNotFiniteAreSkipped) {
  Settings settings = small("natural-feedback", 30);
  settings.lr = 1e30F;
  const Result result = train(settings, kData, {}, {});
  EXPECT_TRUE(result.finished());
  EXPECT_GT(result.evaluations.back().skipped, 0U);
}

TEST(Train, OneWorkerAndManyWorkers) {
  for (const std::size_t workers : {1, 7}) {
    Settings settings = small("natural", 10);
    settings.workers = workers;
    EXPECT_TRUE(train(settings, kData, {}, {}).finished()) << workers;
  }
}

// Ranks that were not started alike are told so before the first step, all of them.
TEST(Train, RanksThatDifferAreNamedBeforeTheFirstStep) {
  const Folder here("here"), there("there");
  Settings settings = small("natural-feedback", 10);
  const auto sentences = [&](const Settings& other, const std::string& other_folder) {
    return laconic::testing::on_ranks(3, [&](Transport& end) {
      const bool last = end.rank() == 2;
      const Output output{.folder = last ? other_folder : here.path(), .resume = true};
      train_rank(last ? other : settings, kData, output, {}, end);
    });
  };
  Settings other = settings;
  other.lr = 0.7F;
  for (const std::string& sentence : sentences(other, here.path()))
    EXPECT_EQ(sentence, "rank 2 has other settings or data than rank 0");
  train(settings, kData, {.folder = here.path()}, {});
  for (const std::string& sentence : sentences(settings, there.path()))
    EXPECT_EQ(sentence,
              "rank 2 goes on from step 0 and rank 0 from step 10; all ranks must read the same "
              "checkpoint");
}

// Rank i's model is a common one with i / 8 added to every entry: on three ranks that is 1/8 from
// the mean twice, and neighbours on a line differ by 1/8, on a ring by 2/8.
TEST(Evaluation, TellsHowFarModelsAreApart) {
  const auto told = [](bool equal, const std::vector<std::vector<int>>& neighbours) {
    std::vector<Evaluation> all(3);
    std::size_t count = 0;
    laconic::testing::expect_no_errors(laconic::testing::on_ranks(3, [&](Transport& end) {
      const auto rank = static_cast<std::size_t>(end.rank());
      Replica replica("perceptron", kData, 1);
      for (float& entry : replica.parameters()) entry = 1 + static_cast<float>(rank) / 8;
      if (rank == 0) count = replica.parameters().size();
      Group group(end, 60);
      all[rank] = evaluate(replica, equal, neighbours[rank], kData.test, {}, group);
    }));
    const double n = static_cast<double>(count);
    for (const Evaluation& e : all) {
      EXPECT_EQ(e.consensus_distance, all[0].consensus_distance);
      EXPECT_EQ(e.neighbour_difference, all[0].neighbour_difference);
    }
    EXPECT_NEAR(all[0].model_norm, std::sqrt(n) * (equal ? 1 : 1.125), 1e-4);
    EXPECT_NEAR(all[0].consensus_distance, equal ? 0 : std::sqrt(n * 2 / 3) / 8, 1e-4);
    return all[0].neighbour_difference;
  };
  EXPECT_EQ(told(false, {{1}, {0, 2}, {1}}), 0.125);
  EXPECT_EQ(told(false, {{1, 2}, {0, 2}, {0, 1}}), 0.25);
  EXPECT_EQ(told(false, {{}, {}, {}}), 0);
  EXPECT_EQ(told(true, {{}, {}, {}}), 0);
}

// Once models have moved they differ where they are mixed, and where they are averaged they do not.
TEST(Train, GossipTellsHowFarModelsAreApart) {
  const auto last = [](const char* recipe) {
    return train(small(recipe, 10), kData, {}, {}).evaluations.back();
  };
  const Evaluation mixed = last("dpsgd"), averaged = last("natural");
  EXPECT_GT(mixed.consensus_distance, 0);
  EXPECT_LT(mixed.consensus_distance, mixed.model_norm);
  EXPECT_GT(mixed.neighbour_difference, 0);
  EXPECT_EQ(averaged.consensus_distance, 0);
  EXPECT_EQ(averaged.neighbour_difference, 0);
  EXPECT_GT(averaged.model_norm, 0);
}

TEST(Replica, ParametersAndGradientAreTheNetworks) {
  Replica replica("perceptron", kData, 1);
  EXPECT_EQ(replica.model().size(), 4U);
  EXPECT_EQ(replica.model()[0].name, "fc1.weight");
  EXPECT_EQ(count_of(replica.model()), replica.parameters().size());
  const std::vector<std::uint32_t> which = {0, 1, 2, 3};
  const double loss = replica.learn(kData.train, which);
  // Walking against the gradient lowers the loss by about the step times its squared length.
  const std::vector<float> gradient(replica.gradient().begin(), replica.gradient().end());
  const float step = 1e-3F;
  for (std::size_t i = 0; i < gradient.size(); ++i) replica.parameters()[i] -= step * gradient[i];
  const double expected = loss - step * laconic::testing::squared(gradient);
  EXPECT_NEAR(replica.learn(kData.train, which), expected, 0.1 * (loss - expected));
}

// Every tensor is reported once, when its gradient is final and not before, and the last ones of
// the model while the first ones are still being computed.
TEST(Replica, TensorsAreReportedAsBackwardFinishesThem) {
  Replica replica("perceptron", kData, 1);
  const std::vector<std::uint32_t> which = {0, 1, 2, 3};
  replica.learn(kData.train, which);
  const std::vector<float> whole(replica.gradient().begin(), replica.gradient().end());
  for (int round = 0; round < 3; ++round) {
    std::vector<std::size_t> reported;
    replica.learn(kData.train, which, [&](std::size_t tensor) {
      reported.push_back(tensor);
      std::size_t first = 0;
      for (std::size_t i = 0; i < tensor; ++i) first += replica.model()[i].count();
      const auto part = replica.gradient().subspan(first, replica.model()[tensor].count());
      EXPECT_TRUE(std::ranges::equal(part, std::span(whole).subspan(first, part.size())));
      if (tensor >= 2) {  // the second layer's, before the first layer's
        EXPECT_TRUE(std::ranges::all_of(replica.gradient().first(32 * 36),
                                        [](float value) { return value == 0; }));
      }
      std::ranges::fill(part, 7.0F);  // it has changed hands
    });
    std::ranges::sort(reported);
    EXPECT_EQ(reported, (std::vector<std::size_t>{0, 1, 2, 3}));
    EXPECT_TRUE(std::ranges::all_of(replica.gradient(), [](float value) { return value == 7; }));
  }
}

TEST(Replica, WhatReadyThrowsIsThrownByLearn) {
  Replica replica("perceptron", kData, 1);
  const std::vector<std::uint32_t> which = {0, 1, 2, 3};
  for (std::size_t bad = 0; bad < 4; ++bad)
    EXPECT_EQ(message_of<TransportError>([&] {
                replica.learn(kData.train, which, [&](std::size_t tensor) {
                  if (tensor == bad) throw TransportError("rank 2 has left");
                });
              }),
              "rank 2 has left");
  std::size_t reported = 0;
  replica.learn(kData.train, which, [&](std::size_t) { ++reported; });
  EXPECT_EQ(reported, 4U);
}

}  // namespace
}  // namespace laconic::trainer

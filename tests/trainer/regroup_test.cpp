// Runs that go on with another number of workers.
#include "laconic/trainer/regroup.h"

#include "tests/trainer/pictures.h"

namespace laconic::trainer {
namespace {

using laconic::testing::message_of;

// A run that was stopped after its tenth step, and its checkpoint: a wish to stop travels with the
// step after it, or is asked for every ten.
Checkpoint stopped_at_ten(const Settings& settings, const Folder& folder) {
  std::atomic<bool> stop = false;
  const Result result =
      train(settings, kData, {.folder = folder.path()},
            {.step = [&](const Progress& p) { stop = p.step >= 9; }, .stop = &stop});
  EXPECT_EQ(result.step, 10U);
  return read_checkpoint(folder.path() + "/checkpoint.lac").value();
}

// Sums over ranks and entries, by role.
std::map<std::string, double> sums_of(const Checkpoint& checkpoint) {
  std::map<std::string, double> sums;
  for (const State& state : checkpoint.own)
    for (const auto& [name, values] : state)
      for (const float value : values) sums[name.substr(0, name.find('/'))] += value;
  return sums;
}

// Whatever is owed before the change is owed after it, and momentum becomes the mean.
TEST(Regroup, WhatIsOwedStaysOwed) {
  for (const char* name : {"natural-feedback", "sbc2", "dgc"}) {
    SCOPED_TRACE(name);
    const Folder folder("owed");
    Settings settings = small(name);
    settings.workers = 4;
    const Checkpoint before = stopped_at_ten(settings, folder);
    const auto owed = sums_of(before);
    EXPECT_FALSE(owed.empty());
    for (const std::size_t workers : {1, 2, 3, 8}) {
      const Checkpoint after = regroup(before, settings.recipe, workers);
      EXPECT_EQ(after.own.size(), workers);
      EXPECT_EQ(after.common, before.common);
      for (const auto& [role, sum] : sums_of(after)) {
        const bool debt = role == "exchange:feedback" || role == "exchange:dgc";
        const double part = debt ? 1 : static_cast<double>(workers) / 4;
        EXPECT_NEAR(sum, part * owed.at(role), 1e-4) << role << workers;
      }
    }
  }
}

// Images of an epoch: what does not fill a step is left out.
double epoch_images(std::size_t workers) {
  return static_cast<double>(800 / (workers * 8) * workers * 8);
}

// The same model and optimiser; as many steps in all; and the run learns what it would have.
TEST(Regroup, ARunGoesOnWithOtherWorkers) {
  for (const char* name : {"natural-feedback", "dense", "sparseloco", "natural-bidirectional"})
    for (const std::size_t workers : {1, 5}) {
      SCOPED_TRACE(name + std::to_string(workers));
      const Folder folder("go-on");
      Settings settings = small(name, 120);
      const Checkpoint before = stopped_at_ten(settings, folder);
      settings.workers = workers;
      std::string note;
      const Observer observer{
          .step = {}, .evaluation = {}, .note = [&](auto& text) { note = text; }};
      const Output output{.folder = folder.path(), .resume = true};
      const Result result = train(settings, kData, output, observer);
      EXPECT_TRUE(result.finished());
      EXPECT_EQ(result.steps, 120U);
      EXPECT_GT(result.evaluations.back().accuracy, 0.9);
      EXPECT_DOUBLE_EQ(result.evaluations.back().epoch,
                       (10 * 3.0 + 110 * static_cast<double>(workers)) * 8 / epoch_images(workers));
      EXPECT_EQ(note, "the run had 3 workers and goes on with " + std::to_string(workers) +
                          "; what was owed to the model is theirs now");
    }
}

// Epochs stay as many steps as they were, also when the run is resumed once more.
TEST(Regroup, EpochsKeepTheirSteps) {
  const Folder folder("epochs");
  Settings settings = small("natural-feedback", 0);
  settings.epochs = 1;
  stopped_at_ten(settings, folder);
  const std::atomic<bool> stop = true;
  for (const std::size_t workers : {6, 6, 2}) {
    settings.workers = workers;
    const Result result = train(settings, kData, {.folder = folder.path(), .resume = true},
                                {.step = {}, .stop = workers == 6 ? &stop : nullptr});
    EXPECT_EQ(result.steps, 33U);
    EXPECT_EQ(result.finished(), workers == 2);
  }
}

TEST(Regroup, ModelsOfTheirOwnCannotBeSharedOut) {
  Settings settings = small("dpsgd");
  const Folder gossip("gossip"), amid("amid");
  const auto refusal = [&](const Folder& folder) {
    return message_of<UsageError>(
        [&] { train(settings, kData, {.folder = folder.path(), .resume = true}, {}); });
  };
  stopped_at_ten(settings, gossip);
  settings.workers = 4;
  EXPECT_EQ(refusal(gossip),
            "the run has 3 workers, not 4: each has a model of its own, which no other can go on "
            "with (mixer 'dpsgd'); allowed: 3 workers");
  settings = small("sbc2");
  settings.recipe.delay = 4;
  stopped_at_ten(settings, amid);
  settings.workers = 4;
  EXPECT_EQ(refusal(amid),
            "the run has 3 workers, not 4: each has a model of its own, which no other can go on "
            "with before the round of local steps ends; allowed: 3 workers, or a checkpoint at a "
            "multiple of 4 steps, not 10");
}

}  // namespace
}  // namespace laconic::trainer

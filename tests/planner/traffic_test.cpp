// What is foreseen is what the engine sends: bytes and messages of rank 0, for every exchange and
// recipe, against real steps on threads.
#include "laconic/methods/fragments.h"
#include "laconic/planner/forecast.h"
#include "tests/ranks.h"

namespace laconic {
namespace {

using testing::expect_no_errors;
using testing::on_ranks;

// Large and small tensors, vectors, and one that is all zeros.
const Model kModel = {{"embed.weight", {300, 400}},
                      {"a.weight", {64, 3, 5, 5}},
                      {"a.bias", {64}},
                      {"rests.weight", {40, 30}},
                      {"b.weight", {250, 90}},
                      {"b.bias", {250}},
                      {"c.weight", {10, 250}},
                      {"c.bias", {10}}};

Situation situation_of(int workers) {
  Samples samples{.name = "test", .model = kModel};
  samples.gradients.push_back(testing::gaussian(count_of(kModel)));
  std::size_t offset = 0;
  for (const Tensor& tensor : kModel) {
    if (tensor.name == "rests.weight")
      std::fill_n(samples.gradients[0].begin() + static_cast<std::ptrdiff_t>(offset),
                  tensor.count(), 0.0F);
    offset += tensor.count();
  }
  return {.samples = std::move(samples),
          .workers = workers,
          .link = {.latency_seconds = 1e-3, .bits_per_second = 1e8},
          .compute_seconds = 0.05,
          .bucket_bytes = 100'000,
          .repeats = 1};
}

// One step after any warm-up in which every rank has the same gradient, in the buckets of a
// backward pass; of local steps a round of each fragment.
StepStats real_step(const Recipe& given, const Situation& situation) {
  StepStats of_first;
  Recipe recipe = given;
  recipe.warmup.clear();
  expect_no_errors(on_ranks(situation.workers, [&](Transport& transport) {
    const auto aggregator = make_aggregator({.model = kModel,
                                             .recipe = recipe,
                                             .seed = 1,
                                             .engine = Engine::thread,
                                             .unit_bytes = situation.bucket_bytes},
                                            transport);
    std::vector<float> gradient = situation.samples.gradients[0];
    const std::vector<float> parameters(gradient.size());
    std::vector<float> momentum(takes_local_steps(recipe) ? gradient.size() : 0);
    const StepInfo info{
        .step = kForeseenStep, .lr = 0.1F, .parameters = parameters, .momentum = momentum};
    StepStats stats;
    if (takes_local_steps(recipe)) {
      const Places places(kModel);
      for (const auto& tensors : fragments_of(recipe, kModel)) {
        std::vector<void*> data;
        for (const std::size_t t : tensors) data.push_back(gradient.data() + places.begin(t));
        auto round = aggregator->begin(info, tensors);
        round.submit({.tensors = tensors, .data = data});
        const StepStats of_round = round.finish();
        round.commit();
        stats.traffic_bytes += of_round.traffic_bytes;
        stats.messages += of_round.messages;
      }
    } else {
      aggregator->begin(info);
      std::size_t end = gradient.size();
      for (std::size_t tensor = kModel.size(); tensor-- > 0;) {
        end -= kModel[tensor].count();
        void* data = gradient.data() + end;
        aggregator->submit({.tensors = {&tensor, 1}, .data = {&data, 1}});
      }
      stats = aggregator->finish();
    }
    if (transport.rank() == 0) of_first = stats;
  }));
  return of_first;
}

// Sizes that the values decide differ a little where ranks or draws do.
double slack_of(const Recipe& recipe, int workers) {
  const Operator op = parse_operator(recipe.op);
  const bool drawn = op.traits(1000).random && op.spec().find("natural:") == std::string::npos;
  const bool fixed = op.spec() == "identity" || op.spec() == "natural" || op.spec() == "half";
  if (fixed || recipe.exchange == "summed") return 0;
  const bool gathers = recipe.exchange == "gather" || (recipe.exchange == "auto" && workers < 5);
  if (gathers && !drawn) return 0;
  return 0.03;
}

TEST(Foresight, IsWhatTheEngineSends) {
  for (const int workers : {2, 3, 5}) {
    const Situation situation = situation_of(workers);
    std::vector<Recipe> all = recipes();
    all.push_back({.name = "ranks by tensor",
                   .exchange = "powersgd:2",
                   .rules = {"name=embed.weight,rank=7", "name=b.weight,rank=1"}});
    for (const Recipe& recipe : all) {
      if (!recipe.mixer.empty()) continue;
      const Forecast forecast = forecast_of(recipe, situation);
      ASSERT_EQ(forecast.obstacle, "") << recipe.name;
      const StepStats real = real_step(recipe, situation);
      const auto delay = static_cast<double>(recipe.delay);
      EXPECT_NEAR(forecast.bytes * delay, static_cast<double>(real.traffic_bytes),
                  slack_of(recipe, workers) * static_cast<double>(real.traffic_bytes) + 1e-6)
          << recipe.name << " on " << workers;
      EXPECT_NEAR(forecast.messages * delay, static_cast<double>(real.messages), 1e-6)
          << recipe.name << " on " << workers;
    }
  }
}

TEST(Foresight, OfGossipIsWhatMixersSend) {
  const Situation situation = situation_of(4);
  for (const Recipe& recipe : recipes()) {
    if (recipe.mixer.empty()) continue;
    const Forecast forecast = forecast_of(recipe, situation);
    ASSERT_EQ(forecast.obstacle, "") << recipe.name;
    double real = 0;
    expect_no_errors(on_ranks(4, [&](Transport& transport) {
      const auto mixer = make_mixer({.model = kModel, .recipe = recipe, .seed = 1}, transport);
      std::vector<float> model = situation.samples.gradients[0];
      for (float& value : model) value *= static_cast<float>(1 + transport.rank());
      StepStats stats;
      for (std::uint64_t step = 0; step < 2; ++step)
        stats = mixer->mix(model, {.step = kForeseenStep + step, .lr = 0.1F, .parameters = model});
      if (transport.rank() == 0) real = static_cast<double>(stats.traffic_bytes);
    }));
    EXPECT_NEAR(forecast.bytes * static_cast<double>(recipe.delay), real, 0.03 * real)
        << recipe.name;
  }
}

TEST(Foresight, GrowsToTenThousandWorkers) {
  Situation situation = situation_of(kMostWorkers);
  const double n = kMostWorkers, floats = static_cast<double>(count_of(kModel));
  for (const char* name :
       {"dense", "natural", "natural-sharded", "stc", "powersgd", "global-qsgd", "arc-topk"}) {
    Recipe recipe = find_recipe(name);
    const Forecast forecast = forecast_of(recipe, situation);
    ASSERT_EQ(forecast.obstacle, "") << name;
    EXPECT_GT(forecast.step_seconds, situation.compute_seconds) << name;
    if (recipe.name != "natural") continue;
    EXPECT_LT(forecast.bytes, n * floats);  // auto, which is sharded there
    recipe.exchange = "gather";
    EXPECT_GT(forecast_of(recipe, situation).bytes, (n - 1) * (floats - 1200) * 9 / 8);
  }
  situation.workers = kMostWorkers + 1;
  EXPECT_EQ(testing::message_of<UsageError>([&] { forecast_all({}, situation); }),
            "10001 workers; allowed: 2 to 10000");
}

TEST(Forecasts, ComeFastestFirstWithTheBaselines) {
  Situation situation = situation_of(4);
  situation.link.bits_per_second = 1e5;  // kernels are measured here: whatever they take is less
  const auto all = forecast_all({find_recipe("topk-natural")}, situation);
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].recipe.name, "topk-natural");
  EXPECT_EQ(all[1].recipe.name, "bf16");
  EXPECT_EQ(all[2].recipe.name, "dense");
  EXPECT_EQ(all[2].over_dense, 1);
  EXPECT_EQ(all[2].error, 0);
  EXPECT_GT(all[0].over_dense, all[0].over_bf16);
}

}  // namespace
}  // namespace laconic

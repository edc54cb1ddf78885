// Recipes with an operator for each tensor, on gradients whose layers differ.
#include "laconic/planner/adaptive.h"

#include "tests/planner/recorded.h"

namespace laconic {
namespace {

using testing::recorded;

TEST(Variants, HaveTheOperatorsOwnNumberAmongThem) {
  for (const std::string op :
       {"topk:0.01", "topk:0.01+natural", "bucket:512+qsgd:4,max", "sbc:0.001", "uniform:4"}) {
    const auto variants = variants_of(op);
    EXPECT_GT(variants.size(), 3U) << op;
    EXPECT_NE(std::ranges::find(variants, parse_operator(op).spec()), variants.end()) << op;
  }
  EXPECT_EQ(testing::message_of<UsageError>([] { variants_of("sign"); }),
            "operator 'sign' has no density, levels or bits to choose; allowed: one such as "
            "topk:0.01 or bucket:512+qsgd:4, or powersgd, which has ranks");
}

// At the bytes of either uniform choice the error is not larger than that of the better one.
TEST(Adapt, IsNeverWorseThanLayerWiseAndEntireModelAtEqualBytes) {
  const Situation situation = recorded();
  for (const std::string op : {"topk:0.01", "topk:0.05+natural", "bucket:512+qsgd:4,max"}) {
    const Adaptive free = adapt(op, {}, situation);
    EXPECT_LE(free.chosen.error, free.layer_wise.error) << op;
    EXPECT_LE(free.chosen.bytes, free.layer_wise.bytes) << op;
    for (const Outcomes* at : {&free.layer_wise, &*free.entire_model}) {
      const Adaptive held = adapt(op, {.bytes = at->bytes}, situation);
      EXPECT_LE(held.chosen.bytes, at->bytes) << op;
      EXPECT_LE(held.chosen.error, at->error) << op;
    }
  }
}

// Entire-model top-k has one threshold over all layers, which no choice of densities betters; fine
// densities come near it.
TEST(Adapt, ComesWithinAStepOfEntireModelTopK) {
  const Situation situation = recorded();
  const Adaptive at = adapt("topk:0.01", {}, situation);
  const Adaptive held = adapt("topk:0.01", {.error = at.entire_model->error}, situation);
  EXPECT_LE(static_cast<double>(held.chosen.bytes),
            std::sqrt(2.0) * static_cast<double>(at.entire_model->bytes));
}

// What is promised of frames is what the engine sends.
TEST(Adapt, GivesARecipeThatRunsAndSendsWhatItSays) {
  const Situation situation = recorded();
  const Adaptive adaptive = adapt("topk:0.02", {.bytes = 20'000}, situation);
  EXPECT_LE(adaptive.chosen.bytes, 20'000U);
  const Recipe recipe = read_recipe(write_recipe(adaptive.chosen.recipe));
  EXPECT_EQ(recipe, adaptive.chosen.recipe);
  const Plan plan = make_plan(recipe, situation.samples.model);
  EXPECT_EQ(frame_bytes(plan, situation), adaptive.chosen.bytes);
}

TEST(Adapt, RefusesWhatCannotBe) {
  const Situation situation = recorded();
  EXPECT_EQ(testing::message_of<UsageError>([&] {
              adapt("topk:0.01", {.bytes = 10}, situation);
            }).substr(0, 42),
            "no choice for 'topk:0.01' fits in 10 bytes");
  EXPECT_EQ(testing::message_of<UsageError>(
                [&] { adapt("topk:0.01", {.bytes = 1, .error = 0.1}, situation); }),
            "a budget of bytes and one of error; allowed: one of them");
}

}  // namespace
}  // namespace laconic

// An optimiser inside a method, on gradients known beforehand.
#include "laconic/trainer/descent.h"

#include "tests/ranks.h"
#include "tests/rounds.h"

namespace laconic::trainer {
namespace {

using laconic::testing::expect_no_errors;
using laconic::testing::gaussian;
using laconic::testing::message_of;
using laconic::testing::on_ranks;
using laconic::testing::shorten_rounds;

const Model kModel = {{"w", {8, 5}}, {"b", {8}}};
constexpr std::size_t kCount = 48;

Descent descent_of(const Recipe& recipe, const OptimizerOptions& optimizer,
                   std::span<const float> start, Transport& transport) {
  return Descent({.model = kModel, .recipe = recipe, .seed = 5}, optimizer, 100, start, transport);
}

StepStats step(Descent& descent, std::span<float> x, std::span<float> g, const StepInfo& info) {
  descent.begin(x, g, info);
  for (const std::size_t tensor : {1, 0}) descent.ready(tensor);
  return descent.end();
}

std::vector<float> gradient_of(int rank, std::uint64_t step) {
  return gaussian(kCount, 0.5F, 1 + step * 97 + static_cast<std::uint64_t>(rank));
}

// One burst on one rank: its round is undone on all, and every later one is made, whatever the
// optimiser had gathered.
TEST(Descent, RecoversFromOneOverflow) {
  for (const char* kind : {"sgd", "adamw"})
    for (const char* outer : {"none", "nesterov"}) {
      SCOPED_TRACE(std::string(kind) + " " + outer);
      const Recipe recipe{.name = "x", .op = "natural", .delay = 2, .outer = outer};
      expect_no_errors(on_ranks(2, [&](Transport& transport) {
        const auto start = gaussian(kCount);
        auto x = start;
        Descent descent = descent_of(recipe, {.kind = kind, .momentum = 0.9F}, x, transport);
        for (std::uint64_t t = 0; t < 12; ++t) {
          const bool burst = transport.rank() == 1 && (t == 2 || t == 3);
          std::vector<float> g(kCount, burst ? 3e38F : 1.0F);
          EXPECT_EQ(step(descent, x, g, {.step = t, .lr = 10}).finite, t != 3) << t;
        }
        for (std::size_t i = 0; i < kCount; ++i) EXPECT_LT(x[i], start[i]);
      }));
    }
}

// With a rate of 1/4 and whole gradients on two ranks all is exact: a plain end is one more update
// with what was owed.
TEST(Descent, APlainEndDeliversAllThatIsOwed) {
  for (const std::uint64_t delay : {1, 4}) {
    const Recipe recipe{.name = "x", .op = "topk:0.1", .memory = "feedback", .delay = delay};
    expect_no_errors(on_ranks(2, [&](Transport& transport) {
      std::vector<float> x(kCount), all(kCount), g;
      auto descent = descent_of(recipe, {.kind = "sgd", .momentum = 0}, x, transport);
      for (std::uint64_t t = 0; t < 9; ++t) {
        for (int rank = 0; rank < 2; ++rank) {
          auto one = gradient_of(rank, t);
          for (float& value : one) value = std::round(16 * value);
          for (std::size_t i = 0; i < kCount; ++i) all[i] -= one[i] / 8;
          if (rank == transport.rank()) g = one;
        }
        step(descent, x, g, {.step = t, .lr = 0.25F});
      }
      EXPECT_GT(descent.residual_norm(), 0);
      descent.finish(x, g, {.step = 8, .lr = 0.25F, .plain = true});
      EXPECT_EQ(descent.residual_norm(), 0);
      EXPECT_EQ(x, all);
    }));
  }
}

TEST(Descent, GoesOnFromWhatWasSaved) {
  for (const char* kind : {"sgd", "adamw"})
    for (const char* name : {"natural-feedback", "sparseloco", "choco-topk"}) {
      SCOPED_TRACE(std::string(kind) + " " + name);
      Recipe recipe = find_recipe(name);
      shorten_rounds(recipe, 4);
      const OptimizerOptions options{.kind = kind, .momentum = 0.9F};
      expect_no_errors(on_ranks(3, [&](Transport& transport) {
        const auto start = gaussian(kCount);
        const auto model_after = [&](std::uint64_t save_at) {
          auto x = start;
          auto descent = std::make_unique<Descent>(descent_of(recipe, options, x, transport));
          for (std::uint64_t t = 0; t < 9; ++t) {
            if (t == save_at) {
              const Saved saved = descent->save(x);
              const bool averaged = recipe.delay == 1 && recipe.mixer.empty();
              EXPECT_EQ(take_under("optimizer:", saved.common).empty(), !averaged);
              x = start;
              descent = std::make_unique<Descent>(descent_of(recipe, options, x, transport));
              descent->load(saved, x);
            }
            auto g = gradient_of(transport.rank(), t);
            EXPECT_TRUE(step(*descent, x, g, {.step = t, .lr = 0.125F}).finite);
          }
          return x;
        };
        EXPECT_EQ(model_after(6), model_after(100));
      }));
    }
}

// However gradients leave, as they come, together, in any order: the same model.
TEST(Descent, PartsChangeNothing) {
  for (const char* name :
       {"dense", "natural-feedback", "stc", "powersgd", "gmc", "spardl", "sbc2"}) {
    SCOPED_TRACE(name);
    expect_no_errors(on_ranks(3, [&](Transport& transport) {
      const auto model_with = [&](std::uint64_t bytes, const std::vector<std::size_t>& order) {
        auto x = gaussian(kCount);
        Descent descent({.model = kModel, .recipe = find_recipe(name), .seed = 5}, {.momentum = 0},
                        bytes, x, transport);
        for (std::uint64_t t = 0; t < 6; ++t) {
          auto g = gradient_of(transport.rank(), t);
          descent.begin(x, g, {.step = t, .lr = 0.125F});
          for (const std::size_t tensor : order) descent.ready(tensor);
          EXPECT_TRUE(descent.end().finite);
        }
        return x;
      };
      const auto together = model_with(0, {});
      EXPECT_EQ(model_with(1, {1, 0}), together);
      EXPECT_EQ(model_with(1, {0}), together);
      EXPECT_EQ(model_with(1 << 20, {1}), together);
    }));
  }
}

// A rank that cannot compute its gradient ends the step on all, at once and with its reason; flags
// of one reach all.
TEST(Descent, OneRankSpeaksToAll) {
  const auto errors = on_ranks(3, [&](Transport& transport) {
    auto x = gaussian(kCount);
    Descent descent({.model = kModel, .recipe = find_recipe("natural"), .timeout_seconds = 3600},
                    {}, 1, x, transport);
    auto g = gradient_of(transport.rank(), 0);
    const bool first = transport.rank() == 1;
    descent.begin(x, g, {.step = 0, .lr = 0.1F, .flags = first ? 4U : 0U});
    EXPECT_EQ(descent.end().flags, 4U);
    descent.begin(x, g, {.step = 1, .lr = 0.1F});
    descent.ready(1);
    if (first) {
      descent.abandon("no memory for the backward pass");
      throw SystemError("no memory");
    }
    descent.end();
  });
  EXPECT_EQ(errors[1], "no memory");
  for (const std::size_t other : {0, 2}) {
    EXPECT_NE(errors[other].find("rank 1 cannot go on"), std::string::npos) << errors[other];
    EXPECT_NE(errors[other].find("no memory for the backward pass"), std::string::npos);
  }
}

TEST(Descent, ASecondMomentumIsRefused) {
  auto ends = make_thread_transports(1);
  const std::vector<float> x(kCount);
  for (const OptimizerOptions& options :
       {OptimizerOptions{.momentum = 0.9F}, {.kind = "adamw", .momentum = 0}})
    EXPECT_NE(message_of<UsageError>([&] {
                descent_of(find_recipe("dgc"), options, x, *ends[0]);
              }).find("carries the momentum itself"),
              std::string::npos);
}

}  // namespace
}  // namespace laconic::trainer

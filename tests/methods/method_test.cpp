// Methods: synchronous training, local steps and gossip, on gradients known beforehand.
#include "laconic/methods/method.h"

#include <algorithm>

#include "laconic/exchange/conversation.h"
#include "laconic/recipes/outer.h"
#include "tests/methods/courses.h"

namespace laconic::testing {
namespace {

// Whole numbers: sums and differences of them are exact.
std::vector<float> whole_gradient_of(int rank, std::uint64_t step) {
  auto g = gradient_of(rank, step);
  for (float& value : g) value = std::round(16 * value);
  return g;
}

void expect_near(std::span<const float> a, std::span<const float> b, double part) {
  EXPECT_LE(std::sqrt(squared_distance(a, b)), part * std::sqrt(squared(b)));
}

// SGD on the mean gradient, by a plain loop.
std::vector<float> synchronous(const Course& course, int ranks) {
  std::vector<float> x = gaussian(kCount), v(kCount);
  for (std::uint64_t step = 0; step < course.steps; ++step) {
    std::vector<double> mean(kCount);
    for (int rank = 0; rank < ranks; ++rank) {
      const auto g = course.gradient(rank, step);
      for (std::size_t i = 0; i < kCount; ++i) mean[i] += g[i] / static_cast<double>(ranks);
    }
    for (std::size_t i = 0; i < kCount; ++i) {
      v[i] = course.momentum * v[i] + static_cast<float>(mean[i]);
      x[i] -= course.lr * v[i];
    }
  }
  return x;
}

// Closed form 36: DiLoCo with one SGD step inside, rate 1 and no momentum outside, is synchronous
// SGD: bit for bit where gradients and rates make every sum exact, up to rounding elsewhere.
TEST(LocalSteps, OneStepAndNothingOutsideIsSynchronousSgd) {
  Course course{.recipe = {.name = "x", .exchange = "dense", .outer = "momentum:0,lr=1"}};
  expect_near(run(course, 4)[2], synchronous(course, 4), 1e-6);
  // From 0 with a rate of 1/4, all is a multiple of 1/16.
  const auto exact = [](const std::string& outer) {
    const Course whole{.recipe = {.name = "x", .exchange = "dense", .outer = outer}};
    std::vector<std::vector<float>> models(4, std::vector<float>(kCount));
    expect_no_errors(on_ranks(4, [&](Transport& transport) {
      auto& x = models[static_cast<std::size_t>(transport.rank())];
      const auto method = method_of(whole, x, transport);
      Sgd sgd;
      for (std::uint64_t t = 0; t < whole.steps; ++t) {
        auto g = whole_gradient_of(transport.rank(), t);
        step(*method, sgd, x, g, {.step = t, .lr = 0.25F});
      }
    }));
    return models;
  };
  EXPECT_EQ(exact("momentum:0,lr=1"), exact("none"));
}

// Whatever the optimiser's momentum: its mean over ranks is the momentum of the mean.
TEST(LocalSteps, OneLocalStepWithMomentumIsSynchronousUpToRounding) {
  const Course course{.recipe = {.name = "x", .exchange = "dense", .outer = "momentum:0,lr=1"},
                      .momentum = 0.9F};
  expect_near(run(course, 3)[1], synchronous(course, 3), 1e-5);
}

// A delay of 1 with nothing outside is the synchronous method itself.
TEST(LocalSteps, DelayOneIsSynchronousBitForBit) {
  Course course{.recipe = {.name = "x", .exchange = "dense"}, .momentum = 0.9F};
  const auto plain = run(course, 3);
  course.recipe.delay = 1;
  EXPECT_EQ(run(course, 3), plain);
  expect_near(plain[0], synchronous(course, 3), 1e-5);
}

// Without compression, n local steps of SGD with a constant gradient per rank are n steps of the
// mean.
TEST(LocalSteps, ManyStepsWithConstantGradientsAreStepsOfTheMean) {
  Course course{.recipe = {.name = "x", .exchange = "dense", .delay = 5}};
  course.gradient = [](int rank, std::uint64_t) { return gradient_of(rank, 0); };
  const auto models = run(course, 4);
  expect_near(models[0], synchronous(course, 4), 1e-5);
  for (const auto& model : models) EXPECT_EQ(model, models[0]);
}

// Outer momentum by hand: one rank, constant change d per round. Momentum: v = m v + d, x -= lr v;
// Nesterov: x -= lr (d + m v).
TEST(LocalSteps, OuterOptimisersByHand) {
  for (const bool nesterov : {false, true}) {
    Course course{.recipe = {.name = "x",
                             .exchange = "dense",
                             .delay = 4,
                             .outer = nesterov ? "nesterov:0.5,lr=0.5" : "momentum:0.5,lr=0.5"},
                  .lr = 0.25F,
                  .steps = 12,
                  .gradient = [](int, std::uint64_t) { return std::vector<float>(kCount, 1); }};
    const auto start = gaussian(kCount);
    const auto x = run(course, 1)[0];
    const float d = 4 * 0.25F;
    float v = 0, moved = 0;
    for (int round = 0; round < 3; ++round) {
      v = 0.5F * v + d;
      moved += 0.5F * (nesterov ? d + 0.5F * v : v);
    }
    for (std::size_t i = 0; i < kCount; ++i) EXPECT_NEAR(x[i], start[i] - moved, 1e-5) << nesterov;
  }
}

// Ranks hold the same model after each round and at the end, and only then.
TEST(LocalSteps, ReplicasMeetAfterEachRound) {
  std::vector<std::vector<float>> models(3, gaussian(kCount));
  Course course{.recipe = find_recipe("sbc2")};
  course.recipe.delay = 4;
  course.momentum = 0.9F;
  expect_no_errors(on_ranks(3, [&](Transport& transport) {
    auto& x = models[static_cast<std::size_t>(transport.rank())];
    const auto method = method_of(course, x, transport);
    std::vector<Buffer> all;
    Sgd sgd{0.9F};
    for (std::uint64_t t = 0; t < 10; ++t) {
      auto g = gradient_of(transport.rank(), t);
      const auto [before, after] = step(*method, sgd, x, g, {.step = t, .lr = 0.1F});
      EXPECT_EQ(before.dense_bytes + after.dense_bytes, kCount * 4);
      EXPECT_EQ(after.wire_bytes > 0, t % 4 == 3) << t;
      EXPECT_EQ(method->residual_norm() > 0, t >= 3) << t;  // what the last round left
      EXPECT_EQ(method->replicas_equal(), t % 4 == 3) << t;
      Conversation(transport, Deadline::in(3600, "test"))
          .all_gather({reinterpret_cast<const std::uint8_t*>(x.data()), kCount * 4}, all,
                      kCount * 4);
      for (const Buffer& other : all)
        EXPECT_EQ(std::ranges::equal(other.view(), all[0].view()), t % 4 == 3 || &other == &all[0]);
    }
    const StepInfo last{.step = 9, .lr = 0.1F, .momentum = sgd.masked()};
    EXPECT_GT(method->finish(x, last).wire_bytes, 0U);
    EXPECT_TRUE(method->replicas_equal());
    EXPECT_EQ(method->finish(x, last).wire_bytes, 0U);
  }));
  EXPECT_EQ(models[1], models[0]);
  EXPECT_EQ(models[2], models[0]);
}

// Momentum masking after local steps: 0 where something was sent, as it was elsewhere.
TEST(LocalSteps, MomentumIsMaskedWhereSomethingWasSent) {
  Course course{.recipe = {.name = "x",
                           .op = "topk:0.25",
                           .memory = "feedback:masking=on",
                           .layout = "whole",
                           .delay = 2},
                .momentum = 0.5F};
  auto ends = make_thread_transports(1);
  const auto start = gaussian(kCount);
  auto x = start;
  const auto method = method_of(course, x, *ends[0]);
  std::vector<float> v(kCount);
  Sgd sgd{0.5F};
  for (std::uint64_t t = 0; t < 2; ++t) {
    auto g = gradient_of(0, t);
    for (std::size_t i = 0; i < kCount; ++i) v[i] = 0.5F * v[i] + g[i];
    step(*method, sgd, x, g, {.step = t, .lr = 0.125F});
  }
  std::size_t sent = 0;
  for (std::size_t i = 0; i < kCount; ++i) {
    EXPECT_EQ(sgd.velocity[i], x[i] != start[i] ? 0 : v[i]) << i;
    sent += x[i] != start[i];
  }
  EXPECT_EQ(sent, 12U);
}

TEST(LocalSteps, MaskingNeedsAMomentumOfTheRanksOwn) {
  auto ends = make_thread_transports(1);
  std::vector<float> x(kCount), g(kCount, 1);
  for (const std::uint64_t delay : {1, 2}) {
    const Course course{
        .recipe = {
            .name = "x", .op = "topk:0.25", .memory = "feedback:masking=on", .delay = delay}};
    const auto method = method_of(course, x, *ends[0]);
    Sgd sgd{delay == 1 ? 0.9F : 0.0F};
    EXPECT_NE(message_of<UsageError>([&] {
                for (std::uint64_t t = 0; t < delay; ++t) step(*method, sgd, x, g, {t, 0.1F});
              }).find("masks the momentum that each rank has of its own"),
              std::string::npos);
  }
}

// A round that throws has changed nothing: it is tried again without another update, and no
// gradient counts twice.
TEST(LocalSteps, ARoundThatThrewIsTriedAgain) {
  const Course course{.recipe = {.name = "x",
                                 .op = "topk:0.25",
                                 .memory = "feedback:masking=on",
                                 .layout = "whole",
                                 .delay = 2,
                                 .outer = "nesterov"},
                      .momentum = 0.5F,
                      .steps = 4};
  const auto straight = run(course, 1)[0];
  auto ends = make_thread_transports(1);
  auto x = gaussian(kCount);
  const auto method = method_of(course, x, *ends[0]);
  Sgd sgd{course.momentum};
  for (std::uint64_t t = 0; t < course.steps; ++t) {
    auto g = gradient_of(0, t);
    ASSERT_TRUE(method->before_update(x, g, {.step = t, .lr = course.lr}).finite);
    sgd.update(x, g, course.lr);
    const auto before = x;
    StepInfo info{.step = t, .lr = course.lr};  // without the momentum that is to be masked
    if (t % 2 == 1) {
      EXPECT_THROW(method->after_update(x, info), UsageError);
    }
    EXPECT_EQ(x, before);
    info.momentum = sgd.masked();
    EXPECT_TRUE(method->after_update(x, info).finite);
  }
  EXPECT_EQ(x, straight);
}

// SparseLoCo's feedback decays per round: e = 0.5 e + d; what is not sent of round t counts half in
// round t + 1.
TEST(LocalSteps, DecayedFeedbackCountsRounds) {
  Course course{.recipe = {.name = "x",
                           .op = "topk:0.5",
                           .memory = "feedback:0.5",
                           .layout = "whole",
                           .delay = 2},
                .lr = 1,
                .steps = 4};
  course.gradient = [](int, std::uint64_t step) {
    std::vector<float> g(kCount);
    for (std::size_t i = 0; i < kCount; ++i) g[i] = step < 2 ? (i < 24 ? 8.0F : 1.0F) : 0.0F;
    return g;
  };
  const auto start = gaussian(kCount);
  const auto x = run(course, 1)[0];
  for (std::size_t i = 0; i < kCount; ++i)
    EXPECT_NEAR(start[i] - x[i], i < 24 ? 16 : 1, 1e-5) << i;  // 2 * 8 at once; 2 * 1 halved, later
}

// Conservation in whole numbers: after a plain last round the model is that of all gradients, bit
// for bit, also by fragments, and nothing is owed.
TEST(LocalSteps, APlainLastRoundDeliversAllThatIsOwed) {
  struct Rounds {
    unsigned fragments, overlap;
  };
  for (const Rounds rounds : {Rounds{1, 0}, {2, 0}, {2, 1}})
    for (const std::uint64_t steps : {11, 12})
      expect_no_errors(on_ranks(4, [&](Transport& transport) {
        Course course{.recipe = {.name = "x", .op = "topk:0.1", .memory = "feedback", .delay = 4}};
        course.recipe.fragments = rounds.fragments;
        course.recipe.overlap = rounds.overlap;
        std::vector<float> x(kCount), all(kCount);
        const auto method = method_of(course, x, transport);
        Sgd sgd;
        for (std::uint64_t t = 0; t < steps; ++t) {
          auto g = whole_gradient_of(transport.rank(), t);
          for (int rank = 0; rank < 4; ++rank) {
            const auto one = whole_gradient_of(rank, t);
            for (std::size_t i = 0; i < kCount; ++i) all[i] -= one[i] / 16;
          }
          step(*method, sgd, x, g, {.step = t, .lr = 0.25F});
        }
        EXPECT_GT(method->residual_norm(), 0);
        const StepStats stats = method->finish(x, {.step = steps - 1, .plain = true});
        EXPECT_EQ(stats.lane, Lane::dense);
        EXPECT_GE(stats.payload_bytes, kCount * 4);
        // Where a round has arrived, merge = 0 drops the steps made meanwhile.
        EXPECT_EQ(x == all, rounds.overlap == 0);
        EXPECT_EQ(method->residual_norm(), 0);
        EXPECT_TRUE(method->replicas_equal());
      }));
}

TEST(Methods, GoOnFromWhatWasSavedBitForBit) {
  for (const Recipe& recipe : recipes()) {
    SCOPED_TRACE(recipe.name);
    Course course = course_of(recipe);
    const auto straight = run(course, 4);
    course.save_at = 6;
    EXPECT_EQ(run(course, 4), straight);
    for (const auto& model : straight) EXPECT_TRUE(!recipe.mixer.empty() || model == straight[0]);
  }
}

TEST(Methods, StatesOfOtherMethodsAreRefused) {
  auto ends = make_thread_transports(2);
  expect_no_errors(with_ends(std::move(ends), [](auto& end) {
    std::vector<float> x = gaussian(kCount);
    const std::vector<std::string> names = {"natural", "diloco", "dpsgd", "sbc2", "choco-topk"};
    for (const auto& one : names)
      for (const auto& other : names) {
        const Course a{.recipe = find_recipe(one)}, b{.recipe = find_recipe(other)};
        const auto from = method_of(a, x, *end), to = method_of(b, x, *end);
        if (one == other)
          to->load(from->save(x), x);
        else
          EXPECT_THROW(to->load(from->save(x), x), DataError) << one << " into " << other;
      }
  }));
}

// Whatever part of a state is wrong, the method is afterwards as it was before.
TEST(LocalSteps, AStateThatIsRefusedChangesNothing) {
  const Recipe recipe{
      .name = "x", .op = "topk:0.1", .memory = "feedback", .delay = 2, .outer = "nesterov:0.9,0.7"};
  const Course course{.recipe = recipe};
  expect_no_errors(on_ranks(2, [&](Transport& transport) {
    const auto after = [&](std::uint64_t steps, std::vector<float>& x) {
      auto method = method_of(course, x, transport);
      Sgd sgd;
      for (std::uint64_t t = 0; t < steps; ++t) {
        auto g = gradient_of(transport.rank(), t);
        step(*method, sgd, x, g, {.step = t, .lr = course.lr});
      }
      return method;
    };
    std::vector<float> x = gaussian(kCount), y = x;
    const auto from = after(6, x), to = after(3, y);
    const Saved right = from->save(x), before = to->save(y);
    const std::vector<float> model = y;
    for (const auto part : {&Saved::common, &Saved::own})
      for (const auto& [name, values] : right.*part) {
        Saved wrong = right;
        (wrong.*part).erase(name);
        EXPECT_THROW(to->load(wrong, y), DataError) << name;
        EXPECT_EQ(to->save(y).common, before.common) << name;
        EXPECT_EQ(to->save(y).own, before.own) << name;
        EXPECT_EQ(y, model) << name;
      }
    to->load(right, y);
    EXPECT_EQ(to->save(y).common, right.common);
  }));
}

// NaN in one rank's gradient: no update by any where gradients are averaged, by that rank alone
// where they are not; the model stays finite either way.
TEST(Methods, GradientsThatAreNotFiniteChangeNothing) {
  for (const char* name : {"natural-feedback", "sbc2", "dpsgd"}) {
    const Recipe recipe = find_recipe(name);
    expect_no_errors(on_ranks(2, [&](Transport& transport) {
      std::vector<float> x = gaussian(kCount), g(kCount, 1);
      const auto method = method_of({.recipe = recipe}, x, transport);
      if (transport.rank() == 1) g[7] = NAN;
      const auto start = x;
      Sgd sgd{0.9F};
      const Stepped stats = step(*method, sgd, x, g, {.step = 0, .lr = 0.1F});
      const bool own = recipe.delay > 1 || !recipe.mixer.empty();
      EXPECT_EQ(stats.before.finite, own && transport.rank() == 0) << name;
      EXPECT_TRUE(stats.after.finite) << name;
      EXPECT_TRUE(stats.finite() || !recipe.mixer.empty() || x == start) << name;
      for (const float value : x) EXPECT_TRUE(std::isfinite(value));
    }));
  }
}

// A neighbour whose model is not finite makes an edge rest, and is told of; one's own update is
// made.
TEST(Decentralised, ANeighboursNanStopsNoUpdateOfOnesOwn) {
  for (const char* mixer : {"dpsgd", "deepsqueeze:0.1,before"}) {
    const Recipe recipe{.name = "x", .op = mixer[1] == 'p' ? "identity" : "sign", .mixer = mixer};
    expect_no_errors(on_ranks(3, [&](Transport& transport) {
      std::vector<float> x(kCount, 2);
      const auto method = method_of({.recipe = recipe}, x, transport);
      if (transport.rank() == 1) x[7] = NAN;
      std::vector<float> g(kCount, 1);
      Sgd sgd;
      const Stepped stats = step(*method, sgd, x, g, {.step = 0, .lr = 0.5F});
      EXPECT_TRUE(stats.before.finite);
      EXPECT_FALSE(stats.after.finite);
      EXPECT_FALSE(method->set_back());
      if (transport.rank() != 1) {
        for (const float value : x) EXPECT_NEAR(value, 1.5F, 0.2F);
      }
    }));
  }
}

// A model that ran away to infinity during local steps: all ranks go back to the last common one,
// are told to begin anew, and the next rounds are as good as any.
TEST(LocalSteps, ARoundThatIsNotFiniteIsUndoneEverywhere) {
  const Course course{.recipe = {.name = "x", .op = "natural", .delay = 2}};
  expect_no_errors(on_ranks(2, [&](Transport& transport) {
    const auto start = gaussian(kCount);
    auto x = start;
    const auto method = method_of(course, x, transport);
    Sgd sgd{0.9F};
    for (std::uint64_t t = 0; t < 10; ++t) {
      const bool burst = transport.rank() == 1 && t < 2;
      std::vector<float> g(kCount, burst ? 3e38F : 1.0F);
      EXPECT_EQ(step(*method, sgd, x, g, {.step = t, .lr = 10}).finite(), t != 1) << t;
      EXPECT_EQ(method->set_back(), t == 1) << t;
      EXPECT_TRUE(t != 1 || x == start);
      EXPECT_EQ(method->replicas_equal(), t % 2 == 1);
    }
    EXPECT_NE(x, start);
  }));
}

// D-PSGD by a plain loop: x_i = sum_j W_ij x_j - lr g_i on a ring of 4, W = 1/3.
TEST(Decentralised, IsMixingAndTheRanksOwnStep) {
  const Course course{.recipe = find_recipe("dpsgd"), .steps = 5};
  const auto models = run(course, 4);
  std::vector<std::vector<float>> x(4, gaussian(kCount));
  for (std::uint64_t step = 0; step < course.steps; ++step) {
    const auto before = x;
    for (std::size_t rank = 0; rank < 4; ++rank) {
      const auto g = gradient_of(static_cast<int>(rank), step);
      for (std::size_t i = 0; i < kCount; ++i)
        x[rank][i] = (before[rank][i] + before[(rank + 1) % 4][i] + before[(rank + 3) % 4][i]) / 3 -
                     course.lr * g[i];
    }
  }
  for (std::size_t rank = 0; rank < 4; ++rank) expect_near(models[rank], x[rank], 1e-5);
  // The mean model follows the mean gradient, whatever the mixing.
  std::vector<float> mean(kCount);
  for (const auto& model : models)
    for (std::size_t i = 0; i < kCount; ++i) mean[i] += model[i] / 4;
  expect_near(mean, synchronous(course, 4), 1e-5);
}

// What a dense exchange would have sent counts in every step, also in those without a round.
TEST(Decentralised, DenseBytesCountEveryStepOfADelay) {
  for (const std::uint64_t delay : {1, 3}) {
    const Course course{
        .recipe = {.name = "x", .delay = delay, .mixer = "noloco", .topology = "pairs"}};
    expect_no_errors(on_ranks(4, [&](Transport& transport) {
      std::vector<float> x = gaussian(kCount);
      const auto method = method_of(course, x, transport);
      Sgd sgd;
      std::uint64_t dense = 0, payload = 0;
      for (std::uint64_t t = 0; t < 6; ++t) {
        auto g = gradient_of(transport.rank(), t);
        const Stepped stats = step(*method, sgd, x, g, {.step = t, .lr = course.lr});
        dense += stats.before.dense_bytes + stats.after.dense_bytes;
        payload += stats.before.payload_bytes + stats.after.payload_bytes;
      }
      EXPECT_EQ(dense, 6 * 4 * kCount);  // one partner each
      EXPECT_EQ(payload * delay, dense);
    }));
  }
}

TEST(Methods, WhatDoesNotGoTogetherIsRefused) {
  EXPECT_EQ(message_of<UsageError>([] { require_one_momentum(find_recipe("dgc"), true); }),
            "memory 'dgc:0.5' carries the momentum itself; allowed: optimiser sgd with momentum 0");
  require_one_momentum(find_recipe("dgc"), false);
  require_one_momentum(find_recipe("natural-feedback"), true);
  auto ends = make_thread_transports(1);
  const std::vector<float> x(kCount);
  const Course five{.recipe = {.name = "x", .mixer = "dpsgd", .topology = "ring:5"}};
  EXPECT_NE(message_of<UsageError>([&] {
              method_of(five, x, *ends[0]);
            }).find("a graph of 5 ranks for 1"),
            std::string::npos);
  const Course own_form{.recipe = {.name = "x", .op = "natural", .mixer = "powergossip"}};
  for (const auto& error :
       on_ranks(2, [&](Transport& transport) { method_of(own_form, x, transport); }))
    EXPECT_NE(error.find("sends in a form of its own"), std::string::npos) << error;
}

TEST(Methods, RanksStartFromTheSameModel) {
  for (const char* name : {"natural", "sbc2"}) {
    const auto errors = on_ranks(2, [&](Transport& transport) {
      const std::vector<float> x(kCount, static_cast<float>(transport.rank()));
      method_of({.recipe = find_recipe(name)}, x, transport);
    });
    for (const std::string& error : errors)
      EXPECT_NE(error.find("ranks disagree on the checksum of the start parameters"),
                std::string::npos)
          << error;
  }
  expect_no_errors(on_ranks(2, [](Transport& transport) {
    method_of({.recipe = find_recipe("natural")}, {}, transport);
    method_of({.recipe = find_recipe("dpsgd")}, {}, transport);
    EXPECT_EQ(
        message_of<UsageError>([&] { method_of({.recipe = find_recipe("sbc2")}, {}, transport); }),
        "recipe 'sbc2' starts from 0 parameters of a model of " + std::to_string(kCount));
  }));
}

TEST(Methods, OnlyAveragedGradientsHaveAnAggregatorToSubmitTo) {
  expect_no_errors(on_ranks(2, [](Transport& transport) {
    const std::vector<float> x(kCount);
    for (const char* name : {"natural", "sbc2", "dpsgd"}) {
      const auto method = method_of({.recipe = find_recipe(name)}, x, transport);
      EXPECT_EQ(method->gradients() != nullptr, std::string(name) == "natural");
    }
  }));
}

TEST(Outer, IsReadAndMistakesAreNamed) {
  EXPECT_EQ(parse_outer("none").momentum, 0);
  const Outer diloco = parse_outer("nesterov");
  EXPECT_EQ(diloco.lr, 0.7F);
  EXPECT_EQ(diloco.momentum, 0.9F);
  EXPECT_TRUE(diloco.nesterov);
  EXPECT_EQ(parse_outer("momentum:0.5").lr, 1);
  EXPECT_EQ(message_of<UsageError>([] { parse_outer("adam"); }),
            "no outer optimiser 'adam'; known: none momentum:MOMENTUM,LR nesterov:MOMENTUM,LR");
  EXPECT_THROW(parse_outer("none:3"), UsageError);
  EXPECT_THROW(parse_outer("momentum:11"), UsageError);
  EXPECT_THROW(parse_outer(""), UsageError);
  EXPECT_THROW(parse_outer("none+none"), UsageError);
}

}  // namespace
}  // namespace laconic::testing

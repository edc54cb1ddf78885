// Streaming DiLoCo: fragments of the model that take turns, rounds under way while ranks train on.
#include <numeric>

#include "laconic/layout/places.h"
#include "laconic/methods/fragments.h"
#include "laconic/transports/callbacks.h"
#include "tests/methods/courses.h"

namespace laconic::testing {
namespace {

Recipe streaming(std::uint64_t fragments, std::uint64_t overlap, double merge) {
  return {.name = "x",
          .exchange = "dense",
          .delay = 4,
          .outer = "nesterov:0.5,0.5",
          .fragments = fragments,
          .overlap = overlap,
          .merge = merge};
}

// The method by a plain loop in double, of all ranks at once: SGD inside, Nesterov outside.
std::vector<std::vector<double>> by_hand(const Course& course, int ranks) {
  const Recipe& r = course.recipe;
  const Fragments fragments = fragments_of(r, kModel);
  const Places places(kModel);
  const auto start = gaussian(kCount);
  std::vector<std::vector<double>> x(static_cast<std::size_t>(ranks), {start.begin(), start.end()});
  std::vector<double> common(start.begin(), start.end()), v(kCount), d(kCount);
  const auto send = [&](std::size_t i) {
    d[i] = 0;
    for (const auto& one : x) d[i] += (common[i] - one[i]) / ranks;
  };
  const auto land = [&](std::size_t i, double merge) {
    v[i] = 0.5 * v[i] + d[i];
    common[i] -= 0.5 * (d[i] + 0.5 * v[i]);
    for (auto& one : x) one[i] = merge * one[i] + (1 - merge) * common[i];
  };
  const auto each = [&](std::uint64_t t, const auto& use) {
    for (std::size_t p = 0; p < fragments.size(); ++p)
      if ((t + 1) % r.delay == p * r.delay / fragments.size())
        for (const std::size_t tensor : fragments[p])
          for (std::size_t i = places.begin(tensor); i < places.end(tensor); ++i) use(i);
  };
  for (std::uint64_t t = 0; t < course.steps; ++t) {
    for (int rank = 0; rank < ranks; ++rank) {
      const auto g = course.gradient(rank, t);
      for (std::size_t i = 0; i < kCount; ++i)
        x[static_cast<std::size_t>(rank)][i] -= course.lr * g[i];
    }
    each(t, send);
    if (t >= r.overlap) each(t - r.overlap, [&](std::size_t i) { land(i, r.merge); });
  }
  for (std::uint64_t t = course.steps; t < course.steps + r.overlap; ++t)  // what is under way
    each(t - r.overlap, [&](std::size_t i) { land(i, r.merge); });
  for (std::size_t i = 0; i < kCount; ++i) {
    send(i);
    land(i, 0);
  }
  return x;
}

TEST(Streaming, IsThePapersLoop) {
  for (const auto& [fragments, overlap, merge] : {std::tuple{1U, 0U, 0.0},
                                                  {1U, 3U, 0.0},
                                                  {1U, 2U, 0.5},
                                                  {1U, 0U, 0.25},
                                                  {2U, 0U, 0.0},
                                                  {2U, 1U, 0.0},
                                                  {2U, 1U, 0.5}})
    for (const std::uint64_t steps : {13, 14, 15}) {
      SCOPED_TRACE(std::to_string(fragments) + " " + std::to_string(overlap) + " " +
                   std::to_string(merge));
      const Course course{.recipe = streaming(fragments, overlap, merge), .steps = steps};
      const auto models = run(course, 3);
      const auto expected = by_hand(course, 3);
      for (std::size_t rank = 0; rank < 3; ++rank) {
        EXPECT_EQ(models[rank], models[0]);
        for (std::size_t i = 0; i < kCount; ++i)
          ASSERT_NEAR(models[rank][i], expected[rank][i], 2e-5) << rank << " " << i;
      }
    }
}

// Closed form 1: one fragment that nobody waits longer for is DiLoCo, bit for bit, also as a
// transaction that ends at once.
TEST(Streaming, OneFragmentWithoutOverlapIsDiloco) {
  for (const char* op : {"identity", "topk:0.2", "natural"}) {
    Course plain{.recipe = {.name = "x", .op = op, .delay = 4, .outer = "nesterov"}};
    Course same = plain;
    same.recipe.fragments = 1;
    same.recipe.overlap = 0;
    same.recipe.merge = 0;
    EXPECT_EQ(write_recipe(same.recipe), write_recipe(plain.recipe));
    EXPECT_EQ(run(same, 3), run(plain, 3));
  }
}

// Closed form 2: where gradients do not couple tensors, each fragment is DiLoCo of its tensors with
// its phase shifted, bit for bit.
TEST(Streaming, AFragmentIsDilocoOfItsTensors) {
  constexpr std::uint64_t kDelay = 5, kSteps = 23;
  const Recipe recipe{.name = "x",
                      .op = "topk:0.3",
                      .memory = "feedback",
                      .delay = kDelay,
                      .outer = "nesterov",
                      .fragments = 2};
  const Fragments fragments = fragments_of(recipe, kModel);
  const Places places(kModel);
  ASSERT_EQ(fragments, (Fragments{{0}, {1}}));
  std::vector<std::vector<float>> streamed(3), alone[2] = {streamed, streamed};
  expect_no_errors(on_ranks(3, [&](Transport& transport) {
    const auto me = static_cast<std::size_t>(transport.rank());
    const auto train = [&](const Model& model, const Recipe& r, std::size_t first,
                           std::uint64_t later) {
      auto all = gaussian(kCount);
      std::vector<float> x(all.begin() + static_cast<std::ptrdiff_t>(first),
                           all.begin() + static_cast<std::ptrdiff_t>(first + count_of(model)));
      const auto method = make_method({.model = model, .recipe = r, .seed = 5}, x, transport);
      for (std::uint64_t t = 0; t < kSteps; ++t) {
        auto g = gradient_of(transport.rank(), t);
        const std::span<float> mine = std::span(g).subspan(first, x.size());
        const StepInfo info{.step = t + later, .lr = 0.125F};
        EXPECT_TRUE(method->before_update(x, mine, info).finite);
        for (std::size_t i = 0; i < x.size(); ++i) x[i] -= 0.125F * mine[i];
        EXPECT_TRUE(method->after_update(x, info).finite);
      }
      return x;
    };
    streamed[me] = train(kModel, recipe, 0, 0);
    Recipe whole = recipe;
    whole.fragments = 1;
    for (std::size_t p = 0; p < 2; ++p)
      alone[p][me] = train({kModel[p]}, whole, places.begin(p), kDelay - p * kDelay / 2);
  }));
  for (std::size_t rank = 0; rank < 3; ++rank)
    for (std::size_t p = 0; p < 2; ++p)
      EXPECT_TRUE(std::equal(alone[p][rank].begin(), alone[p][rank].end(),
                             streamed[rank].begin() + static_cast<std::ptrdiff_t>(places.begin(p))))
          << rank << " " << p;
}

// Closed form 3: models that do not move stay, whatever is under way.
TEST(Streaming, WithoutLearningNothingMoves) {
  const Course course{.recipe = streaming(2, 1, 0), .lr = 0};
  for (const auto& model : run(course, 3)) EXPECT_EQ(model, gaussian(kCount));
}

// Closed form 4: what fragments send in one delay is what DiLoCo sends in one round; one exchange
// sends about its share of it.
TEST(Streaming, BytesOfAllFragmentsAreThoseOfOneRound) {
  const auto payloads = [](std::uint64_t fragments, std::uint64_t overlap) {
    std::vector<std::uint64_t> sent;
    expect_no_errors(on_ranks(3, [&](Transport& transport) {
      Recipe recipe{.name = "x", .delay = 4, .fragments = fragments, .overlap = overlap};
      auto x = gaussian(kCount);
      const auto method = method_of({.recipe = recipe}, x, transport);
      Sgd sgd;
      for (std::uint64_t t = 0; t < 12; ++t) {
        auto g = gradient_of(transport.rank(), t);
        const Stepped stats = step(*method, sgd, x, g, {.step = t, .lr = 0.1F});
        EXPECT_EQ(stats.before.dense_bytes + stats.after.dense_bytes, kCount * 4);
        if (transport.rank() == 0 && t >= 4 && t < 8) sent.push_back(stats.after.payload_bytes);
      }
    }));
    return sent;
  };
  EXPECT_EQ(payloads(1, 0), (std::vector<std::uint64_t>{0, 0, 0, kCount * 4}));
  EXPECT_EQ(payloads(2, 0), (std::vector<std::uint64_t>{0, 8 * 4, 0, 40 * 4}));
  EXPECT_EQ(payloads(2, 1), (std::vector<std::uint64_t>{40 * 4, 0, 8 * 4, 0}));
}

// Every operator, memory and outer optimiser; a round under way is saved and sent again.
TEST(Streaming, GoesOnInTheMiddleOfARoundBitForBit) {
  const std::vector<Recipe> all = {
      {.name = "masks", .op = "topk:0.2", .memory = "feedback:masking=on"},
      {.name = "decays", .op = "sbc:0.1", .memory = "feedback:0.9", .outer = "momentum:0.5"},
      {.name = "draws", .op = "natural", .outer = "nesterov"},
      {.name = "dgc", .op = "topk:0.2", .memory = "dgc", .outer = "nesterov"},
      {.name = "gmc", .op = "topk:0.2", .memory = "gmc"},
      {.name = "ef21", .op = "topk:0.2", .memory = "ef21"},
      {.name = "diana", .op = "natural", .memory = "diana", .outer = "nesterov"},
      {.name = "econtrol", .op = "sign", .memory = "econtrol"},
      {.name = "server",
       .op = "stc:0.2",
       .memory = "feedback",
       .exchange = "server",
       .down_memory = "feedback"},
      {.name = "sharded", .op = "natural", .exchange = "sharded"},
      {.name = "summed", .op = "randomk:0.5", .exchange = "summed"},
      {.name = "sparse", .op = "topk:0.2", .memory = "feedback", .exchange = "sparse"},
      {.name = "powersgd", .exchange = "powersgd"},
  };
  for (Recipe recipe : all)
    for (const auto& [fragments, overlap] : {std::pair{2U, 1U}, {1U, 3U}, {2U, 0U}}) {
      SCOPED_TRACE(recipe.name + " " + std::to_string(fragments) + " " + std::to_string(overlap));
      recipe.delay = 4;
      recipe.fragments = fragments;
      recipe.overlap = overlap;
      recipe.merge = overlap > 0 ? 0.5 : 0;
      Course course{.recipe = recipe, .steps = 11};
      if (recipe.name == "masks") course.momentum = 0.9F;
      const auto straight = run(course, 3);
      for (const auto& model : straight) EXPECT_EQ(model, straight[0]);
      for (const std::uint64_t at : {2, 5, 6, 9}) {
        course.save_at = at;
        EXPECT_EQ(run(course, 3), straight) << at;
      }
    }
}

TEST(Streaming, WhatIsSavedOfARoundIsItsInputAndItsSteps) {
  expect_no_errors(on_ranks(2, [](Transport& transport) {
    const Course course{.recipe = streaming(2, 1, 0)};
    auto x = gaussian(kCount);
    const auto start = x;
    const auto method = method_of(course, x, transport);
    Sgd sgd;
    for (std::uint64_t t = 0; t < 2; ++t) {
      auto g = gradient_of(transport.rank(), t);
      step(*method, sgd, x, g, {.step = t, .lr = 0.125F});
    }
    Saved saved = method->save(x);  // "b" left in step 1 and is due in step 2
    std::vector<float> change(8);
    for (std::size_t i = 0; i < 8; ++i) change[i] = start[40 + i] - x[40 + i];
    EXPECT_EQ(saved.own.at("round/b"), change);
    EXPECT_EQ(saved.own.at("round.steps"), (std::vector<float>{1, 0, 0, 0, 2, 0, 0, 0}));
    EXPECT_FALSE(saved.own.contains("round/w"));
    const auto refusal = [&](const State& own) {
      return message_of<DataError>([&] { method->load({saved.common, own}, x); });
    };
    State other = saved.own;
    other["round.steps"] = {3, 0, 0, 0, 4, 0, 0, 0};
    EXPECT_EQ(refusal(other), "the state has a round under way without tensor 'w'");
    other["round.steps"] = {0, 0, 0, 0, 1, 0, 0, 0};
    EXPECT_NE(refusal(other).find("sent in step 0, due in step 1"), std::string::npos);
    other["round.steps"] = {NAN, 0, 0, 0, 4, 0, 0, 0};
    EXPECT_EQ(refusal(other), "the state of a round under way has no step");
    other.erase("round.steps");
    EXPECT_EQ(refusal(other), "the state has a round under way without its steps");
    method->load(saved, x);
  }));
}

// Momentum of one's own may have moved elsewhere by the time a round ends: it is cleared where
// something was sent, as it lies then.
TEST(Streaming, MomentumIsMaskedWhenTheRoundHasArrived) {
  Recipe recipe{.name = "x", .op = "topk:0.25", .memory = "feedback:masking=on", .delay = 4};
  recipe.overlap = 2;
  auto ends = make_thread_transports(1);
  const auto start = gaussian(kCount);
  auto x = start;
  const auto method = method_of({.recipe = recipe}, x, *ends[0]);
  for (std::uint64_t t = 0; t < 6; ++t) {
    std::vector<float> g = gradient_of(0, t), momentum(kCount, 1);  // another array in every step
    StepInfo info{.step = t, .lr = 0.125F};
    method->before_update(x, g, info);
    for (std::size_t i = 0; i < kCount && t < 4; ++i) x[i] -= 0.125F * g[i];
    info.momentum = momentum;
    method->after_update(x, info);
    for (std::size_t i = 0; i < kCount; ++i)
      EXPECT_EQ(momentum[i], t == 5 && x[i] != start[i] ? 0 : 1) << t << " " << i;
  }
}

TEST(Streaming, ARoundThatIsNotFiniteIsUndoneEverywhere) {
  const Course course{.recipe = streaming(2, 1, 0.5)};
  expect_no_errors(on_ranks(2, [&](Transport& transport) {
    const auto start = gaussian(kCount);
    auto x = start;
    const auto method = method_of(course, x, transport);
    Sgd sgd{0.9F};
    for (std::uint64_t t = 0; t < 12; ++t) {
      const bool burst = transport.rank() == 1 && t < 2;
      std::vector<float> g(kCount, burst ? 3e38F : 1.0F);
      EXPECT_EQ(step(*method, sgd, x, g, {.step = t, .lr = 10}).finite(), t != 2) << t;
      EXPECT_EQ(method->set_back(), t == 2) << t;
      EXPECT_TRUE(t != 2 || x == start);
      EXPECT_EQ(method->replicas_equal(), t == 2);
    }
    for (const float value : x) EXPECT_TRUE(std::isfinite(value));
    method->finish(x, {.step = 11, .lr = 10});
    EXPECT_TRUE(method->replicas_equal());
  }));
}

TEST(Streaming, FragmentsAreOfTheSameSizeAndPartNoSlice) {
  const Model model = {{"a", {30}}, {"b", {3}}, {"c", {20}}, {"d", {4}}, {"e", {10}}, {"f", {5}}};
  const auto of = [&](const char* layout, std::uint64_t fragments) {
    return fragments_of({.name = "x", .layout = layout, .delay = 9, .fragments = fragments}, model);
  };
  EXPECT_EQ(of("tensor", 1), (Fragments{{0, 1, 2, 3, 4, 5}}));
  EXPECT_EQ(of("tensor", 2), (Fragments{{0, 5}, {1, 2, 3, 4}}));
  EXPECT_EQ(of("fused:200", 2), (Fragments{{2, 3, 4, 5}, {0, 1}}));
  EXPECT_EQ(message_of<UsageError>([&] { of("whole", 2); }),
            "recipe 'x' has 2 fragments for a model that layout 'whole' leaves in 1 pieces; "
            "allowed: as many or fewer");
  EXPECT_THROW(of("tensor", 7), UsageError);
}

TEST(Streaming, WhatCannotBeIsRefusedInWords) {
  const auto refusal = [](std::uint64_t fragments, std::uint64_t overlap, double merge) {
    return message_of<UsageError>([&] { check_recipe(streaming(fragments, overlap, merge)); });
  };
  EXPECT_EQ(refusal(0, 0, 0), "a recipe's 'fragments' is 0 with a delay of 4; allowed: 1 to 4");
  EXPECT_EQ(refusal(5, 0, 0), "a recipe's 'fragments' is 5 with a delay of 4; allowed: 1 to 4");
  EXPECT_EQ(refusal(2, 2, 0),
            "a recipe's 'overlap' is 2 with a delay of 4 and fragments 2; allowed: fewer than the "
            "2 steps between two fragments");
  EXPECT_EQ(refusal(2, 1, 1), "a recipe's 'merge' is 1.0; allowed: 0 and more, below 1");
  EXPECT_EQ(message_of<UsageError>([] { check_recipe({.name = "x", .merge = 0.5}); }),
            "a recipe's 'merge' is 0.5 without local steps; allowed: 0");
  EXPECT_EQ(
      message_of<UsageError>([] { check_recipe({.name = "x", .overlap = 1, .mixer = "dpsgd"}); }),
      "recipe 'x' mixes models by 'dpsgd'; its overlap must be left out, not '1'");
  const auto blocking = make_callback_transport(Callbacks());
  const std::vector<float> x(kCount);
  EXPECT_NE(message_of<UsageError>([&] {
              method_of({.recipe = streaming(1, 1, 0)}, x, *blocking);
            }).find("over a transport that blocks; allowed: overlap 0"),
            std::string::npos);
  method_of({.recipe = streaming(2, 0, 0)}, x, *blocking);  // one after the other
}

}  // namespace
}  // namespace laconic::testing

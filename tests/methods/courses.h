// A few steps of a recipe on gradients known beforehand.
#pragma once

#include <functional>

#include "laconic/methods/method.h"
#include "tests/ranks.h"
#include "tests/rounds.h"

namespace laconic::testing {

inline const Model kModel = {{"w", {8, 5}}, {"b", {8}}};
inline constexpr std::size_t kCount = 48;

inline std::vector<float> gradient_of(int rank, std::uint64_t step) {
  return gaussian(kCount, 0.5F, 1 + step * 97 + static_cast<std::uint64_t>(rank));
}

// The host's optimiser: SGD with momentum, by a plain loop.
struct Sgd {
  float momentum = 0;
  std::vector<float> velocity = std::vector<float>(kCount);

  void update(std::span<float> x, std::span<const float> g, float lr) {
    for (std::size_t i = 0; i < kCount; ++i) {
      velocity[i] = momentum * velocity[i] + g[i];
      x[i] -= lr * velocity[i];
    }
  }
  std::span<float> masked() {
    return momentum > 0 ? std::span<float>(velocity) : std::span<float>();
  }
};

// One step as a host makes it. What it cost, and whether all was finite.
struct Stepped {
  StepStats before, after;
  bool finite() const { return before.finite && after.finite; }
};
inline Stepped step(Method& method, Sgd& sgd, std::span<float> x, std::span<float> g,
                    StepInfo info) {
  Stepped stats;
  stats.before = method.before_update(x, g, info);
  if (stats.before.finite) sgd.update(x, g, info.lr);
  info.momentum = sgd.masked();
  stats.after = method.after_update(x, info);
  if (method.set_back()) sgd = {sgd.momentum};
  return stats;
}

struct Course {
  Recipe recipe;
  float momentum = 0;
  float lr = 0.125F;
  std::uint64_t steps = 12;
  std::function<std::vector<float>(int rank, std::uint64_t step)> gradient = gradient_of;
  std::uint64_t save_at = 0;  // above 0: there a new method goes on from what was saved
};

// The recipe with an optimiser that fits it, and rounds short enough that some end and one does
// not.
inline Course course_of(const Recipe& recipe) {
  Course course{.recipe = recipe, .steps = 9};
  shorten_rounds(course.recipe, 4);
  if (recipe.training.momentum.value_or(1) > 0) course.momentum = 0.9F;
  return course;
}

inline std::unique_ptr<Method> method_of(const Course& course, std::span<const float> start,
                                         Transport& transport) {
  return make_method({.model = kModel, .recipe = course.recipe, .seed = 5}, start, transport);
}

// This rank's model after the course, which goes on over the second transport from where it was
// saved.
inline std::vector<float> follow(const Course& course, Transport& transport,
                                 Transport* later = nullptr) {
  std::vector<float> x = gaussian(kCount);
  auto method = method_of(course, x, transport);
  Sgd sgd{course.momentum};
  for (std::uint64_t t = 0; t < course.steps; ++t) {
    if (course.save_at > 0 && t == course.save_at) {
      const Saved saved = method->save(x);
      x = gaussian(kCount);
      method = method_of(course, x, *later);
      method->load(saved, x);
    }
    auto g = course.gradient(transport.rank(), t);
    EXPECT_TRUE(step(*method, sgd, x, g, {.step = t, .lr = course.lr}).finite());
  }
  method->finish(x, {.step = course.steps - 1, .lr = course.lr, .momentum = sgd.masked()});
  return x;
}

// Every rank's model after the course, ranks as threads.
inline std::vector<std::vector<float>> run(const Course& course, int ranks) {
  std::vector<std::vector<float>> models(static_cast<std::size_t>(ranks));
  const Ends later = make_thread_transports(ranks);
  expect_no_errors(on_ranks(ranks, [&](Transport& transport) {
    const auto rank = static_cast<std::size_t>(transport.rank());
    models[rank] = follow(course, transport, later[rank].get());
  }));
  return models;
}

}  // namespace laconic::testing

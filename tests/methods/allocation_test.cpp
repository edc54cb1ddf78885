// Steady state allocates nothing: whatever a step needs, its first steps have taken.
#include <barrier>

#include "tests/allocations.h"
#include "tests/methods/courses.h"

namespace laconic::testing {
namespace {

constexpr int kRanks = 4;
constexpr std::uint64_t kFirst = 20, kLast = 120;

// The steps of a recipe on all ranks, with a plain descent for an optimiser. Counts what is
// allocated from step kFirst to step kLast, by all of them.
std::size_t allocations_of(Recipe recipe) {
  shorten_rounds(recipe, 5);  // several in those steps
  recipe.warmup.clear();
  const Model model = {{"w", {64, 96}}, {"b", {64}}, {"v", {10, 64}}};
  std::barrier all(kRanks);
  std::size_t before = 0, after = 0;  // rank 0 writes them while the others wait
  expect_no_errors(on_ranks(kRanks, [&](Transport& transport) {
    std::vector<float> x(count_of(model), 0.5F), momentum(x.size());
    const auto method = make_method(
        {.model = model, .recipe = recipe, .seed = 3, .timeout_seconds = 3600}, x, transport);
    std::vector<std::vector<float>> gradients;
    for (std::uint64_t i = 0; i < 8; ++i)
      gradients.push_back(
          gaussian(x.size(), 0.01, 8 * static_cast<std::uint64_t>(transport.rank()) + i));
    std::vector<float> g(x.size());
    for (std::uint64_t step = 0; step < kLast; ++step) {
      if (step == kFirst) {
        all.arrive_and_wait();
        if (transport.rank() == 0) before = allocations;
        all.arrive_and_wait();
      }
      std::ranges::copy(gradients[step % gradients.size()], g.begin());
      StepInfo info{.step = step, .lr = 0.1F, .parameters = x, .momentum = momentum};
      method->before_update(x, g, info);
      for (std::size_t i = 0; i < x.size(); ++i) x[i] -= 0.1F * g[i];
      method->after_update(x, info);
    }
    all.arrive_and_wait();
    if (transport.rank() == 0) after = allocations;
    all.arrive_and_wait();
  }));
  return after - before;
}

TEST(Allocation, SteadyStateTakesNothingInAnyRecipe) {
  for (const Recipe& recipe : recipes()) EXPECT_EQ(allocations_of(recipe), 0U) << recipe.name;
}

// Of bytes one slice is float32 at a time, and groups that slices share wait in places of their
// own.
TEST(Allocation, NeitherDoResidualsThatAreKeptAsBytes) {
  for (const char* layout : {"tensor", "whole", "split:1000"})
    for (const char* memory : {"feedback:8bit", "dgc:0.5,8bit"})
      for (const char* op : {"natural", "topk:0.01"})
        EXPECT_EQ(allocations_of({.name = "x", .op = op, .memory = memory, .layout = layout}), 0U)
            << layout << " " << memory << " " << op;
}

}  // namespace
}  // namespace laconic::testing

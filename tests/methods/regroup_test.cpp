// A rank is lost at some message of some step: the others go on without it, whatever the recipe,
// and end with the same model.
#include <atomic>

#include "laconic/transports/faulty.h"
#include "tests/methods/courses.h"

namespace laconic::testing {
namespace {

// One rank's course, as a host makes it that wants to survive.
struct Host {
  Agreement agreement;
  std::unique_ptr<Method> method;
  Transport* among;  // where to go on; null: the others do
  std::vector<float> x;
  bool regrouped = false;

  // Whether the step that failed was made after all.
  bool go_on() {
    if (!among) throw TransportError("this is the rank that is lost");
    regrouped = true;
    return method->regroup(agreement, x, *among) == Outcome::committed;
  }

  void step(Sgd& sgd, const Course& course, int rank, std::uint64_t t) {
    StepInfo info{.step = t, .lr = course.lr};
    std::vector<float> g;
    for (bool made = false; !made;) try {
        g = course.gradient(rank, t);
        made = method->before_update(x, g, info).finite;
      } catch (const Error&) {
        made = go_on();  // then the mean stands in g
      }
    sgd.update(x, g, course.lr);
    info.momentum = sgd.masked();
    for (bool made = false; !made;) try {
        method->after_update(x, info);
        made = true;
      } catch (const Error&) {
        made = go_on();  // then x is what came of the round
      }
  }
};

constexpr int kRanks = 4;

// What ranks say to each other before the first step.
std::uint64_t messages_before(const Course& course, int rank) {
  std::atomic<std::uint64_t> messages = 0;
  expect_no_errors(on_ranks(kRanks, [&](Transport& transport) {
    const auto method = method_of(course, gaussian(kCount), transport);
    if (transport.rank() == rank) messages = transport.messages_sent();
  }));
  return messages;
}

// Survivors' models; none: nobody was lost.
std::vector<std::vector<float>> models_of(const Course& course, int victim, std::uint64_t message) {
  const Ends smaller = make_thread_transports(kRanks - 1);
  std::vector<std::vector<float>> models(smaller.size());
  std::atomic<int> regrouped = 0;
  const auto errors = with_ends(make_thread_transports(kRanks), [&](auto& end) {
    const int rank = end->rank();
    const auto place = static_cast<std::size_t>(rank - (rank > victim));
    if (rank == victim)
      end =
          make_faulty_transport(std::move(end), {{.message = message, .kind = Fault::Kind::kill}});
    Host host{
        .agreement = {.model = kModel, .recipe = course.recipe, .seed = 5, .timeout_seconds = 3600},
        .method = {},
        .among = rank == victim ? nullptr : smaller[place].get(),
        .x = gaussian(kCount)};
    host.method = make_method(host.agreement, host.x, *end);
    Sgd sgd{course.momentum};
    for (std::uint64_t t = 0; t < course.steps; ++t) host.step(sgd, course, rank, t);
    host.method->finish(host.x,
                        {.step = course.steps - 1, .lr = course.lr, .momentum = sgd.masked()});
    if (rank == victim) return;
    models[place] = host.x;
    regrouped += host.regrouped;
  });
  for (int rank = 0; rank < kRanks; ++rank)
    EXPECT_EQ(errors[static_cast<std::size_t>(rank)].empty(), rank != victim || regrouped == 0);
  if (regrouped == 0) return {};
  EXPECT_EQ(regrouped, kRanks - 1);
  return models;
}

TEST(Regroup, EveryRecipeGoesOnWithoutALostRank) {
  int losses = 0;
  for (const Recipe& recipe : recipes()) {
    if (!recipe.mixer.empty()) continue;
    Course course = course_of(recipe);
    // Nobody may have made the last step when the rank is lost: those who have would not come.
    if (recipe.delay > 1) course.steps = 4 * course.recipe.delay;
    for (const int victim : {0, 2}) {
      const std::uint64_t first = messages_before(course, victim);
      for (const std::uint64_t message : {0, 1, 2, 4, 7, 11, 16}) {
        SCOPED_TRACE(recipe.name + ", rank " + std::to_string(victim) + ", message " +
                     std::to_string(message));
        const auto models = models_of(course, victim, first + message);
        if (models.empty()) break;
        ++losses;
        EXPECT_EQ(models[0].size(), kCount);
        for (const auto& model : models) EXPECT_EQ(model, models[0]);
      }
    }
  }
  std::printf("%d losses\n", losses);
  EXPECT_GT(losses, 200);
}

TEST(Regroup, RanksOfAGraphHaveTheirPlacesInIt) {
  expect_no_errors(on_ranks(4, [&](Transport& transport) {
    std::vector<float> x(kCount);
    const Agreement agreement{.model = kModel, .recipe = find_recipe("dpsgd")};
    const auto method = make_method(agreement, x, transport);
    EXPECT_EQ(message_of<UsageError>([&] { method->regroup(agreement, x, transport); }),
              "recipe 'dpsgd' has no centre, and each rank its place in the topology; allowed: a "
              "recipe without mixer");
  }));
}

}  // namespace
}  // namespace laconic::testing

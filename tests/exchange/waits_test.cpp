// Whoever waits for a part is told when it ends, or that it cannot.
#include <atomic>

#include "laconic/layout/places.h"
#include "tests/exchange/failures.h"
#include "tests/exchange/jobs.h"

namespace laconic::testing {
namespace {

// Rank 1 submits only after rank 0 has waited in vain.
TEST(Waits, WithALimitEnd) {
  for (const Engine engine : {Engine::callers, Engine::thread}) {
    std::atomic<bool> waited = false;
    expect_no_errors(on_ranks(2, [&](Transport& transport) {
      laconic::Setup setup = setup_of({.ranks = 2}, transport);
      setup.engine = engine;
      const auto aggregator = make_aggregator("gather", std::move(setup));
      auto gradient = gradient_of(transport.rank(), 0);
      const Places places(kModel);
      const std::vector<std::size_t> tensors = {0, 1, 2, 3};
      std::vector<void*> data;
      for (const std::size_t t : tensors) data.push_back(gradient.data() + places.begin(t));
      aggregator->begin({});
      if (transport.rank() == 1) waited.wait(false);
      aggregator->submit({.tensors = tensors, .data = data});
      if (transport.rank() == 0) {
        EXPECT_FALSE(aggregator->wait(0, 0.001));
        waited = true;
        waited.notify_all();
      }
      EXPECT_TRUE(aggregator->wait(0, 3600));
      EXPECT_TRUE(aggregator->finish().finite);
    }));
  }
}

TEST(Waits, ForWhatWasNotSubmittedAreMistakesAndNoHangs) {
  auto ends = make_thread_transports(1);
  const auto aggregator = make({.layout = "whole", .ranks = 1}, *ends[0]);
  auto gradient = gradient_of(0, 0);
  aggregator->begin({});
  const std::size_t tensors[] = {0, 1, 3};
  const Places places(kModel);
  void* const data[] = {gradient.data(), gradient.data() + places.begin(1),
                        gradient.data() + places.begin(3)};
  aggregator->submit({.tensors = tensors, .data = data});
  EXPECT_FALSE(aggregator->poll(0));
  EXPECT_EQ(message_of<UsageError>([&] { aggregator->wait(0); }),
            "part 0 waits for tensor 'w2', which was not submitted yet");
  EXPECT_EQ(message_of<UsageError>([&] { aggregator->finish(); }),
            "the step ends without tensor 'w2', whose slice has others that were submitted");
}

TEST(Waits, ForAPartThatWaitsForTheNextAreMistakesToo) {
  for (const Engine engine : {Engine::thread, Engine::callers}) {
    auto ends = make_thread_transports(1);
    laconic::Setup setup = setup_of({.ranks = 1}, *ends[0]);
    const Places places(kModel);
    setup.engine = engine;
    setup.unit_bytes = 4 * (places.count(1) + places.count(2));
    const auto aggregator = make_aggregator("gather", std::move(setup));
    auto gradient = gradient_of(0, 0);
    const auto submit = [&](std::size_t tensor) {
      void* const data[] = {gradient.data() + places.begin(tensor)};
      aggregator->submit({.tensors = {&tensor, 1}, .data = data});
    };
    const auto refusal = [&](std::size_t part) {
      const auto wait = [&] { aggregator->wait(part); };
      return message_of<UsageError>(wait).substr(0, 53);
    };
    aggregator->begin({});
    submit(1);
    EXPECT_FALSE(aggregator->poll(0));
    EXPECT_EQ(refusal(0), "part 0 waits for tensors that were not submitted yet:");
    submit(2);
    EXPECT_TRUE(aggregator->wait(0));
    EXPECT_TRUE(aggregator->wait(1));
    submit(3);
    EXPECT_EQ(refusal(2), "part 2 waits for tensors that were not submitted yet:");
    submit(0);
    EXPECT_TRUE(aggregator->wait(2));
    EXPECT_TRUE(aggregator->finish().finite);
    aggregator->commit();
  }
}

// Nothing is sent before all is there.
TEST(Waits, ForAPartThatIsClippedWithTheRestAreMistakesToo) {
  for (const Engine engine : {Engine::thread, Engine::callers}) {
    auto ends = make_thread_transports(1);
    laconic::Setup setup =
        setup_of({.op = "topk:0.1", .memory = "dgc:clip=2", .ranks = 1}, *ends[0]);
    const Places places(kModel);
    setup.engine = engine;
    setup.unit_bytes = 1;
    const auto aggregator = make_aggregator("gather", std::move(setup));
    auto gradient = gradient_of(0, 0);
    aggregator->begin({});
    for (std::size_t t = 0; t < kModel.size(); ++t) {
      void* const data[] = {gradient.data() + places.begin(t)};
      aggregator->submit({.tensors = {&t, 1}, .data = data});
      if (t + 1 == kModel.size()) continue;
      EXPECT_FALSE(aggregator->poll(t));
      EXPECT_EQ(message_of<UsageError>([&] { aggregator->wait(t); }),
                "part " + std::to_string(t) +
                    " waits for tensors that were not submitted yet: memory 'dgc:clip=2' asks for "
                    "the norm of the whole gradient before anything is sent");
    }
    EXPECT_TRUE(aggregator->wait(0));
    EXPECT_TRUE(aggregator->finish().finite);
    aggregator->commit();
  }
}

}  // namespace
}  // namespace laconic::testing

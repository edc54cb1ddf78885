// However a step is handed over, part by part, in any order, from anywhere, it is the same step.
#include <atomic>
#include <numeric>
#include <random>

#include "laconic/layout/places.h"
#include "tests/exchange/failures.h"
#include "tests/exchange/jobs.h"

namespace laconic::testing {
namespace {

// How a rank hands its gradient over.
struct Way {
  std::string name;
  std::vector<std::vector<std::size_t>> parts = {{0, 1, 2, 3}};
  std::size_t unit_bytes = 1 << 20;
  Engine engine = Engine::callers;
  bool apart = false;    // every tensor in an array of its own
  bool threads = false;  // each part from a thread of its own, in turn
};

const std::vector<Way> kWays = {
    {.name = "in reverse", .parts = {{3}, {2}, {1}, {0}}},
    {.name = "in reverse, each a unit", .parts = {{3}, {2}, {1}, {0}}, .unit_bytes = 1},
    {.name = "mixed, apart", .parts = {{2, 0}, {3, 1}}, .unit_bytes = 1, .apart = true},
    {.name = "by the engine's thread",
     .parts = {{1}, {0, 3}, {2}},
     .unit_bytes = 200,
     .engine = Engine::thread},
    {.name = "from several threads",
     .parts = {{3}, {2}, {1}, {0}},
     .unit_bytes = 1,
     .engine = Engine::thread,
     .apart = true,
     .threads = true},
};

struct Result {
  std::vector<std::vector<float>> means;  // by step
  State state;

  friend bool operator==(const Result&, const Result&) = default;
};

std::vector<float> hand_over(Aggregator& aggregator, const Way& way, const StepInfo& info,
                             const std::vector<float>& gradient) {
  const Places places(kModel);
  std::vector<float> flat = gradient;
  std::vector<std::vector<float>> arrays;
  std::vector<void*> data;
  for (std::size_t t = 0; t < kModel.size(); ++t) {
    arrays.emplace_back(flat.begin() + static_cast<std::ptrdiff_t>(places.begin(t)),
                        flat.begin() + static_cast<std::ptrdiff_t>(places.end(t)));
    data.push_back(way.apart ? arrays[t].data() : flat.data() + places.begin(t));
  }
  aggregator.begin(info);
  for (const auto& tensors : way.parts) {
    std::vector<void*> some;
    for (const std::size_t t : tensors) some.push_back(data[t]);
    const auto submit = [&] { aggregator.submit({.tensors = tensors, .data = some}); };
    if (way.threads)
      std::thread(submit).join();
    else
      submit();
  }
  const StepStats stats = aggregator.finish();
  EXPECT_TRUE(stats.finite);
  EXPECT_EQ(stats.dense_bytes, 4 * flat.size());
  for (std::size_t part = 0; part < way.parts.size(); ++part) EXPECT_TRUE(aggregator.poll(part));
  aggregator.commit();
  if (way.apart)
    for (std::size_t t = 0; t < arrays.size(); ++t)
      std::ranges::copy(arrays[t], flat.begin() + static_cast<std::ptrdiff_t>(places.begin(t)));
  return flat;
}

std::vector<Result> results_of(const Job& job, const Way* way) {
  std::vector<Result> results(static_cast<std::size_t>(job.ranks));
  expect_no_errors(on_ranks(job.ranks, [&](Transport& transport) {
    Setup setup = setup_of(job, transport);
    if (way) {
      setup.unit_bytes = way->unit_bytes;
      setup.engine = way->engine;
    }
    const auto aggregator = make_aggregator(job.exchange, std::move(setup));
    Result& result = results[static_cast<std::size_t>(transport.rank())];
    std::vector<float> parameters;
    for (std::uint64_t step = 0; step < 3; ++step) {
      const StepInfo info = info_of(step, parameters);
      auto gradient = gradient_of(transport.rank(), step);
      if (way)
        gradient = hand_over(*aggregator, *way, info, gradient);
      else
        aggregator->average(gradient, info);
      result.means.push_back(gradient);
    }
    result.state = aggregator->save();
  }));
  return results;
}

// Sanitizers look at code, not at numbers: one job of each exchange is enough for them.
std::vector<Job> jobs_to_submit() {
#if defined(LACONIC_SANITIZED)
  return one_of_each(3);
#else
  return all_jobs(3);
#endif
}

// Means, bytes of residuals: everything. Slices over several parts wait for the last of them.
TEST(Pipeline, EveryWayToSubmitIsTheSameStep) {
  for (const Job& job : jobs_to_submit()) {
    const auto straight = results_of(job, nullptr);
    for (const Way& way : kWays)
      EXPECT_EQ(results_of(job, &way), straight) << text_of(job) << ", " << way.name;
  }
}

// Short steps meet all moments at which the engine's thread may be about to sleep: nothing that was
// submitted is left out, and no step waits for a thread that has gone to sleep over it.
TEST(Pipeline, ManyShortStepsEachWithAllTheirParts) {
  for (const int ranks : {1, 2, 3}) {
    const Job job{.op = "identity", .exchange = "gather", .ranks = ranks};
    expect_no_errors(on_ranks(job.ranks, [&](Transport& transport) {
      laconic::Setup setup = setup_of(job, transport);
      setup.unit_bytes = 1;
      setup.engine = Engine::thread;
      const auto aggregator = make_aggregator(job.exchange, std::move(setup));
      const Places places(kModel);
      std::vector<float> gradient(count_of(kModel));
      for (std::uint64_t step = 0; step < 2000; ++step) {
        std::ranges::fill(gradient, static_cast<float>(transport.rank() + 1));
        aggregator->begin({.step = step});
        for (std::size_t t = 0; t < kModel.size(); ++t) {
          void* data = gradient.data() + places.begin(t);
          aggregator->submit({.tensors = std::span(&t, 1), .data = std::span(&data, 1)});
          for (std::uint64_t i = 0; i < (step * 37 + t * 11) % 300; ++i)
            std::atomic_signal_fence(std::memory_order_seq_cst);  // another moment in every step
        }
        ASSERT_TRUE(aggregator->finish().finite);
        const float mean = static_cast<float>(ranks + 1) / 2;
        ASSERT_TRUE(std::ranges::all_of(gradient, [&](float x) { return x == mean; })) << step;
      }
    }));
  }
}

// Memories that look at the length of the whole gradient first.
TEST(Pipeline, AClippedGradientIsTheSameStepToo) {
  const Job job{.op = "topk:0.1", .memory = "dgc:clip=2", .ranks = 3};
  const auto straight = results_of(job, nullptr);
  for (const Way& way : kWays) EXPECT_EQ(results_of(job, &way), straight) << way.name;
}

std::vector<std::uint16_t> rounded(std::span<const float> x, Dtype dtype) {
  std::vector<std::uint16_t> halves(x.size());
  const Piece piece{x.size(), halves.data(), dtype};
  Floats(std::span(&piece, 1)).store(0, x.size(), x.data());
  return halves;
}

std::vector<float> widened(std::vector<std::uint16_t>& halves, Dtype dtype) {
  const Piece piece{halves.size(), halves.data(), dtype};
  std::vector<float> x(halves.size());
  Floats(std::span(&piece, 1)).load(0, x.size(), x.data());
  return x;
}

// The mean is made in float32 and rounded once.
TEST(Pipeline, SixteenBitGradientsAreThoseOfTheirValues) {
  for (const Dtype dtype : {Dtype::bfloat16, Dtype::float16})
    for (const char* exchange : {"gather", "dense", "sharded", "powersgd", "global", "arc"}) {
      const Job job{.op = exchange == std::string("gather") ? "topk:0.1+natural" : "identity",
                    .memory = exchange == std::string("gather") ? "feedback" : "none",
                    .exchange = exchange,
                    .ranks = 2};
      expect_no_errors(on_ranks(job.ranks, [&](Transport& transport) {
        const auto wide = make(job, transport), narrow = make(job, transport);
        for (std::uint64_t step = 0; step < 3; ++step) {
          auto halves = rounded(gradient_of(transport.rank(), step), dtype);
          auto floats = widened(halves, dtype);
          wide->average(floats, {.step = step});
          narrow->begin({.step = step});
          std::vector<std::size_t> tensors = {0, 1, 2, 3};
          std::vector<void*> data;
          const Places places(kModel);
          for (const std::size_t t : tensors) data.push_back(halves.data() + places.begin(t));
          narrow->submit({.tensors = tensors, .data = data, .dtype = dtype});
          const StepStats stats = narrow->finish();
          EXPECT_EQ(stats.dense_bytes, 2 * floats.size());
          narrow->commit();
          EXPECT_EQ(halves, rounded(floats, dtype)) << text_of(job);
          EXPECT_EQ(narrow->save(), wide->save()) << text_of(job);
        }
      }));
    }
}

// A mean that binary16 cannot hold is not finite for anybody.
TEST(Pipeline, FiniteIsJudgedInTheHostsType) {
  expect_no_errors(on_ranks(2, [&](Transport& transport) {
    const Job job{.op = "natural:nearest", .memory = "feedback", .ranks = 2};
    const auto aggregator = make(job, transport);
    const State before = aggregator->save();
    std::vector<float> large(count_of(kModel), 60000.0F);
    auto halves = rounded(large, Dtype::float16);
    const Places places(kModel);
    std::vector<std::size_t> tensors = {0, 1, 2, 3};
    std::vector<void*> data;
    for (const std::size_t t : tensors) data.push_back(halves.data() + places.begin(t));
    aggregator->begin({});
    aggregator->submit({.tensors = tensors, .data = data, .dtype = Dtype::float16});
    EXPECT_FALSE(aggregator->finish().finite) << "65536 is the nearest power of two";
    EXPECT_EQ(aggregator->outcome(), Outcome::rolled_back);
    EXPECT_EQ(aggregator->save(), before);
  }));
}

TEST(Pipeline, APartIsDoneWhenItsSlicesAre) {
  expect_no_errors(on_ranks(2, [&](Transport& transport) {
    laconic::Setup setup = setup_of({.ranks = 2}, transport);
    setup.unit_bytes = 1;
    const auto aggregator = make_aggregator("gather", std::move(setup));
    auto gradient = gradient_of(transport.rank(), 0);
    const Places places(kModel);
    aggregator->begin({});
    const auto submit = [&](std::vector<std::size_t> tensors) {
      std::vector<void*> data;
      for (const std::size_t t : tensors) data.push_back(gradient.data() + places.begin(t));
      return aggregator->submit({.tensors = tensors, .data = data});
    };
    EXPECT_EQ(submit({3, 2}), 0U);
    aggregator->wait(0);
    EXPECT_TRUE(aggregator->poll(0));
    EXPECT_EQ(submit({0}), 1U);
    EXPECT_EQ(submit({1}), 2U);
    aggregator->wait(1);
    aggregator->wait(2);  // the last one: after the vote
    EXPECT_TRUE(aggregator->finish().finite);
    aggregator->commit();
    EXPECT_EQ(gradient, means_of({.ranks = 2, .steps = 1})[0][0]);
  }));
}

TEST(Pipeline, MistakesOfTheCallerAreSentences) {
  auto ends = make_thread_transports(1);
  const auto aggregator = make({.ranks = 1}, *ends[0]);
  std::vector<float> gradient(count_of(kModel));
  const std::size_t first[] = {0}, unknown[] = {7};
  void* const data[] = {gradient.data()};
  void* const none[] = {nullptr};
  const auto refusal = [&](auto&& call) { return message_of<UsageError>(call); };
  EXPECT_NE(refusal([&] { aggregator->submit({.tensors = first, .data = data}); }), "");
  EXPECT_NE(refusal([&] { aggregator->finish(); }), "");
  EXPECT_NE(refusal([&] { aggregator->commit(); }), "");
  aggregator->begin({});
  EXPECT_EQ(refusal([&] { aggregator->submit({.tensors = unknown, .data = data}); }),
            "tensor 7 is none of the model's");
  EXPECT_EQ(refusal([&] { aggregator->submit({.tensors = first, .data = none}); }),
            "tensor 0 ('w1') has no array");
  aggregator->submit({.tensors = first, .data = data});
  EXPECT_EQ(refusal([&] { aggregator->submit({.tensors = first, .data = data}); }),
            "tensor 0 ('w1') was submitted before in this step");
  EXPECT_NE(refusal([&] { aggregator->begin({}); }), "");
  EXPECT_NE(refusal([&] { aggregator->save(); }), "");
  EXPECT_NE(refusal([&] { aggregator->poll(3); }), "");
  aggregator->finish();  // the others rest
  EXPECT_NE(refusal([&] { aggregator->save(); }), "");
  aggregator->rollback();
  aggregator->save();
}

// What tensors cost is what the step cost, whatever the slices are.
TEST(Pipeline, TensorsShareTheCostOfAStep) {
  for (const Job& job : all_jobs(2))
    expect_no_errors(on_ranks(job.ranks, [&](Transport& transport) {
      const auto aggregator = make(job, transport);
      std::vector<float> parameters;
      auto gradient = gradient_of(transport.rank(), 0);
      const StepStats stats = aggregator->average(gradient, info_of(0, parameters));
      std::uint64_t payload = 0, dense = 0;
      for (std::size_t t = 0; t < kModel.size(); ++t) {
        const TensorStats one = aggregator->tensor_stats(t);
        payload += one.payload_bytes;
        dense += one.dense_bytes;
      }
      EXPECT_NEAR(static_cast<double>(payload), static_cast<double>(stats.payload_bytes),
                  static_cast<double>(kModel.size()))
          << text_of(job);
      EXPECT_EQ(dense, stats.dense_bytes);
      EXPECT_THROW(aggregator->tensor_stats(kModel.size()), UsageError);
    }));
}

// Each part is a unit of its own here, and each goes its way in order.
TEST(Pipeline, UnitsTellWhenTheyWentWhere) {
  expect_no_errors(on_ranks(2, [&](Transport& transport) {
    const auto aggregator =
        make_aggregator("gather", {.transport = transport,
                                   .model = kModel,
                                   .plan = make_plan(kModel, "tensor", parse_operator("natural")),
                                   .unit_bytes = 1});
    auto gradient = gradient_of(transport.rank(), 0);
    const Places places(kModel);
    aggregator->begin({});
    for (std::size_t t = 0; t < kModel.size(); ++t) {
      void* data = gradient.data() + places.begin(t);
      aggregator->submit({.tensors = {&t, 1}, .data = {&data, 1}});
    }
    EXPECT_THROW(aggregator->unit_times(), UsageError);
    aggregator->finish();
    const std::vector<UnitTimes> units = aggregator->unit_times();
    ASSERT_EQ(units.size(), kModel.size());
    double closed = 0;
    for (std::size_t t = 0; t < units.size(); ++t) {
      EXPECT_EQ(units[t].bytes, sizeof(float) * kModel[t].count());
      EXPECT_LE(closed, units[t].closed);
      EXPECT_LE(units[t].closed, units[t].left);
      EXPECT_LE(units[t].left, units[t].arrived);
      EXPECT_LE(units[t].arrived, units[t].written);
      closed = units[t].closed;
    }
  }));
}

// Nobody submits the first tensor: it keeps everything, and the others go on.
TEST(Pipeline, WhatNobodySubmitsRests) {
  for (const Job& job : all_jobs(2)) {
    if (job.layout != "tensor") continue;
    expect_no_errors(on_ranks(job.ranks, [&](Transport& transport) {
      const auto aggregator = make(job, transport);
      std::vector<float> parameters;
      auto gradient = gradient_of(transport.rank(), 0);
      aggregator->average(gradient, info_of(0, parameters));
      const State before = aggregator->save();
      gradient = gradient_of(transport.rank(), 1);
      const auto untouched = gradient;
      const Places places(kModel);
      const std::size_t tensors[] = {1, 2, 3};
      void* data[3];
      for (std::size_t i = 0; i < 3; ++i) data[i] = gradient.data() + places.begin(tensors[i]);
      aggregator->begin(info_of(1, parameters));
      aggregator->submit({.tensors = tensors, .data = data});
      EXPECT_TRUE(aggregator->finish().finite);
      aggregator->commit();
      EXPECT_TRUE(std::equal(gradient.begin(), gradient.begin() + 1200, untouched.begin()));
      for (const auto& [name, values] : aggregator->save())
        if (name.ends_with("/w1")) {
          EXPECT_EQ(values, before.at(name)) << name << " " << text_of(job);
        }
    }));
  }
}

// A loss scale that is a power of two changes nothing but the scale of the mean.
TEST(Pipeline, ResidualsAreKeptWithoutTheLossScale) {
  for (const char* memory :
       {"feedback", "feedback:0.75", "feedback:step", "dgc", "gmc", "ef21", "diana"}) {
    const bool unbiased = memory == std::string("diana");
    const Job job{.op = unbiased ? "natural" : "topk:0.1", .memory = memory, .ranks = 2};
    expect_no_errors(on_ranks(job.ranks, [&](Transport& transport) {
      const auto plain = make(job, transport), scaled = make(job, transport);
      std::vector<float> parameters;
      for (std::uint64_t step = 0; step < 4; ++step) {
        StepInfo info = info_of(step, parameters);
        auto a = gradient_of(transport.rank(), step), b = a;
        info.scale = step < 2 ? 1024.0F : 16.0F;
        for (float& x : b) x *= info.scale;
        scaled->average(b, info);
        for (float& x : b) x /= info.scale;
        info.scale = 1;
        plain->average(a, info);
        EXPECT_EQ(a, b) << memory;
        EXPECT_EQ(plain->save(), scaled->save()) << memory;
      }
    }));
  }
}

}  // namespace
}  // namespace laconic::testing

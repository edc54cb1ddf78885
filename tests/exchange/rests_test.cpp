// Of what rests nothing is sent, and what is remembered of it stays.
#include <cmath>
#include <mutex>

#include "laconic/layout/places.h"
#include "tests/exchange/failures.h"
#include "tests/exchange/jobs.h"

namespace laconic::testing {
namespace {

// One rank has nothing to say of a tensor: the mean is made of the others', and its residual waits.
TEST(Rests, KeepATensorsMemory) {
  for (const char* exchange : {"gather", "sharded", "server", "summed"}) {
    const Job job{.op = "randomk:0.2,unscaled",
                  .memory = "feedback",
                  .exchange = exchange,
                  .down_memory = exchange == std::string("server") ? "feedback" : "none",
                  .ranks = 3};
    expect_no_errors(on_ranks(job.ranks, [&](Transport& transport) {
      const auto aggregator = make(job, transport);
      auto gradient = gradient_of(transport.rank(), 0);
      aggregator->average(gradient, {});
      const State before = aggregator->save();
      const bool resting = transport.rank() == 1;
      gradient = gradient_of(transport.rank(), 1);
      const Places places(kModel);
      if (resting) std::fill_n(gradient.begin(), places.end(0), 0.0F);
      const std::size_t tensors[] = {0, 1, 2, 3};
      void* data[4];
      for (std::size_t t = 0; t < 4; ++t) data[t] = gradient.data() + places.begin(t);
      const bool rests[] = {resting, false, false, false};
      aggregator->begin({.step = 1});
      aggregator->submit({.tensors = tensors, .data = data, .rests = rests});
      EXPECT_TRUE(aggregator->finish().finite);
      aggregator->commit();
      const State after = aggregator->save();
      EXPECT_EQ(before.at("feedback/w1") == after.at("feedback/w1"), resting) << exchange;
      EXPECT_NE(before.at("feedback/w2"), after.at("feedback/w2"));
      EXPECT_TRUE(std::ranges::any_of(std::span(gradient).first(places.end(0)), [](float x) {
        return x != 0;
      })) << "the others' mean";
    }));
  }
}

// A gradient of zeros says nothing, whoever computed it: what is owed of the tensor is not sent, so
// that nothing is lost where the host passes over the mean of a tensor that no rank has used.
TEST(Rests, AreGradientsOfZeros) {
  for (Job job : all_jobs(3)) {
    if (job.layout != "tensor") continue;
    if (job.exchange == "server" && job.memory == "feedback") job.down_memory = "feedback";
    if (job.exchange == "dense") continue;  // remembers nothing
    expect_no_errors(on_ranks(job.ranks, [&](Transport& transport) {
      const auto aggregator = make(job, transport);
      std::vector<float> parameters;
      auto gradient = gradient_of(transport.rank(), 0);
      aggregator->average(gradient, info_of(0, parameters));
      const State before = aggregator->save();
      gradient = gradient_of(transport.rank(), 1);
      const Places places(kModel);
      std::fill_n(gradient.begin(), places.end(0), -0.0F);
      aggregator->average(gradient, info_of(1, parameters));
      for (const auto& [name, values] : aggregator->save())
        if (name.ends_with("/" + kModel[0].name)) {
          EXPECT_EQ(values, before.at(name)) << text_of(job) << ": " << name;
        }
      const TensorStats zeros = aggregator->tensor_stats(0), others = aggregator->tensor_stats(1);
      EXPECT_TRUE(zeros.rests && !others.rests) << text_of(job);
      EXPECT_EQ(zeros.dense_bytes, 4 * places.count(0));
      EXPECT_GT(others.payload_bytes, 0U);
    }));
  }
}

// The same of a slice that rests while others of its tensors do not, in every memory.
TEST(Rests, AreSlicesBesideOthersOfTheirTensors) {
  constexpr std::ptrdiff_t kResting = 1000;  // two slices, and the third has all other zeros
  for (const MemoryInfo& info : memories())
    for (const std::string& memory : info.examples) {
      const Job job{.op = info.wants_unbiased ? "natural" : "topk:0.1",
                    .memory = memory,
                    .layout = "split:500",
                    .ranks = 2};
      expect_no_errors(on_ranks(job.ranks, [&](Transport& transport) {
        const auto aggregator = make(job, transport);
        std::vector<float> parameters;
        State before;
        for (const std::uint64_t step : {0U, 1U, 2U}) {
          before = aggregator->save();
          auto gradient = gradient_of(transport.rank(), step);
          if (step == 2) std::fill_n(gradient.begin(), Places(kModel).end(1), 0.0F);
          aggregator->average(gradient, info_of(step, parameters));
        }
        for (const auto& [name, values] : aggregator->save())
          if (name.ends_with("/w1")) {
            const auto& kept = before.at(name);
            EXPECT_TRUE(std::equal(kept.begin(), kept.begin() + kResting, values.begin()))
                << text_of(job) << ": " << name;
            EXPECT_NE(kept, values) << text_of(job) << ": " << name;
          }
      }));
    }
}

// One rank's zeros are no reason to lose anything: all that is delivered and owed is what was
// there.
TEST(Rests, OfSomeRanksKeepTheSum) {
  std::vector<Job> jobs;
  for (const char* exchange : {"gather", "sharded", "server", "sparse"})
    for (const char* layout : {"tensor", "split:500"})
      jobs.push_back({.op = "topk:0.1",
                      .memory = "feedback",
                      .layout = layout,
                      .exchange = exchange,
                      .down_memory = exchange == std::string("server") ? "feedback" : "none",
                      .ranks = 3});
  for (const char* exchange : {"powersgd", "arc"})
    jobs.push_back({.op = "identity", .exchange = exchange, .ranks = 3});
  for (const Job& job : jobs) {
    std::vector<double> sum(count_of(kModel));
    std::mutex mutex;
    expect_no_errors(on_ranks(job.ranks, [&](Transport& transport) {
      const auto aggregator = make(job, transport);
      const auto add = [&](std::span<const float> values, std::size_t from, double weight) {
        const std::lock_guard lock(mutex);
        for (std::size_t i = 0; i < values.size(); ++i) sum[from + i] += weight * values[i];
      };
      const Places places(kModel);
      for (std::uint64_t step = 0; step < 4; ++step) {
        auto gradient = gradient_of(transport.rank(), step);
        if (static_cast<std::uint64_t>(transport.rank()) < step)
          std::fill_n(gradient.begin(), places.end(1), 0.0F);
        add(gradient, 0, 1);
        aggregator->average(gradient, {.step = step});
        add(gradient, 0, -1);
      }
      for (const auto& [name, values] : aggregator->save())
        for (std::size_t t = 0; t < kModel.size(); ++t)
          if (name.ends_with("/" + kModel[t].name) && values.size() == places.count(t))
            add(values, places.begin(t), -1);
    }));
    double most = 0;
    for (const double x : sum) most = std::max(most, std::abs(x));
    EXPECT_LE(most, 1e-4) << text_of(job);
  }
}

}  // namespace
}  // namespace laconic::testing

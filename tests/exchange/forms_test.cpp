// Methods of the papers in closed form, each through a real exchange.
#include "tests/exchange/support.h"

namespace laconic::testing {
namespace {

// Every exchange that takes this pair.
std::vector<std::string> takers_of(const char* op, const char* memory) {
  std::vector<std::string> names;
  auto ends = make_thread_transports(1);
  for (const ExchangeInfo& exchange : exchanges()) {
    try {
      make({.op = op, .memory = memory, .exchange = exchange.name}, *ends[0]);
      names.push_back(exchange.name);
    } catch (const UsageError&) {  // another, then
    }
  }
  return names;
}

// The model after each of eight steps of plain descent along what an exchange hands out.
std::vector<std::vector<float>> descent(const Job& job, float lr) {
  std::vector<std::vector<float>> models;
  expect_no_errors(on_ranks(job.ranks, [&](Transport& transport) {
    const auto aggregator = make(job, transport);
    std::vector<float> w(count_of(kModel), 7);
    for (std::uint64_t step = 0; step < 8; ++step) {
      auto gradient = whole_numbers(transport.rank(), step);
      aggregator->average(gradient, {.step = step, .lr = lr, .parameters = w});
      for (std::size_t i = 0; i < w.size(); ++i) w[i] -= lr * gradient[i];
      if (transport.rank() == 0) models.push_back(w);
    }
  }));
  return models;
}

// Zhao et al., Global Momentum Compression: with nothing dropped it is momentum SGD on the mean
// gradient, m = beta m + g; w = w - lr m. On four ranks to the bit: all numbers are short.
TEST(Forms, GmcWithoutCompressionIsMomentumSgd) {
  constexpr float kLr = 0.25F, kBeta = 0.5F;
  const auto takers = takers_of("identity", "gmc:0.5");
  EXPECT_GE(takers.size(), 4U);
  for (const std::string& exchange : takers)
    for (const int ranks : {3, 4}) {
      const auto models = descent(
          {.op = "identity", .memory = "gmc:0.5", .exchange = exchange, .ranks = ranks}, kLr);
      std::vector<double> w(count_of(kModel), 7), momentum(w.size());
      for (std::uint64_t step = 0; step < models.size(); ++step) {
        std::vector<double> mean(w.size());
        for (int rank = 0; rank < ranks; ++rank) {
          const auto gradient = whole_numbers(rank, step);
          for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += gradient[i];
        }
        for (std::size_t i = 0; i < w.size(); ++i) {
          momentum[i] = kBeta * momentum[i] + mean[i] / ranks;
          w[i] -= kLr * momentum[i];
          ASSERT_NEAR(models[step][i], w[i], ranks == 4 ? 0 : 2e-3)
              << exchange << " on " << ranks << ", step " << step << ", entry " << i;
        }
      }
    }
}

// Sattler et al., Sparse Binary Compression, of all entries, sent in every step: a constant vector
// is its own mean, so it arrives as it is and nothing is owed.
TEST(Forms, SbcOfAConstantVectorIsExact) {
  for (const float constant : {0.75F, -3.0F}) {
    const std::vector<float> x(count_of(kModel), constant);
    for (const std::string& exchange : takers_of("sbc:1", "feedback"))
      expect_no_errors(on_ranks(4, [&](Transport& transport) {
        const auto aggregator =
            make({.op = "sbc:1", .memory = "feedback", .exchange = exchange}, transport);
        for (std::uint64_t step = 0; step < 3; ++step) {
          auto gradient = x;
          aggregator->average(gradient, {.step = step});
          EXPECT_EQ(gradient, x) << exchange;
          EXPECT_EQ(aggregator->residual_norm(), 0) << exchange;
        }
      }));
  }
}

// SparseLoCo: 64 of every 4096 entries, each 12 bits of position and 2 of value, are 112 bytes per
// 4096 entries. A section has a few bytes beside them, however many chunks there are: one names the
// code of positions, four are the scale of values, or eight its two ends. Heads of frames are not
// payload.
TEST(Forms, ASparseLoCoMessageHas112BytesPerChunk) {
  const auto payload = [](std::size_t chunks, const char* values, const char* memory) {
    const Model model = {{"x", {4096 * chunks}}};
    const Operator op = parse_operator(std::string("chunk:4096,kept=64,fixed+") + values);
    std::uint64_t bytes = 0;
    expect_no_errors(on_ranks(2, [&](Transport& transport) {
      const auto aggregator = make_aggregator("gather", {.transport = transport,
                                                         .model = model,
                                                         .plan = make_plan(model, "tensor", op),
                                                         .memory = memory});
      const auto rank = static_cast<std::uint64_t>(transport.rank());
      auto gradient = gaussian(count_of(model), 1, rank);
      const StepStats stats = aggregator->average(gradient, {});
      EXPECT_EQ(stats.traffic_bytes - stats.vote_bytes, stats.wire_bytes + kMessageHead);
      if (rank == 0) bytes = stats.payload_bytes;
    }));
    return bytes;
  };
  for (const std::size_t chunks : {1U, 2U, 16U}) {
    EXPECT_EQ(payload(chunks, "uniform:2", "none"), 1 + 8 + 112 * chunks);
    EXPECT_EQ(payload(chunks, "uniform:2,absmax,nearest", "feedback:0.95"), 1 + 4 + 112 * chunks);
  }
}

}  // namespace
}  // namespace laconic::testing

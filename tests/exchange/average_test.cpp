// Aggregators over the thread transport: every rank the same mean, bytes as counted, failures
// named.
#include <atomic>

#include "laconic/exchange/vote.h"
#include "tests/exchange/support.h"

namespace laconic::testing {
namespace {

TEST(Exchange, EveryRankGetsTheSameMeanBitForBit) {
  for (const std::string& op : example_specs())
    for (const char* memory : {"none", "feedback"})
      for (const LayoutInfo& layout : layouts())
        if (misfit(memory, make_plan(kModel, layout.name, parse_operator(op))).empty())
          expect_same_means(
              {.op = op, .memory = memory, .layout = layout.name, .ranks = 3, .steps = 2});
}

TEST(Exchange, EveryMemoryGivesEveryRankTheSameMean) {
  for (const MemoryInfo& info : memories())
    for (const std::string& memory : info.examples)
      expect_same_means({.memory = memory, .ranks = 3, .steps = 4});
}

TEST(Exchange, IdentityAndDenseGiveTheTrueMean) {
  for (const int ranks : {1, 2, 3, 4, 7})
    for (const char* exchange : {"gather", "dense"}) {
      SCOPED_TRACE(std::string(exchange) + " of " + std::to_string(ranks));
      const auto means =
          means_of({.op = "identity", .exchange = exchange, .ranks = ranks, .steps = 2});
      for (std::uint64_t step = 0; step < 2; ++step) {
        const auto mean = true_mean(ranks, step);
        for (const auto& of_rank : means) {
          EXPECT_EQ(of_rank[step], means[0][step]);
          for (std::size_t i = 0; i < mean.size(); ++i)
            EXPECT_NEAR(of_rank[step][i], mean[i], 1e-5);
        }
      }
    }
}

// Draws are made at positions in the model, so for an entry-wise operator the cut does not matter.
TEST(Exchange, LayerWiseAndEntireModelNaturalAreEqualBitForBit) {
  for (const char* op : {"natural", "natural+entropy", "natural:nearest"})
    for (const char* memory : {"none", "feedback"}) {
      const auto means = means_of({.op = op, .memory = memory, .layout = "tensor"});
      for (const char* layout : {"whole", "fused:400", "split:17"})
        EXPECT_EQ(means_of({.op = op, .memory = memory, .layout = layout}), means)
            << op << " " << layout;
    }
}

// A third is the most by which nearest rounding to powers of two is off, so every step leaves a
// third of how far h was from the new gradient. Adds the ranks' mean of that to `bound`.
void add_ef21_bound(int rank, int ranks, std::uint64_t steps, std::vector<double>& bound) {
  std::vector<double> off(bound.size());
  std::vector<float> before(bound.size());
  for (std::uint64_t step = 0; step < steps; ++step) {
    const auto gradient = gradient_of(rank, step);
    for (std::size_t i = 0; i < off.size(); ++i)
      off[i] = (off[i] + std::abs(static_cast<double>(gradient[i]) - before[i])) / 3;
    before = gradient;
  }
  for (std::size_t i = 0; i < off.size(); ++i) bound[i] += off[i] / ranks;
}

// Every rank keeps the mean of all ranks' h by adding up what arrives.
TEST(Exchange, Ef21HandsOutTheMeanOfWhatRanksSentSoFar) {
  const auto exact = means_of({.op = "identity", .memory = "ef21"});
  const auto rounded = means_of({.op = "natural:nearest", .memory = "ef21"});
  for (std::uint64_t step = 0; step < 5; ++step) {
    const auto mean = true_mean(4, step);
    std::vector<double> bound(mean.size());
    for (int rank = 0; rank < 4; ++rank) add_ef21_bound(rank, 4, step + 1, bound);
    for (std::size_t i = 0; i < mean.size(); ++i) {
      EXPECT_NEAR(exact[0][step][i], mean[i], 1e-5);
      EXPECT_NEAR(rounded[0][step][i], mean[i], bound[i] + 1e-5);
    }
  }
}

// Four ranks, so each clips at half of 2.
TEST(Exchange, MemoriesAreToldHowManyRanksThereAre) {
  const auto means = means_of({.op = "identity", .memory = "dgc:clip=2", .steps = 1});
  std::vector<double> clipped(count_of(kModel));
  for (int rank = 0; rank < 4; ++rank) {
    const auto gradient = gradient_of(rank, 0);
    for (std::size_t i = 0; i < clipped.size(); ++i)
      clipped[i] += gradient[i] / std::sqrt(squared(gradient)) / 4;
  }
  for (std::size_t i = 0; i < clipped.size(); ++i) EXPECT_NEAR(means[0][0][i], clipped[i], 1e-6);
}

// Integers, so that sums agree to the bit: what is owed when the operator changes is not lost.
TEST(Exchange, ResidualsSurviveTheEndOfAWarmUp) {
  const auto plan_with = [](const char* op) {
    return make_plan(kModel, "tensor", parse_operator(op));
  };
  auto ends = make_thread_transports(1);
  const auto aggregator =
      make_aggregator("gather", {.transport = *ends[0],
                                 .model = kModel,
                                 .plan = plan_with("natural:nearest"),
                                 .warmup = {{.until = 2, .plan = plan_with("identity")},
                                            {.until = 5, .plan = plan_with("natural")}},
                                 .memory = "feedback"});
  const std::size_t count = count_of(kModel);
  std::vector<double> sum(count), sent(count);
  for (std::uint64_t step = 0; step < 8; ++step) {
    std::vector<float> gradient(count);
    for (std::size_t i = 0; i < count; ++i)
      sum[i] += gradient[i] = static_cast<float>((31 * i + 57 * step) % 201) - 100;
    const StepStats stats = aggregator->average(gradient, {.step = step});
    EXPECT_EQ(stats.payload_bytes < stats.dense_bytes, step >= 2) << step;
    EXPECT_EQ(aggregator->residual_norm() > 0, step >= 2) << step;
    const auto owed = load_tensors("feedback", kModel, aggregator->save());
    for (std::size_t i = 0; i < count; ++i) {
      sent[i] += gradient[i];
      EXPECT_EQ(sent[i] + owed[i], sum[i]) << i << " in step " << step;
    }
  }
}

TEST(Exchange, ThreadsChangeNothing) {
  Job job{.op = "natural+entropy", .memory = "feedback", .steps = 2, .model = kLargeModel};
  const auto means = means_of(job);
  job.threads = 3;
  EXPECT_EQ(means_of(job), means);
}

TEST(Exchange, CountsTheBytesThatReallyCross) {
  for (const int ranks : {1, 2, 5}) {
    expect_no_errors(on_ranks(ranks, [&](Transport& transport) {
      const Plan plan = make_plan(kModel, "tensor", parse_operator("natural"));
      const auto gather =
          make_aggregator("gather", {.transport = transport, .model = kModel, .plan = plan});
      auto gradient = gradient_of(transport.rank(), 0);
      const StepStats stats = gather->average(gradient, {});
      std::size_t payload = 0;
      for (const Slice& slice : plan.layout) payload += (9 * slice.count + 7) / 8;
      EXPECT_EQ(stats.payload_bytes, payload);
      EXPECT_EQ(stats.dense_bytes, 4 * count_of(kModel));
      EXPECT_GT(stats.wire_bytes, payload);
      EXPECT_LT(stats.wire_bytes, payload + 80);
      // Each frame to each other rank, and a vote; a head before each.
      const auto others = static_cast<std::uint64_t>(ranks - 1);
      EXPECT_EQ(stats.vote_bytes, others * (kBallotBytes + kMessageHead));
      EXPECT_EQ(stats.traffic_bytes, others * (stats.wire_bytes + kMessageHead) + stats.vote_bytes);
      EXPECT_EQ(stats.rounds, ranks > 1 ? 2U : 0U);

      const Plan plain = make_plan(kModel, "tensor", parse_operator("identity"));
      const auto dense =
          make_aggregator("dense", {.transport = transport, .model = kModel, .plan = plain});
      const double ring = 2.0 * (ranks - 1) / ranks * 4 * static_cast<double>(count_of(kModel));
      const StepStats of_dense = dense->average(gradient, {});
      // To and from the owner of each part; each with its checksum.
      EXPECT_NEAR(static_cast<double>(of_dense.traffic_bytes - of_dense.vote_bytes -
                                      2 * others * (2 * kMessageHead + 4)),
                  ring, 4 * ranks);
    }));
  }
}

TEST(Exchange, ANanRollsTheStepBackOnEveryRank) {
  const float nan = NAN;
  for (const MemoryInfo& info : memories())
    for (const std::string& memory : info.examples)
      for (const char* layout : {"tensor", "whole"}) {
        const Job job{.memory = memory, .layout = layout, .ranks = 3};
        EXPECT_EQ(states_after(job, &nan), states_after(job, nullptr)) << text_of(job);
      }
}

void expect_to_go_on(Transport& transport, const std::string& memory) {
  const auto make = [&](const char* layout) {
    return make_aggregator("gather", {.transport = transport,
                                      .model = kModel,
                                      .plan = make_plan(kModel, layout, parse_operator("natural")),
                                      .memory = memory});
  };
  const auto straight = make("tensor");
  auto resumed = make("tensor");
  std::vector<float> parameters;
  for (std::uint64_t step = 0; step < 6; ++step) {
    const StepInfo info = info_of(step, parameters);
    auto a = gradient_of(transport.rank(), step), b = a;
    straight->average(a, info);
    resumed->average(b, info);
    EXPECT_EQ(a, b) << memory << " in step " << step;
    const Buffer state = write_state(resumed->save());
    resumed = make(step % 2 ? "tensor" : "whole");
    resumed->load(read_state(state.view()));
  }
}

TEST(Exchange, SavedAndLoadedStateGoesOnAsIfNothingHadHappened) {
  expect_no_errors(on_ranks(2, [&](Transport& transport) {
    for (const MemoryInfo& info : memories())
      for (const std::string& memory : info.examples) expect_to_go_on(transport, memory);
  }));
}

TEST(Exchange, UnsuitablePairsAreRefused) {
  auto ends = make_thread_transports(1);
  const auto refusal = [&](const char* exchange, const char* op, const char* memory) {
    return message_of<UsageError>([&] {
      make_aggregator(exchange, {.transport = *ends[0],
                                 .model = kModel,
                                 .plan = make_plan(kModel, "tensor", parse_operator(op)),
                                 .memory = memory});
    });
  };
  EXPECT_NE(refusal("dense", "natural", "none").find("operator identity, not 'natural'"),
            std::string::npos);
  EXPECT_NE(refusal("dense", "identity", "feedback").find("memory none, not 'feedback'"),
            std::string::npos);
  EXPECT_EQ(
      refusal("gathr", "natural", "none").find("no exchange 'gathr'; known: arc auto dense gather"),
      0U);
}

TEST(Exchange, AGradientOfAnotherLengthIsRefused) {
  expect_no_errors(on_ranks(2, [&](Transport& transport) {
    const auto aggregator =
        make_aggregator("gather", {.transport = transport,
                                   .model = kModel,
                                   .plan = make_plan(kModel, "tensor", parse_operator("natural"))});
    std::vector<float> wrong(3);
    EXPECT_EQ(message_of<UsageError>([&] { aggregator->average(wrong, {}); }),
              "a gradient of 3 entries for a model of 1650");
  }));
}

// Ranks of which one compresses otherwise all stop, each naming whose frame is not what was
// expected, and memory stays as it was.
TEST(Exchange, RanksThatDisagreeStopWithASentence) {
  for (const char* what : {"operator", "layout", "seed", "step"}) {
    SCOPED_TRACE(what);
    const std::string odd = what;
    const auto errors = on_ranks(3, [&](Transport& transport) {
      const bool other = transport.rank() == 1;
      const auto aggregator = make_aggregator(
          "gather",
          {.transport = transport,
           .model = kModel,
           .plan = make_plan(kModel, other && odd == "layout" ? "split:100" : "tensor",
                             parse_operator(other && odd == "operator" ? "natural:8" : "natural")),
           .memory = "feedback",
           .seed = other && odd == "seed" ? 1U : 0U});
      auto gradient = gradient_of(transport.rank(), 0);
      const State memory = aggregator->save();
      try {
        aggregator->average(gradient, {.step = other && odd == "step" ? 7U : 0U});
      } catch (const Error& error) {
        EXPECT_EQ(aggregator->save(), memory);
        EXPECT_NE(error.rank(), kNobody) << error.what();
        throw;
      }
    });
    for (const std::size_t rank : {0U, 2U})
      EXPECT_NE(errors[rank].find("from rank "), std::string::npos) << errors[rank];
    EXPECT_NE(errors[1], "");
  }
}

}  // namespace
}  // namespace laconic::testing

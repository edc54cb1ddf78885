// Exchanges of two legs: where shards end, what crosses the wire, what the sum is made of.
#include "laconic/exchange/two_way.h"

#include <map>

#include "tests/exchange/support.h"

namespace laconic::testing {
namespace {

Layout layout_of(const std::vector<std::size_t>& counts) {
  Layout layout;
  std::size_t offset = 0;
  for (const std::size_t count : counts) {
    layout.push_back({"s" + std::to_string(layout.size()), offset, count, count, 1});
    offset += count;
  }
  return layout;
}

Shards shards_of(const std::vector<std::size_t>& bounds, const std::vector<int>& owners) {
  return {bounds, owners};
}

// Small slices go to whoever has least, the largest first; those above a rank's share are cut.
TEST(Shards, AreDealtOrCut) {
  EXPECT_EQ(even_shards(layout_of({10, 10, 10, 10}), 2),
            shards_of({0, 10, 20, 30, 40}, {0, 1, 0, 1}));
  EXPECT_EQ(even_shards(layout_of({10, 12, 10, 8}), 2),
            shards_of({0, 10, 22, 32, 40}, {1, 0, 1, 0}));
  EXPECT_EQ(even_shards(layout_of({1, 1, 1, 97}), 4),
            shards_of({0, 1, 2, 3, 27, 51, 75, 100}, {0, 1, 2, 0, 1, 2, 3}));
  EXPECT_EQ(even_shards(layout_of({40}), 4), shards_of({0, 10, 20, 30, 40}, {0, 1, 2, 3}));
  EXPECT_EQ(even_shards(layout_of({3}), 5), shards_of({0, 1, 2, 3}, {1, 3, 4}));
  EXPECT_EQ(even_shards(layout_of({0, 0}), 2), shards_of({0}, {}));
  EXPECT_EQ(even_shards({}, 3), shards_of({0}, {}));
}

// Large ones in even pieces at whole blocks, so nobody has more than a piece and a block too much.
TEST(Shards, OfLargeSlicesAreEven) {
  for (const std::vector<std::size_t>& counts :
       {std::vector<std::size_t>{2'000'000, 2'000'000}, {65'536, 70'001, 9, 300'000}})
    for (const int ranks : {2, 3, 4, 8}) {
      const Shards shards = even_shards(layout_of(counts), ranks);
      std::vector<std::size_t> load(static_cast<std::size_t>(ranks));
      std::size_t total = 0;
      for (std::size_t i = 0; i < shards.owners.size(); ++i) {
        const std::size_t count = shards.bounds[i + 1] - shards.bounds[i];
        load[static_cast<std::size_t>(shards.owners[i])] += count;
        total += count;
      }
      EXPECT_EQ(total, shards.bounds.back());
      const auto [least, most] = std::ranges::minmax(load);
      EXPECT_LE(most - least, counts.size() * 2 * kBlock) << ranks;
    }
}

TEST(Shards, CoverTheModelInOrder) {
  for (const int ranks : {1, 2, 3, 4, 8, 16})
    for (const char* how : {"tensor", "whole", "split:7", "split:1000"}) {
      const Plan plan = make_plan(kModel, how, parse_operator("natural"));
      const Shards shards = even_shards(plan.layout, ranks);
      EXPECT_TRUE(std::ranges::is_sorted(shards.bounds));
      EXPECT_EQ(shards.bounds.back(), count_of(kModel));
      const Plan cut = cut_at(plan, shards.bounds);
      ByOwner owners;
      const auto all = all_slices(cut);
      owners.sort(cut.layout, shards, all, ranks);
      std::size_t position = 0, listed = 0;
      for (std::size_t i = 0; i < cut.layout.size(); ++i) {
        EXPECT_EQ(cut.layout[i].offset, position);
        position += cut.layout[i].count;
        const auto place = owners.place(i);
        EXPECT_EQ(owners.of(place.owner)[place.place], i);
        EXPECT_EQ(place.owner, shards.owner_at(position - 1)) << "a slice has one owner";
      }
      EXPECT_EQ(position, count_of(kModel));
      for (int rank = 0; rank < ranks; ++rank) listed += owners.of(rank).size();
      EXPECT_EQ(listed, cut.layout.size());
    }
}

TEST(Traffic, OfTheServerIsCountedByDirection) {
  expect_no_errors(on_ranks(4, [&](Transport& transport) {
    const Job job{.op = "natural", .exchange = "server", .down = "identity"};
    auto gradient = gradient_of(transport.rank(), 0);
    const StepStats stats = make(job, transport)->average(gradient, {});
    const bool server = transport.rank() == 0;
    EXPECT_NEAR(static_cast<double>(stats.up_bytes) / 1650, 9.0 / 8, 0.05);
    EXPECT_NEAR(static_cast<double>(stats.down_bytes) / 1650, 4, 0.05);
    EXPECT_EQ(stats.traffic_bytes - stats.vote_bytes,
              server ? 3 * (stats.down_bytes + kMessageHead) : stats.up_bytes + kMessageHead);
  }));
}

// Sums of what crossed: two workers of 4/3 each. What is compressed is the sum of two messages.
// The mean that arrives is half of it: exactly, since 2 is a power of two.
std::map<float, int> sums_of_two(const char* up, const char* down, float x, int steps) {
  constexpr std::size_t kCount = 1000;
  const Model model = {{"x", {kCount}}};
  std::map<float, int> seen;
  expect_no_errors(on_ranks(2, [&](Transport& transport) {
    const auto aggregator =
        make_aggregator("server", {.transport = transport,
                                   .model = model,
                                   .plan = make_plan(model, "tensor", parse_operator(up)),
                                   .down = make_plan(model, "tensor", parse_operator(down))});
    for (int step = 0; step < steps; ++step) {
      std::vector<float> gradient(kCount, x);
      aggregator->average(gradient, {.step = static_cast<std::uint64_t>(step)});
      if (transport.rank() == 0)
        for (const float mean : gradient) ++seen[2 * mean];
    }
  }));
  return seen;
}

// 4/3 + 4/3 = 8/3 is between 2 and 4: 4 with probability (8/3 - 2) / 2 = 1/3. Mean 8/3, variance
// 8/9.
TEST(Server, NaturalCompressionOfASumOfTwo) {
  constexpr int kSteps = 200;
  const auto seen = sums_of_two("identity", "natural", 4.0F / 3, kSteps);
  ASSERT_EQ(seen.size(), 2U);
  const double draws = 1000.0 * kSteps, fours = seen.at(4) / draws;
  EXPECT_EQ(seen.at(2) + seen.at(4), draws);
  EXPECT_NEAR(fours, 1.0 / 3, 5 * std::sqrt(2.0 / 9 / draws));
  EXPECT_NEAR(2 * (1 - fours) + 4 * fours, 8.0 / 3, 0.02);
  EXPECT_NEAR(4 * fours * (1 - fours), 8.0 / 9, 0.02);
}

// Both ways: ranks send 1 with probability 2/3 or 2, independently; sums are 2, 3 or 4 with
// probability 4/9, 4/9, 1/9, and 3 becomes 2 or 4 alike. So P(2) = 2/3 again: draws of the two legs
// and of the two ranks are independent.
TEST(Server, NaturalCompressionBothWays) {
  constexpr int kSteps = 200;
  const auto seen = sums_of_two("natural", "natural", 4.0F / 3, kSteps);
  ASSERT_EQ(seen.size(), 2U);
  const double draws = 1000.0 * kSteps;
  EXPECT_NEAR(seen.at(2) / draws, 2.0 / 3, 5 * std::sqrt(2.0 / 9 / draws));
}

// The two legs of randomk choose independently: unscaled both ways, an entry arrives with
// probability (k/d)^2 (Dutta et al., lemma 2).
TEST(Server, RandomKBothWaysKeepsTheSquareOfTheDensity) {
  constexpr int kSteps = 100;
  const auto seen = sums_of_two("randomk:0.5,unscaled", "randomk:0.5,unscaled", 1, kSteps);
  const double draws = 1000.0 * kSteps;
  EXPECT_NEAR(seen.at(2) / draws, 0.25, 5 * std::sqrt(0.1875 / draws));
  EXPECT_EQ(seen.at(0) + seen.at(2), draws);
}

// Dutta et al., algorithm 1, slice by slice: Q_M of the sum of Q_W, over ranks in order, divided by
// n. Here with operators that draw nothing, worked out by hand beside it.
TEST(Server, IsAlgorithmOneOfDutta) {
  const Job job{.op = "topk:0.3", .exchange = "server", .down = "natural:nearest", .steps = 2};
  const auto means = means_of(job);
  const Layout layout = make_plan(kModel, "tensor", parse_operator(job.op)).layout;
  for (std::uint64_t step = 0; step < job.steps; ++step)
    for (const Slice& slice : layout) {
      std::vector<float> sum(slice.count);
      for (int rank = 0; rank < job.ranks; ++rank) {
        const auto gradient = gradient_of(rank, step);
        const auto sent =
            through(parse_operator(job.op), std::span(gradient).subspan(slice.offset, slice.count));
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += sent[i];
      }
      const auto back = through(parse_operator(job.down), sum);
      for (std::size_t i = 0; i < sum.size(); ++i)
        EXPECT_EQ(means[0][step][slice.offset + i], 0.25F * back[i]);
    }
}

// STC both ways as a loop over arrays: D_i = STC(A_i + g_i), A_i -= D_i; D = STC(A + sum D_i),
// A -= D; everyone gets D / n.
TEST(Server, IsStcBothWays) {
  const Job job{.op = "stc:0.1",
                .memory = "feedback",
                .exchange = "server",
                .down = "stc:0.05",
                .down_memory = "feedback"};
  const auto means = means_of(job);
  const std::size_t count = count_of(kModel);
  const Layout layout = make_plan(kModel, "tensor", parse_operator(job.op)).layout;
  const auto compress = [&](const std::string& op, std::vector<float>& a, std::vector<float>& sum) {
    for (const Slice& slice : layout) {
      const auto part = std::span(a).subspan(slice.offset, slice.count);
      const auto sent = through(parse_operator(op), part);
      for (std::size_t i = 0; i < sent.size(); ++i) {
        part[i] -= sent[i];
        sum[slice.offset + i] += sent[i];
      }
    }
  };
  std::vector<std::vector<float>> a(4, std::vector<float>(count));
  std::vector<float> server(count);
  for (std::uint64_t step = 0; step < job.steps; ++step) {
    std::vector<float> sum(count), back(count);
    for (std::size_t rank = 0; rank < 4; ++rank) {
      const auto gradient = gradient_of(static_cast<int>(rank), step);
      for (std::size_t i = 0; i < count; ++i) a[rank][i] += gradient[i];
      compress(job.op, a[rank], sum);
    }
    for (std::size_t i = 0; i < count; ++i) server[i] += sum[i];
    compress(job.down, server, back);
    for (std::size_t i = 0; i < count; ++i) EXPECT_NEAR(means[0][step][i], back[i] / 4, 1e-6);
  }
}

TEST(TwoWay, UnsuitableSettingsAreRefused) {
  auto ends = make_thread_transports(1);
  const auto refusal = [&](const Job& job) {
    return message_of<UsageError>([&] { make(job, *ends[0]); });
  };
  EXPECT_EQ(
      refusal({.exchange = "gather", .down = "natural"}),
      "exchange 'gather' has no operator or memory for the way back; allowed with one: server");
  EXPECT_EQ(refusal({.exchange = "server", .down_memory = "ef21"}),
            "memory 'ef21' is not for the way back; allowed: none, feedback");
  EXPECT_EQ(refusal({.exchange = "server", .down = "randomk:0.1", .down_memory = "feedback"})
                .find("memory 'feedback' diverges with 'randomk:0.1'"),
            0U);
}

// Owners keep what the second compression drops of differences too, so a gradient that stands still
// arrives as a whole.
TEST(TwoWay, Ef21FindsTheMeanThroughTwoCompressions) {
  expect_no_errors(on_ranks(3, [&](Transport& transport) {
    const auto aggregator =
        make({.op = "topk:0.2", .memory = "ef21", .exchange = "sharded"}, transport);
    const auto mean = true_mean(3, 0);
    std::vector<float> gradient;
    for (std::uint64_t step = 0; step < 60; ++step) {
      gradient = gradient_of(transport.rank(), 0);
      aggregator->average(gradient, {.step = step});
    }
    for (std::size_t i = 0; i < mean.size(); ++i) EXPECT_NEAR(gradient[i], mean[i], 1e-4) << i;
  }));
}

// What owners still owe is in their states, which fit one number of ranks.
TEST(TwoWay, AStateOfAnotherNumberOfRanksIsRefused) {
  const auto states_of = [](int ranks) {
    std::vector<State> states(static_cast<std::size_t>(ranks));
    expect_no_errors(on_ranks(ranks, [&](Transport& transport) {
      const auto aggregator =
          make({.op = "topk:0.1", .memory = "feedback", .layout = "whole", .exchange = "sharded"},
               transport);
      auto gradient = gradient_of(transport.rank(), 0);
      aggregator->average(gradient, {});
      states[static_cast<std::size_t>(transport.rank())] = aggregator->save();
    }));
    return states;
  };
  const auto of_two = states_of(2);
  expect_no_errors(on_ranks(4, [&](Transport& transport) {
    if (transport.rank() > 1) return;
    const auto aggregator =
        make({.op = "topk:0.1", .memory = "feedback", .layout = "whole", .exchange = "sharded"},
             transport);
    EXPECT_THROW(aggregator->load(of_two[static_cast<std::size_t>(transport.rank())]), DataError);
  }));
}

}  // namespace
}  // namespace laconic::testing

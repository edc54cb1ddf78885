// A rank dies at any message of any exchange: the others agree on what was made, and go on as a
// smaller group with all that they owe.
#include "tests/exchange/regroup.h"

#include <set>

namespace laconic::testing {
namespace {

std::vector<Survivor> run(const Job& job, int victim, std::uint64_t message) {
  return survivors_of(make_thread_transports(job.ranks), make_thread_transports(job.ranks - 1), job,
                      victim, message);
}

TEST(Regroup, SurvivorsGoOnWhateverMessageWasTheLast) {
  int deaths = 0, doubts = 0;
  for (const Job& job : one_of_each(4))
    for (int victim = 0; victim < job.ranks; ++victim)
      for (std::uint64_t at = 0;; ++at) {
        SCOPED_TRACE(text_of(job) + ", rank " + std::to_string(victim) + ", message " +
                     std::to_string(at));
        const auto survivors = run(job, victim, at);
        if (survivors.empty()) break;
        expect_gone_on(survivors, job);
        ++deaths;
        for (const Survivor& one : survivors) doubts += one.doubted;
      }
  std::printf("%d deaths, %d ranks were in doubt\n", deaths, doubts);
  EXPECT_GT(deaths, 300);
  EXPECT_GT(doubts, 0);
}

// What ranks have gathered of each other: all go on from the mean that all of them know.
TEST(Regroup, EstimatesStayTheMeanOfTheSurvivors) {
  for (const char* memory : {"ef21", "ef21:0.25", "econtrol"})
    for (const char* exchange : {"gather", "sharded", "server"}) {
      const Job job{.op = "topk:0.1",
                    .memory = memory,
                    .exchange = exchange,
                    .down_memory = exchange == std::string("server") ? "feedback" : "none",
                    .ranks = 4};
      SCOPED_TRACE(text_of(job));
      const auto survivors = run(job, 1, 7);
      ASSERT_FALSE(survivors.empty());
      const std::string role = memory == std::string("econtrol") ? "econtrol.h" : "ef21";
      for (const Survivor& one : survivors) {
        EXPECT_EQ(one.means, survivors[0].means);
        for (const Tensor& tensor : kModel) {
          const auto& mean = one.settled.at(role + ".mean/" + tensor.name);
          EXPECT_EQ(one.taken.at(role + "/" + tensor.name), mean);
          EXPECT_EQ(one.taken.at(role + ".mean/" + tensor.name), mean);
        }
      }
      for (const Tensor& tensor : kModel) {
        std::vector<double> sum(tensor.count());
        for (const Survivor& one : survivors)
          for (std::size_t i = 0; i < sum.size(); ++i)
            sum[i] += one.end.at(role + "/" + tensor.name)[i];
        const auto& mean = survivors[0].end.at(role + ".mean/" + tensor.name);
        for (std::size_t i = 0; i < sum.size(); ++i) {
          if (exchange == std::string("gather")) {
            ASSERT_NEAR(sum[i] / 3, mean[i], 1e-2) << tensor.name;
          }
        }
      }
    }
}

// Momentum that each rank has gathered by itself goes on from the mean; debts stay whole.
TEST(Regroup, EveryMemoryGoesOn) {
  for (const MemoryInfo& info : memories())
    for (const std::string& memory : info.examples)
      for (const char* exchange : {"gather", "sharded"}) {
        const bool unbiased =
            memory.starts_with("diana");  // and nothing is dropped on its way back
        if (unbiased && exchange != std::string("gather")) continue;
        const Job job{.op = unbiased ? "randomk:0.6" : "topk:0.1",
                      .memory = memory,
                      .exchange = exchange,
                      .ranks = 4};
        SCOPED_TRACE(text_of(job));
        const auto survivors = run(job, 2, 9);
        ASSERT_FALSE(survivors.empty());
        std::set<std::vector<float>> momenta;
        for (const Survivor& one : survivors) {
          EXPECT_EQ(one.made, survivors[0].made);
          EXPECT_EQ(one.means, survivors[0].means);
          if (one.taken.contains("dgc.momentum/w1"))
            momenta.insert(one.taken.at("dgc.momentum/w1"));
        }
        EXPECT_LE(momenta.size(), 1U);
        // What owners lack of a mean (ef21) is in units of it, and shrinks with the ranks.
        if (!memory.starts_with("ef21") || exchange == std::string("gather")) {
          EXPECT_EQ(owed_by(survivors, &Survivor::taken), owed_by(survivors, &Survivor::settled));
        }
      }
}

// Twice: of four ranks three, of three two.
TEST(Regroup, AnotherRankMayBeLostLater) {
  const Job job{.op = "topk:0.1",
                .memory = "feedback",
                .exchange = "server",
                .down_memory = "feedback",
                .ranks = 4};
  const Ends three = make_thread_transports(3), two = make_thread_transports(2);
  std::vector<std::vector<float>> means(2);
  expect_no_errors(with_ends(make_thread_transports(4), [&](std::unique_ptr<Transport>& end) {
    const int rank = end->rank();
    Job now = job;
    auto aggregator = make(now, *end);
    const auto lose = [&](const Ends& smaller) {
      auto gradient = whole_numbers(rank, 7);
      EXPECT_THROW(aggregator->average(gradient, {.step = 7}), TransportError);
      Transport& among = *smaller[static_cast<std::size_t>(rank)];
      aggregator->settle(among);
      --now.ranks;
      auto fresh = make(now, among);
      fresh->take_over(*aggregator);
      aggregator = std::move(fresh);
    };
    auto gradient = whole_numbers(rank, 0);
    aggregator->average(gradient, {});
    if (rank == 3) return;
    lose(three);
    gradient = whole_numbers(rank, 1);
    aggregator->average(gradient, {.step = 1});
    if (rank == 2) {
      aggregator.reset();
      const_cast<std::unique_ptr<Transport>&>(three[2]).reset();  // it leaves
      return;
    }
    lose(two);
    gradient = whole_numbers(rank, 2);
    aggregator->average(gradient, {.step = 2});
    means[static_cast<std::size_t>(rank)] = gradient;
  }));
  EXPECT_EQ(means[0], means[1]);
  EXPECT_FALSE(means[0].empty());
}

TEST(Regroup, RanksOfDifferentGroupsAreRefused) {
  const Ends three = make_thread_transports(3), two = make_thread_transports(2);
  const auto errors = on_ranks(2, [&](Transport& transport) {
    const auto rank = static_cast<std::size_t>(transport.rank());
    const Job job{.op = "topk:0.1", .memory = "feedback", .ranks = 2};
    const auto before = make(job, rank == 0 ? *three[0] : *two[1]);
    const auto after = make(job, transport);
    after->take_over(*before);
  });
  EXPECT_TRUE(has(errors[0], "rank 1 comes from another group") ||
              has(errors[1], "rank 0 comes from another group"))
      << errors[0] << errors[1];
  for (const std::string& error : errors) EXPECT_NE(error, "");
}

}  // namespace
}  // namespace laconic::testing

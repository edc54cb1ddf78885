// Every operator and memory with every exchange: it averages right, or it is refused in words when
// it is made.
#include "laconic/exchange/shards.h"
#include "tests/exchange/support.h"

namespace laconic::testing {
namespace {

constexpr int kRanks = 2;
constexpr std::uint64_t kSeed = 9;  // of make()

// What a refusal is made of: one sentence that says what is allowed or what to use instead.
void expect_a_sentence(const std::string& refusal, const Job& job) {
  EXPECT_EQ(refusal.find('\n'), std::string::npos) << refusal;
  const auto has = [&](const char* part) { return refusal.find(part) != std::string::npos; };
  EXPECT_TRUE(has("; allowed") || has("such as ") || has("; use '") || has("; known: ") ||
              has("; it takes no arguments"))
      << text_of(job) << ": " << refusal;
}

// The mean of what ranks send, in plain loops; with shards, each slice's sum passes the operator
// once more, at the owner of its shard.
std::vector<double> mean_by_hand(const Job& job, std::uint64_t step, const Shards* shards) {
  const Operator op = parse_operator(job.op);
  Plan plan = make_plan(kModel, job.layout, op);
  if (shards) plan = cut_at(plan, shards->bounds);
  std::vector<double> mean(count_of(kModel));
  Scratch scratch;
  Buffer section;
  const auto add = [&](std::span<const float> x, const Slice& slice, const Keys& keys,
                       std::vector<float>& sum) {
    section.clear();
    EXPECT_TRUE(op.encode(Source{.fresh = x, .cols = slice.cols}, section, keys, scratch).finite);
    op.add(section.view(), 1, sum, keys, scratch);
  };
  for (const Slice& slice : plan.layout) {
    std::vector<float> sum(slice.count);
    for (int rank = 0; rank < kRanks; ++rank) {
      const auto gradient = gradient_of(rank, step);
      const Keys keys =
          make_keys(kSeed, step, static_cast<std::uint64_t>(rank), job.strata ? kRanks : 1)
              .at(slice.offset);
      add(std::span(gradient).subspan(slice.offset, slice.count), slice, keys, sum);
    }
    if (shards) {
      const int owner = shards->owner_at(slice.offset);
      const auto first = sum;
      std::ranges::fill(sum, 0.0F);
      add(first, slice,
          make_keys(seed_of_way_back(kSeed), step, static_cast<std::uint64_t>(owner))
              .at(slice.offset),
          sum);
    }
    for (std::size_t i = 0; i < slice.count; ++i)
      mean[slice.offset + i] = sum[i] / static_cast<double>(kRanks);
  }
  return mean;
}

// Without a memory every mean can be worked out.
void expect_means_by_hand(const Job& job) {
  const Layout layout = make_plan(kModel, job.layout, parse_operator(job.op)).layout;
  const Shards even = even_shards(layout, kRanks), one = one_owner(count_of(kModel));
  const Shards* const shards = job.exchange == "sharded"  ? &even
                               : job.exchange == "server" ? &one
                                                          : nullptr;
  const auto means = means_of(job);
  EXPECT_EQ(means[1], means[0]) << text_of(job);
  for (std::uint64_t step = 0; step < job.steps; ++step) {
    const auto mean = mean_by_hand(job, step, shards);
    for (std::size_t i = 0; i < mean.size(); ++i)
      ASSERT_NEAR(means[0][step][i], mean[i], 1e-5 * (1 + std::abs(mean[i])))
          << text_of(job) << ", entry " << i;
  }
}

// With debts, what is not delivered is owed. Rounding of sums of some thousands is allowed.
void expect_nothing_lost(const Job& job) {
  std::vector<State> states;
  Ledger ledger;
  run(job, 0, states, ledger);
  EXPECT_LE(ledger.gap(states), 0.05) << text_of(job);
}

// Whether it is made; if not, it is refused as it should be.
bool is_made(const Job& job) {
  auto ends = make_thread_transports(kRanks);
  try {
    for (auto& end : ends) make(job, *end);
    return true;
  } catch (const UsageError& error) {
    expect_a_sentence(error.what(), job);
  } catch (const std::exception& error) {
    ADD_FAILURE() << text_of(job) << ": another kind of error: " << error.what();
  }
  return false;
}

TEST(Pairs, EveryOperatorAveragesRightOrIsRefused) {
  for (const ExchangeInfo& exchange : exchanges()) {
    std::size_t made = 0;
    for (const std::string& op : example_specs())
      for (const char* memory : {"none", "feedback"}) {
        const Job job{.op = op,
                      .memory = memory,
                      .exchange = exchange.name,
                      .down_memory = exchange.has_way_back ? memory : "none",
                      .ranks = kRanks,
                      .steps = 2};
        if (!is_made(job)) continue;
        ++made;
        if (forgets_what_it_drops(exchange.name)) {
          expect_same_means(job);
          continue;
        }
        const bool owes = job.memory == "feedback" || compresses_itself(exchange.name);
        owes ? expect_nothing_lost(job) : expect_means_by_hand(job);
      }
    EXPECT_GT(made, 0U) << exchange.name;
  }
}

// Where a recipe asks for it, every rank draws as if it were alone.
TEST(Pairs, DrawsAreEachRanksOwnWithoutStrata) {
  for (const char* exchange : {"gather", "sharded", "server"})
    for (const char* op : {"natural", "qsgd:4", "uniform:4"}) {
      const Job job{.op = op, .exchange = exchange, .ranks = kRanks, .steps = 2, .strata = false};
      expect_means_by_hand(job);
      Job other = job;
      other.strata = true;
      EXPECT_NE(means_of(job), means_of(other)) << text_of(job);
    }
}

TEST(Pairs, EveryMemoryGivesRanksTheSameMeanOrIsRefused) {
  for (const ExchangeInfo& exchange : exchanges())
    for (const MemoryInfo& info : memories())
      for (const std::string& memory : info.examples)
        for (const char* op : {"identity", "topk:0.1", "randomk:0.1", "terngrad:2.5"})
          for (const char* layout : {"tensor", "whole"}) {
            const Job job{.op = op,
                          .memory = memory,
                          .layout = layout,
                          .exchange = exchange.name,
                          .ranks = kRanks,
                          .steps = 2};
            if (is_made(job)) expect_same_means(job);
          }
}

TEST(Pairs, MemoriesOfTheWayBackAreThoseThatOweSumsOrNone) {
  for (const ExchangeInfo& exchange : exchanges())
    for (const MemoryInfo& info : memories()) {
      const Job job{
          .op = "identity", .exchange = exchange.name, .down_memory = info.name, .ranks = kRanks};
      const bool allowed =
          info.name == "none" || (exchange.has_way_back && info.name == "feedback");
      if (exchange.name != "sparse") {
        EXPECT_EQ(is_made(job), allowed) << text_of(job);
      }
    }
}

TEST(Pairs, WordsThatMeanNothingAreRefusedByName) {
  auto ends = make_thread_transports(1);
  const auto refusal = [&](const Job& job) {
    const std::string text = message_of<UsageError>([&] { make(job, *ends[0]); });
    expect_a_sentence(text, job);
    return text;
  };
  for (const ExchangeInfo& exchange : exchanges()) {
    EXPECT_EQ(refusal({.op = "topkk", .exchange = exchange.name}).find("no operator 'topkk'"), 0U);
    EXPECT_NE(refusal({.op = "topk:7", .exchange = exchange.name}).find("'7'"), std::string::npos);
    EXPECT_NE(refusal({.exchange = exchange.name + ":nonsense"}).find("nonsense"),
              std::string::npos);
  }
  EXPECT_EQ(refusal({.memory = "memo"}).find("no memory 'memo'"), 0U);
  EXPECT_EQ(refusal({.layout = "row"}).find("no layout 'row'"), 0U);
  EXPECT_EQ(refusal({.exchange = "ring"}).find("no exchange 'ring'"), 0U);
}

}  // namespace
}  // namespace laconic::testing

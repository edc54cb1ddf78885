// Ranks of their own for tensors under powersgd: what crosses, that nothing is lost, and refusals.
#include "laconic/recipes/recipe.h"
#include "tests/exchange/support.h"

namespace laconic::testing {
namespace {

constexpr std::uint64_t kSteps = 6;

Recipe with_rules(std::vector<std::string> rules, const std::string& exchange = "powersgd:2") {
  return {.name = "mine", .exchange = exchange, .rules = std::move(rules)};
}

const Recipe kMixed = with_rules({"name=w1,rank=5", "name=w2,rank=3"});

std::unique_ptr<Aggregator> make(const Recipe& recipe, Transport& transport,
                                 const Model& model = kModel) {
  return make_aggregator({.model = model, .recipe = recipe, .seed = 9}, transport);
}

using Means = std::vector<std::vector<float>>;  // by step

// Of one rank alone.
Means means_of(const Recipe& recipe) {
  auto ends = make_thread_transports(1);
  const auto aggregator = make(recipe, *ends[0]);
  Means means;
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    means.push_back(gradient_of(0, step));
    aggregator->average(means.back(), {.step = step});
  }
  return means;
}

TEST(RanksByTensor, DecideWhatCrosses) {
  auto ends = make_thread_transports(1);
  const auto payload = [&](const Recipe& recipe) {
    auto gradient = gradient_of(0, 0);
    return make(recipe, *ends[0])->average(gradient, {}).payload_bytes;
  };
  EXPECT_EQ(payload(with_rules({})), 4U * (2 * 70 + 40 + 2 * 50 + 10));
  EXPECT_EQ(payload(kMixed), 4U * (5 * 70 + 40 + 3 * 50 + 10));
  EXPECT_EQ(payload(with_rules({"name=w1,rank=17"})), 4U * (17 * 70 + 40 + 2 * 50 + 10));
  EXPECT_EQ(payload(with_rules({"name=w*,rank=8"})), 4U * (8 * 70 + 40 + 10 * 40 + 10))
      << "8 * 50 floats are not fewer than 400";
  EXPECT_EQ(payload(with_rules({"name=w1,rank=30"})), 4U * (40 * 30 + 40 + 2 * 50 + 10))
      << "of full rank";
  EXPECT_EQ(payload(with_rules({"name=*,max_rank=1,rank=7"})), payload(with_rules({})))
      << "a vector is no matrix";
}

TEST(RanksByTensor, ThatAreAllTheSameAreTheExchangesOwn) {
  EXPECT_EQ(means_of(with_rules({"min_rank=2,rank=3"})), means_of(with_rules({}, "powersgd:3")));
}

// Tensors do not hear of each other's ranks.
TEST(RanksByTensor, EachTensorIsAsIfAllHadItsRank) {
  const Means mixed = means_of(kMixed), five = means_of(with_rules({}, "powersgd:5")),
              three = means_of(with_rules({}, "powersgd:3"));
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    EXPECT_TRUE(std::equal(mixed[step].begin(), mixed[step].begin() + 1240, five[step].begin()));
    EXPECT_TRUE(
        std::equal(mixed[step].begin() + 1240, mixed[step].end(), three[step].begin() + 1240));
  }
}

// n times all means, plus what all ranks owe, is the sum of all gradients; and means are equal bit
// for bit.
TEST(RanksByTensor, LoseNothingAndAgree) {
  constexpr int kRanks = 3;
  const std::size_t count = count_of(kModel);
  std::vector<Means> means(kRanks);
  std::vector<State> states(kRanks);
  expect_no_errors(on_ranks(kRanks, [&](Transport& transport) {
    const auto rank = static_cast<std::size_t>(transport.rank());
    const auto aggregator = make(kMixed, transport);
    for (std::uint64_t step = 0; step < kSteps; ++step) {
      means[rank].push_back(gradient_of(transport.rank(), step));
      aggregator->average(means[rank].back(), {.step = step});
    }
    states[rank] = aggregator->save();
  }));
  EXPECT_EQ(means[1], means[0]);
  EXPECT_EQ(means[2], means[0]);
  std::vector<double> given(count), delivered(count);
  for (int rank = 0; rank < kRanks; ++rank) {
    for (std::uint64_t step = 0; step < kSteps; ++step) {
      const auto gradient = gradient_of(rank, step);
      for (std::size_t i = 0; i < count; ++i) {
        given[i] += gradient[i];
        delivered[i] += means[0][step][i];  // once for each rank
      }
    }
    std::size_t offset = 0;
    for (const Tensor& tensor : kModel) {
      const auto& owed = states[static_cast<std::size_t>(rank)].at("powersgd/" + tensor.name);
      for (std::size_t i = 0; i < tensor.count(); ++i) delivered[offset + i] += owed[i];
      offset += tensor.count();
    }
  }
  for (std::size_t i = 0; i < count; ++i) EXPECT_NEAR(delivered[i], given[i], 1e-4) << i;
  EXPECT_EQ(states[0].at("powersgd.start/w1").size(), 5U * 30);
  EXPECT_EQ(states[0].at("powersgd.start/w2").size(), 3U * 40);
}

TEST(RanksByTensor, AResumedRunIsTheSameBitForBit) {
  const Means whole = means_of(kMixed);
  auto ends = make_thread_transports(1);
  State state;
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    const auto aggregator = make(kMixed, *ends[0]);  // a new one in every step
    if (step > 0) aggregator->load(state);
    auto gradient = gradient_of(0, step);
    aggregator->average(gradient, {.step = step});
    state = aggregator->save();
    EXPECT_EQ(gradient, whole[step]) << step;
  }
  EXPECT_EQ(message_of<DataError>([&] { make(with_rules({}), *ends[0])->load(state); }),
            "the state's 'powersgd.start/w1' has 150 entries; the model's tensor has 60");
}

std::string refusal(const Recipe& recipe) {
  auto ends = make_thread_transports(1);
  return message_of<UsageError>([&] { make(recipe, *ends[0]); });
}

TEST(RanksByTensor, ThatAMatrixCannotHaveAreRefused) {
  EXPECT_EQ(refusal(with_rules({"name=w2,rank=11"})),
            "rank 11 for tensor 'w2', a matrix of 10 x 40; allowed: 1 to 10");
  EXPECT_EQ(refusal(with_rules({"rank=31"})),
            "rank 31 for tensor 'w1', a matrix of 40 x 30; allowed: 1 to 30");
  for (const std::string rank : {"0", "-1", "1.5", "65537", "full", ""})
    EXPECT_EQ(
        refusal(with_rules({"name=w2,rank=" + rank})),
        "rule: 'rank=" + rank +
            "' is not allowed; allowed: min = 0 to 8388608G, whole, max = 0 to 8388608G, "
            "whole, min_rank = 0 to 64, whole, max_rank = 0 to 64, whole, optional = on | off, "
            "rank = 1 to 64K, whole");
  EXPECT_EQ(refusal(with_rules({"name=w2"})),
            "rule 'name=w2' must end in op=SPEC, as in 'name=*.bias,op=identity', or have a rank, "
            "as in 'name=fc1.weight,rank=4'");
}

TEST(RanksByTensor, ThatNobodyWouldFollowAreRefused) {
  const std::string none = "' has no rank by tensor; allowed with one: powersgd";
  for (const std::string exchange : {"gather", "dense", "auto", "arc"})
    EXPECT_EQ(refusal(with_rules({"rank=2"}, exchange)), "exchange '" + exchange + none);
  EXPECT_EQ(refusal({.name = "mine", .rules = {"rank=2"}, .mixer = "powergossip"}),
            "recipe 'mine' mixes models by 'powergossip'; its ranks by tensor must be left out, "
            "not 'rank=2'");
  EXPECT_EQ(refusal(with_rules({"name=w1,rank=2,op=natural"})),
            "exchange 'powersgd' compresses in no way but its own; allowed: operator identity, not "
            "'natural'");
}

TEST(RanksByTensor, ThatRanksDisagreeOnStopAllOfThem) {
  std::vector<std::string> messages(2);
  expect_no_errors(on_ranks(2, [&](Transport& transport) {
    const Recipe recipe = transport.rank() == 0 ? kMixed : with_rules({"name=w1,rank=5"});
    messages[static_cast<std::size_t>(transport.rank())] =
        message_of<UsageError>([&] { make(recipe, transport); });
  }));
  EXPECT_EQ(messages[0], R"(ranks disagree on the recipe's rules: rank 0 has ["name=w1,rank=5",)"
                         R"("name=w2,rank=3"], rank 1 has ["name=w1,rank=5"])");
  EXPECT_EQ(messages[1], messages[0]);
}

// Local steps average what has changed by the same exchange.
TEST(RanksByTensor, GoWithFragmentsOfAModel) {
  Recipe recipe = kMixed;
  recipe.delay = 4;
  recipe.fragments = 2;
  EXPECT_EQ(read_recipe(write_recipe(recipe)), recipe);
  auto ends = make_thread_transports(1);
  const auto aggregator = make(recipe, *ends[0]);
  auto change = gradient_of(0, 0);
  const std::size_t tensors[] = {0, 1};
  void* const data[] = {change.data(), change.data() + 1200};
  auto round = aggregator->begin({.step = 0}, tensors);
  round.submit({.tensors = tensors, .data = data});
  EXPECT_EQ(round.finish().payload_bytes, 4U * (5 * 70 + 40));
}

}  // namespace
}  // namespace laconic::testing

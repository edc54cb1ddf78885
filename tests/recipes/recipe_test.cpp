// Recipes: values that survive JSON, and ranks that agree on them or stop with a sentence.
#include "laconic/recipes/recipe.h"

#include <thread>

#include "tests/support.h"

namespace laconic::testing {
namespace {

TEST(Recipe, BuiltInOnesMakeAggregatorsAndSurviveJson) {
  const Model model = {{"w", {30, 10}}, {"b", {30}}};
  for (const Recipe& recipe : recipes()) {
    SCOPED_TRACE(recipe.name);
    EXPECT_EQ(read_recipe(write_recipe(recipe)), recipe);
    EXPECT_EQ(find_recipe(recipe.name), recipe);
    EXPECT_FALSE(recipe.summary.empty());
    if (!recipe.mixer.empty()) continue;
    auto ends = make_thread_transports(1);
    const auto aggregator = make_aggregator({.model = model, .recipe = recipe}, *ends[0]);
    std::vector<float> gradient = gaussian(330), momentum(330);
    const StepInfo info{.lr = 0.1F, .parameters = gradient, .momentum = momentum};
    EXPECT_TRUE(aggregator->average(gradient, info).finite);
  }
}

TEST(Recipe, AMixerLeavesNoRoomForAnExchange) {
  const auto refusal = [](const std::string& rest) {
    return message_of<UsageError>(
        [&] { read_recipe(R"({"name":"x","mixer":"dpsgd",)" + rest + "}"); });
  };
  EXPECT_EQ(refusal(R"("memory":"feedback")"),
            "recipe 'x' mixes models by 'dpsgd'; its memory must be left out, not 'feedback'");
  for (const char* rest : {R"("exchange":"dense")", R"("down":"natural")", R"("overlap":1)",
                           R"("down_memory":"feedback")", R"("outer":"momentum")",
                           R"("warmup":["3 natural"])", R"("draws":"own")"})
    EXPECT_NE(refusal(rest).find("must be left out"), std::string::npos) << rest;
  auto ends = make_thread_transports(2);
  EXPECT_EQ(
      message_of<UsageError>([&] {
        make_aggregator(Agreement{.model = {}, .recipe = find_recipe("dpsgd")}, *ends[0]);
      }),
      "recipe 'dpsgd' mixes models by 'dpsgd' and averages nothing; allowed: a recipe without "
      "mixer");
  EXPECT_EQ(message_of<UsageError>([&] {
              make_mixer(Agreement{.model = {}, .recipe = find_recipe("natural")}, *ends[0]);
            }),
            "recipe 'natural' has no mixer; it averages by exchange 'auto'");
}

TEST(Recipe, MistakesAreNamed) {
  const auto refusal = [](const std::string& json) {
    return message_of<UsageError>([&] { read_recipe(json); });
  };
  EXPECT_EQ(refusal("[]"), "a recipe must be one JSON object");
  EXPECT_EQ(refusal("{"), "a recipe must be one JSON object");
  EXPECT_EQ(refusal("{}"), "a recipe needs a 'name'");
  EXPECT_EQ(refusal(R"({"name": "red \u001b[31m"})"),
            "a recipe's 'name' has a control character; allowed: what is printed as it is");
  EXPECT_EQ(
      refusal(R"({"name":"x","operator":"natural"})"),
      "a recipe has no 'operator'; allowed: name op memory layout exchange down down_memory "
      "draws rules warmup delay outer fragments overlap merge mixer topology summary training");
  EXPECT_EQ(refusal(R"({"name":"x","draws":"dice"})"),
            "a recipe's 'draws' are 'dice'; allowed: strata own");
  EXPECT_EQ(refusal(R"({"name":"x","delay":0})"), "a recipe's 'delay' is 0; allowed: 1 or more");
  EXPECT_EQ(refusal(R"({"name":"x","delay":-1})"),
            "a recipe's 'delay' must be a whole number, 0 or above, not -1");
  EXPECT_NE(refusal(R"({"name":"x","outer":"adam"})").find("no outer optimiser 'adam'"),
            std::string::npos);
  EXPECT_EQ(refusal(R"({"name":"x","training":{"lr":"fast"}})"),
            "a recipe's 'training.lr' must be a number, not \"fast\"");
  EXPECT_EQ(refusal(R"({"name":"x","training":{"rate":1}})"),
            "a recipe's 'training' has no 'rate'; allowed: optimizer lr momentum decay workers "
            "batch");
  EXPECT_EQ(refusal(R"({"name":"x","training":3})"),
            "a recipe's 'training' must be an object, not 3");
  EXPECT_EQ(refusal(R"({"name":"x","op":3})"), "a recipe's 'op' must be text, not 3");
  EXPECT_NE(refusal(R"({"name":"x","op":"natrual"})").find("no operator 'natrual'"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"name":"x","rules":["max=3"]})").find("must end in op=SPEC"),
            std::string::npos);
  EXPECT_NE(message_of<UsageError>([] {
              find_recipe("natura");
            }).find("no recipe 'natura'; known: dense"),
            std::string::npos);
  EXPECT_THROW(find_recipe("/nowhere/mine.json"), UsageError);
}

TEST(Recipe, AWarmUpIsReadWrittenAndFollowed) {
  const Recipe recipe = read_recipe(
      R"({"name":"x","op":"natural","memory":"feedback","layout":"split:100",
          "rules":["max=30,op=half"],"warmup":["2 identity","3 natural:8"]})");
  EXPECT_EQ(recipe.warmup, (std::vector<std::string>{"2 identity", "3 natural:8"}));
  EXPECT_EQ(read_recipe(write_recipe(recipe)), recipe);
  auto ends = make_thread_transports(1);
  const Model model = {{"w", {30, 10}}, {"b", {30}}};
  const auto aggregator = make_aggregator({.model = model, .recipe = recipe}, *ends[0]);
  std::vector<std::uint64_t> payloads;
  for (std::uint64_t step = 0; step < 5; ++step) {
    std::vector<float> gradient = gaussian(330, 1, step);
    payloads.push_back(aggregator->average(gradient, {.step = step}).payload_bytes);
  }
  const std::uint64_t b = encode(parse_operator("half"), gaussian(30)).size();  // in all phases
  EXPECT_EQ(payloads, (std::vector<std::uint64_t>{1200 + b, 1200 + b, 303 + b, 339 + b, 339 + b}));
}

TEST(Recipe, MistakesInAWarmUpAreNamed) {
  const auto refusal = [](const std::string& warmup, const std::string& exchange = "gather") {
    return message_of<UsageError>([&] {
      read_recipe(R"({"name":"x","exchange":")" + exchange + R"(","warmup":)" + warmup + "}");
    });
  };
  EXPECT_EQ(refusal("7"), "a recipe's 'warmup' must be a list of texts, not 7");
  for (const std::string text : {"natural", "0 natural", "-1 natural", "1.5 natural", "5",
                                 "5natural", "", "99999999999999999999 natural"})
    EXPECT_EQ(refusal(R"([")" + text + R"("])"),
              "warm-up '" + text + "' must be STEP SPEC with a STEP above 0, as in '100 natural'");
  EXPECT_NE(refusal(R"(["5 natrual"])").find("no operator 'natrual'"), std::string::npos);
  EXPECT_EQ(refusal(R"(["5 natural","5 half"])"),
            "warm-up '5 half' must end after step 5, where the one before it ends");
  EXPECT_EQ(refusal(R"(["5 natural"])", "dense"),
            "exchange 'dense' has no warm-up; allowed with one: auto gather server sharded sparse "
            "summed");
}

TEST(Recipe, RanksThatDisagreeAllStopBeforeTheFirstStep) {
  const Agreement mine{.model = {{"w", {10}}}, .recipe = find_recipe("natural"), .seed = 1};
  const auto messages_with = [&](const Agreement& other) {
    auto ends = make_thread_transports(3);
    std::vector<std::string> messages(3);
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < 3; ++rank)
      threads.emplace_back([&, rank] {
        try {
          make_aggregator(rank == 2 ? other : mine, *ends[rank]);
        } catch (const UsageError& error) {
          messages[rank] = error.what();
        }
      });
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(messages[0], messages[1]);
    EXPECT_EQ(messages[0], messages[2]);
    return messages[0];
  };
  EXPECT_EQ(messages_with(mine), "");
  Agreement other = mine;
  other.seed = 2;
  EXPECT_EQ(messages_with(other), "ranks disagree on the seed: rank 0 has 1, rank 2 has 2");
  other = mine;
  other.model[0].shape = {11};
  EXPECT_EQ(messages_with(other),
            R"(ranks disagree on the model: rank 0 has [["w",[10]]], rank 2 has [["w",[11]]])");
  other = mine;
  other.start_crc = 7;
  EXPECT_EQ(messages_with(other),
            "ranks disagree on the checksum of the start parameters: rank 0 has 0, rank 2 has 7");
  other = mine;
  other.unit_bytes = 5;
  EXPECT_EQ(messages_with(other),
            "ranks disagree on the unit bytes: rank 0 has 1048576, rank 2 has 5");
  other = mine;
  other.engine = Engine::thread;
  other.threads = 2;
  EXPECT_EQ(messages_with(other), "");
  other = mine;
  other.recipe.layout = "whole";
  EXPECT_NE(messages_with(other).find("ranks disagree on the recipe"), std::string::npos);
  other = mine;
  other.recipe.warmup = {"5 half"};
  EXPECT_NE(messages_with(other).find("ranks disagree on the recipe"), std::string::npos);
  other = mine;
  other.unit_bytes = 5;
  EXPECT_EQ(messages_with(other),
            "ranks disagree on the unit bytes: rank 0 has 1048576, rank 2 has 5");
  other = mine;
  other.engine = Engine::thread;  // each may choose
  EXPECT_EQ(messages_with(other), "");
}

// What notes of rank 1 are refused with, beside good ones of rank 0.
template <class E>
std::string refusal_of(const std::string& notes) {
  const std::string good = write_notes({.model = {{"w", {10}}}, .recipe = recipes().front()});
  const ByteView all[] = {as_bytes(good), as_bytes(notes)};
  return message_of<E>([&] { compare_notes(all); });
}

// A hundred thousand brackets would overflow the stack of whoever compares or prints them.
TEST(Recipe, HostileNotesAreRefusedInWords) {
  std::string deep = R"({"recipe":)" + std::string(10'000'000, '[');
  EXPECT_EQ(refusal_of<DataError>(deep),
            "the notes of rank 1 cannot be read: they are nested too deep");
  deep += std::string(10'000'000, ']') + "}";
  EXPECT_EQ(refusal_of<DataError>(deep),
            "the notes of rank 1 cannot be read: they are nested too deep");
  std::string many = "{\"model\":[0";
  for (int i = 0; i < 2'200'000; ++i) many += ",0";
  EXPECT_EQ(refusal_of<DataError>(many + "]}"),
            "the notes of rank 1 cannot be read: they hold too many values");
  for (const char* none : {"", "{", "[]", "7", "null", "{\"a\":\"\xff\"}", "{\"seed\":1e999}"})
    EXPECT_EQ(refusal_of<DataError>(none),
              "the notes of rank 1 cannot be read: they are not a JSON object")
        << none;
}

TEST(Recipe, NotesThatDifferAreQuotedShortAndEscaped) {
  EXPECT_EQ(refusal_of<UsageError>(R"({"version":"\u001b[31m"})").find('\x1b'), std::string::npos);
  EXPECT_LT(refusal_of<UsageError>("{\"version\":\"" + std::string(100'000, 'x') + "\"}").size(),
            300U);
  const std::string odd = R"({"version":{"\u001b":1}})", other = R"({"version":{}})";
  const ByteView all[] = {as_bytes(odd), as_bytes(other)};
  EXPECT_EQ(message_of<UsageError>([&] { compare_notes(all); }),
            R"(ranks disagree on the version's \u001b: rank 0 has 1, rank 1 has null)");
}

}  // namespace
}  // namespace laconic::testing

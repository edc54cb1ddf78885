// Recipes as JSON, the built-in ones, and the agreement of ranks.
#include "laconic/exchange/recipe.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "laconic/base/errors.h"
#include "laconic/base/file.h"
#include "laconic/frame/frame.h"
#include "laconic/version.h"

namespace laconic {
namespace {

using nlohmann::json;

std::string text_of(const json& value, const std::string& key) {
  if (!value.is_string())
    throw UsageError("a recipe's '" + key + "' must be text, not " + value.dump());
  return value;
}

std::vector<std::string> texts_of(const json& value, const std::string& key) {
  if (!value.is_array())
    throw UsageError("a recipe's '" + key + "' must be a list of texts, not " + value.dump());
  std::vector<std::string> texts;
  for (const json& entry : value) texts.push_back(text_of(entry, key));
  return texts;
}

json to_json(const Recipe& r) {
  return {{"name", r.name},
          {"op", r.op},
          {"memory", r.memory},
          {"layout", r.layout},
          {"exchange", r.exchange},
          {"down", r.down},
          {"down_memory", r.down_memory},
          {"rules", r.rules},
          {"warmup", r.warmup},
          {"summary", r.summary}};
}

Plan plan_of(const Recipe& recipe, const Model& model, std::string_view op) {
  std::vector<Rule> rules;
  for (const auto& text : recipe.rules) rules.push_back(parse_rule(text));
  return make_plan(model, recipe.layout, parse_operator(op), rules);
}

// The same rules hold on the way back.
std::optional<Plan> way_back_of(const Recipe& recipe, const Model& model) {
  if (recipe.down.empty()) return std::nullopt;
  return plan_of(recipe, model, recipe.down);
}

// "100 natural": the plan with natural compression, before step 100.
Phase phase_of(const Recipe& recipe, const Model& model, const std::string& text) {
  const char* const last = text.data() + text.size();
  Phase phase;
  const auto [end, error] = std::from_chars(text.data(), last, phase.until);
  if (error != std::errc() || phase.until == 0 || end == last || *end != ' ')
    throw UsageError("warm-up '" + text +
                     "' must be STEP SPEC with a STEP above 0, as in '100 natural'");
  phase.plan = plan_of(recipe, model, {end + 1, static_cast<std::size_t>(last - end - 1)});
  return phase;
}

std::vector<Phase> phases_of(const Recipe& recipe, const Model& model) {
  std::vector<Phase> phases;
  for (const std::string& text : recipe.warmup) {
    Phase phase = phase_of(recipe, model, text);
    if (!phases.empty() && phase.until <= phases.back().until)
      throw UsageError("warm-up '" + text + "' must end after step " +
                       std::to_string(phases.back().until) + ", where the one before it ends");
    phases.push_back(std::move(phase));
  }
  return phases;
}

// A warm-up that an exchange would pass over in silence is a mistake.
void require_warmup_followed(const Recipe& recipe) {
  const auto name = recipe.exchange.substr(0, recipe.exchange.find(':'));
  const auto at = std::ranges::find(exchanges(), name, &ExchangeInfo::name);
  if (recipe.warmup.empty() || at == exchanges().end() || at->follows_warmup) return;
  std::vector<std::string> able;
  for (const ExchangeInfo& info : exchanges())
    if (info.follows_warmup) able.push_back(info.name);
  throw UsageError("exchange '" + name + "' has no warm-up; allowed with one: " + join(able, " "));
}

// Everything ranks must have in common, field by field.
json notes_of(const Agreement& agreement) {
  json model = json::array();
  for (const Tensor& tensor : agreement.model) model.push_back({tensor.name, tensor.shape});
  return {{"version", LACONIC_VERSION},
          {"data version", kDataVersion},
          {"recipe", to_json(agreement.recipe)},
          {"model", model},
          {"seed", agreement.seed}};
}

std::string shortened(const json& value) {
  const std::string text = value.dump();
  return text.size() <= 120 ? text : text.substr(0, 117) + "...";
}

void agree(const Agreement& agreement, Transport& transport) {
  const json mine = notes_of(agreement);
  std::vector<Buffer> all;
  constexpr std::uint64_t kMost = std::uint64_t{64}
                                  << 20;  // the names and shapes of a hundred thousand tensors
  transport.all_gather(as_bytes(mine.dump()), all, kMost,
                       Deadline::in(agreement.timeout_seconds, "agreement of ranks"));
  const json first = json::parse(as_text(all[0].view()), nullptr, false);
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    const json other = json::parse(as_text(all[rank].view()), nullptr, false);
    if (first == other) continue;
    for (const auto& [key, value] : mine.items()) {
      const json a = first.is_object() ? first.value(key, json()) : json();
      const json b = other.is_object() ? other.value(key, json()) : json();
      if (a != b)
        throw UsageError("ranks disagree on the " + key + ": rank 0 has " + shortened(a) +
                         ", rank " + std::to_string(rank) + " has " + shortened(b));
    }
    throw UsageError("ranks disagree: rank " + std::to_string(rank) + " runs another version");
  }
}

}  // namespace

const std::vector<Recipe>& recipes() {
  static const std::vector<Recipe> list = {
      {.name = "dense",
       .exchange = "dense",
       .summary = "Uncompressed: ring all-reduce of float32."},
      {.name = "half", .op = "half", .summary = "16-bit floats, scaled per block."},
      {.name = "natural", .op = "natural", .summary = "Natural compression, 9 bits."},
      {.name = "natural-8",
       .op = "natural:8",
       .summary = "Natural compression in a window, 8 bits."},
      {.name = "natural-entropy",
       .op = "natural+entropy",
       .summary = "Natural compression, entropy-coded."},
      {.name = "grid",
       .op = "grid",
       .summary = "Natural compression's guarantee, certified, in a fraction of its bits."},
      {.name = "natural-feedback",
       .op = "natural:nearest+entropy",
       .memory = "feedback",
       .summary = "Nearest powers of two with error feedback, entropy-coded."},
      {.name = "natural-sharded",
       .op = "natural",
       .exchange = "sharded",
       .summary = "Natural compression both ways between owners of shards; traffic does not grow "
                  "with ranks."},
      {.name = "natural-bidirectional",
       .op = "natural",
       .exchange = "server",
       .summary = "Natural compression both ways through rank 0."},
      {.name = "stc",
       .op = "stc:0.01",
       .memory = "feedback",
       .exchange = "server",
       .down_memory = "feedback",
       .summary = "Sparse ternary compression of 1 % both ways through rank 0, feedback on both "
                  "sides."},
      {.name = "randomk",
       .op = "randomk:0.01,unscaled",
       .memory = "feedback",
       .exchange = "summed",
       .summary =
           "1 % of entries at positions all ranks share, added on their way, with feedback."},
      {.name = "powersgd",
       .exchange = "powersgd",
       .summary = "Matrices as factors of rank 2, averaged by all-reduce."},
      {.name = "spardl",
       .op = "topk:0.01",
       .memory = "feedback",
       .exchange = "sparse",
       .summary = "The largest 1 % of sums around a ring, what is dropped kept where it was "
                  "dropped."},
  };
  return list;
}

Plan make_plan(const Recipe& recipe, const Model& model) {
  return plan_of(recipe, model, recipe.op);
}

Recipe find_recipe(const std::string& name_or_file) {
  if (name_or_file.ends_with(".json")) {
    const Buffer file = read_file(name_or_file);
    try {
      return read_recipe(as_text(file.view()));
    } catch (const UsageError& error) {
      throw UsageError(name_or_file + ": " + error.what());
    }
  }
  const auto at = std::ranges::find(recipes(), name_or_file, &Recipe::name);
  if (at != recipes().end()) return *at;
  std::vector<std::string> names;
  for (const Recipe& recipe : recipes()) names.push_back(recipe.name);
  throw UsageError("no recipe '" + name_or_file + "'; known: " + join(names, " ") +
                   ", or a file FILE.json");
}

Recipe read_recipe(std::string_view text) {
  const json object = json::parse(text, nullptr, false);
  if (!object.is_object()) throw UsageError("a recipe must be one JSON object");
  Recipe recipe;
  for (const auto& [key, value] : object.items()) {
    if (key == "name")
      recipe.name = text_of(value, key);
    else if (key == "op")
      recipe.op = text_of(value, key);
    else if (key == "memory")
      recipe.memory = text_of(value, key);
    else if (key == "layout")
      recipe.layout = text_of(value, key);
    else if (key == "exchange")
      recipe.exchange = text_of(value, key);
    else if (key == "down")
      recipe.down = text_of(value, key);
    else if (key == "down_memory")
      recipe.down_memory = text_of(value, key);
    else if (key == "rules")
      recipe.rules = texts_of(value, key);
    else if (key == "warmup")
      recipe.warmup = texts_of(value, key);
    else if (key == "summary")
      recipe.summary = text_of(value, key);
    else
      throw UsageError("a recipe has no '" + key +
                       "'; allowed: name op memory layout exchange down down_memory rules "
                       "warmup summary");
  }
  if (recipe.name.empty()) throw UsageError("a recipe needs a 'name'");
  // The parts are known and well-formed.
  make_plan(recipe, {});
  way_back_of(recipe, {});
  phases_of(recipe, {});
  require_warmup_followed(recipe);
  return recipe;
}

std::string write_recipe(const Recipe& recipe) { return to_json(recipe).dump(2); }

std::unique_ptr<Aggregator> make_aggregator(const Agreement& agreement, Transport& transport) {
  const Recipe& recipe = agreement.recipe;
  Plan plan = make_plan(recipe, agreement.model);
  std::optional<Plan> down = way_back_of(recipe, agreement.model);
  std::vector<Phase> warmup = phases_of(recipe, agreement.model);
  require_warmup_followed(recipe);
  agree(agreement, transport);
  return make_aggregator(recipe.exchange, {.transport = transport,
                                           .model = agreement.model,
                                           .plan = std::move(plan),
                                           .warmup = std::move(warmup),
                                           .memory = recipe.memory,
                                           .down = std::move(down),
                                           .down_memory = recipe.down_memory,
                                           .seed = agreement.seed,
                                           .timeout_seconds = agreement.timeout_seconds,
                                           .threads = agreement.threads});
}

}  // namespace laconic

// Recipes as JSON, and what goes with what.
#include "laconic/recipes/recipe.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <variant>

#include "laconic/base/errors.h"
#include "laconic/base/file.h"
#include "laconic/recipes/outer.h"

namespace laconic {
namespace {

using nlohmann::json;

// A key of the JSON object and the member it stands for.
template <class Object>
struct Field {
  const char* key;
  std::variant<std::string Object::*, std::vector<std::string> Object::*, std::uint64_t Object::*,
               double Object::*, std::optional<double> Object::*>
      member;
};

const std::vector<Field<Recipe>>& recipe_fields() {
  static const std::vector<Field<Recipe>> fields = {{"name", &Recipe::name},
                                                    {"op", &Recipe::op},
                                                    {"memory", &Recipe::memory},
                                                    {"layout", &Recipe::layout},
                                                    {"exchange", &Recipe::exchange},
                                                    {"down", &Recipe::down},
                                                    {"down_memory", &Recipe::down_memory},
                                                    {"draws", &Recipe::draws},
                                                    {"rules", &Recipe::rules},
                                                    {"warmup", &Recipe::warmup},
                                                    {"delay", &Recipe::delay},
                                                    {"outer", &Recipe::outer},
                                                    {"fragments", &Recipe::fragments},
                                                    {"overlap", &Recipe::overlap},
                                                    {"merge", &Recipe::merge},
                                                    {"mixer", &Recipe::mixer},
                                                    {"topology", &Recipe::topology},
                                                    {"summary", &Recipe::summary}};
  return fields;
}

const std::vector<Field<Tuning>>& tuning_fields() {
  static const std::vector<Field<Tuning>> fields = {
      {"optimizer", &Tuning::optimizer}, {"lr", &Tuning::lr},
      {"momentum", &Tuning::momentum},   {"decay", &Tuning::decay},
      {"workers", &Tuning::workers},     {"batch", &Tuning::batch}};
  return fields;
}

constexpr const char* kTraining = "training";

[[noreturn]] void refuse(const std::string& key, const char* must_be, const json& value) {
  throw UsageError("a recipe's '" + key + "' must be " + must_be + ", not " + value.dump());
}

void read(const json& value, const std::string& key, std::string& into) {
  if (!value.is_string()) refuse(key, "text", value);
  into = value;
}

void read(const json& value, const std::string& key, std::vector<std::string>& into) {
  if (!value.is_array()) refuse(key, "a list of texts", value);
  into.clear();
  for (const json& entry : value) read(entry, key, into.emplace_back());
}

void read(const json& value, const std::string& key, std::uint64_t& into) {
  if (!value.is_number_unsigned()) refuse(key, "a whole number, 0 or above", value);
  into = value;
}

void read(const json& value, const std::string& key, double& into) {
  if (!value.is_number()) refuse(key, "a number", value);
  into = value.get<double>();
}

void read(const json& value, const std::string& key, std::optional<double>& into) {
  if (value.is_null()) return into.reset();
  read(value, key, into.emplace());
}

json to_json(const std::optional<double>& number) { return number ? json(*number) : json(); }
template <class T>
json to_json(const T& value) {
  return value;
}

template <class Object>
json fields_to_json(const Object& object, const std::vector<Field<Object>>& fields) {
  json all = json::object();
  for (const Field<Object>& field : fields)
    std::visit([&](auto member) { all[field.key] = to_json(object.*member); }, field.member);
  return all;
}

// Whether there is such a field.
template <class Object>
bool read_field(const std::string& prefix, const std::string& key, const json& value,
                const std::vector<Field<Object>>& fields, Object& into) {
  for (const Field<Object>& field : fields) {
    if (key != field.key) continue;
    std::visit([&](auto member) { read(value, prefix + key, into.*member); }, field.member);
    return true;
  }
  return false;
}

template <class Object>
std::vector<std::string> keys_of(const std::vector<Field<Object>>& fields) {
  std::vector<std::string> keys;
  for (const Field<Object>& field : fields) keys.emplace_back(field.key);
  return keys;
}

Tuning read_tuning(const json& object) {
  if (!object.is_object()) refuse(kTraining, "an object", object);
  Tuning tuning;
  for (const auto& [key, value] : object.items())
    if (!read_field(std::string(kTraining) + ".", key, value, tuning_fields(), tuning))
      throw UsageError("a recipe's 'training' has no '" + key +
                       "'; allowed: " + join(keys_of(tuning_fields()), " "));
  return tuning;
}

std::vector<Rule> rules_of(const Recipe& recipe) {
  std::vector<Rule> rules;
  for (const auto& text : recipe.rules) rules.push_back(parse_rule(text));
  return rules;
}

Plan plan_of(const Recipe& recipe, const Model& model, std::string_view op) {
  return make_plan(model, recipe.layout, parse_operator(op), rules_of(recipe));
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

// What an exchange would pass over in silence is a mistake.
void require_followed(const Recipe& recipe, bool ExchangeInfo::*follows, const std::string& what) {
  const auto name = recipe.exchange.substr(0, recipe.exchange.find(':'));
  const auto at = std::ranges::find(exchanges(), name, &ExchangeInfo::name);
  if (at == exchanges().end() || (*at).*follows) return;
  std::vector<std::string> able;
  for (const ExchangeInfo& info : exchanges())
    if (info.*follows) able.push_back(info.name);
  throw UsageError("exchange '" + name + "' has no " + what +
                   "; allowed with one: " + join(able, " "));
}

bool has_ranks(const Recipe& recipe) {
  return std::ranges::any_of(rules_of(recipe), [](const Rule& rule) { return rule.rank > 0; });
}

// What a mixer leaves no room for must be as it is without being named.
void require_nothing_beside_mixer(const Recipe& recipe) {
  const Recipe bare{.name = recipe.name};
  const auto refuse_part = [&](const char* part, const std::string& value) {
    throw UsageError("recipe '" + recipe.name + "' mixes models by '" + recipe.mixer + "'; its " +
                     part + " must be left out, not '" + value + "'");
  };
  if (recipe.memory != bare.memory) refuse_part("memory", recipe.memory);
  if (recipe.exchange != bare.exchange) refuse_part("exchange", recipe.exchange);
  if (recipe.down != bare.down) refuse_part("down", recipe.down);
  if (recipe.down_memory != bare.down_memory) refuse_part("down_memory", recipe.down_memory);
  if (recipe.draws != bare.draws) refuse_part("draws", recipe.draws);
  if (!recipe.warmup.empty()) refuse_part("warmup", recipe.warmup.front());
  if (has_ranks(recipe)) refuse_part("ranks by tensor", join(recipe.rules, " "));
  if (recipe.outer != bare.outer) refuse_part("outer", recipe.outer);
  if (recipe.fragments != bare.fragments)
    refuse_part("fragments", std::to_string(recipe.fragments));
  if (recipe.overlap != bare.overlap) refuse_part("overlap", std::to_string(recipe.overlap));
  if (recipe.merge != bare.merge) refuse_part("merge", json(recipe.merge).dump());
}

// One fragment's round ends before the next one's begins.
void require_rounds_in_turn(const Recipe& recipe) {
  if (recipe.delay == 0) throw UsageError("a recipe's 'delay' is 0; allowed: 1 or more");
  const auto refuse_value = [](const char* key, const std::string& value, const std::string& rest) {
    throw UsageError("a recipe's '" + std::string(key) + "' is " + value + rest);
  };
  const std::string delay = "a delay of " + std::to_string(recipe.delay);
  if (recipe.fragments == 0 || recipe.fragments > recipe.delay)
    refuse_value("fragments", std::to_string(recipe.fragments),
                 " with " + delay + "; allowed: 1 to " + std::to_string(recipe.delay));
  const std::uint64_t between = recipe.delay / recipe.fragments;
  if (recipe.overlap >= between)
    refuse_value("overlap", std::to_string(recipe.overlap),
                 " with " + delay + " and fragments " + std::to_string(recipe.fragments) +
                     "; allowed: fewer than the " + std::to_string(between) +
                     " steps between two fragments");
  if (!(recipe.merge >= 0 && recipe.merge < 1))
    refuse_value("merge", json(recipe.merge).dump(), "; allowed: 0 and more, below 1");
  if (recipe.merge > 0 && !takes_local_steps(recipe))
    refuse_value("merge", json(recipe.merge).dump(), " without local steps; allowed: 0");
}

}  // namespace

Plan make_plan(const Recipe& recipe, const Model& model) {
  return plan_of(recipe, model, recipe.op);
}

std::vector<Phase> make_warmup(const Recipe& recipe, const Model& model) {
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
    if (key == kTraining) {
      recipe.training = read_tuning(value);
    } else if (!read_field("", key, value, recipe_fields(), recipe)) {
      auto allowed = keys_of(recipe_fields());
      allowed.emplace_back(kTraining);
      throw UsageError("a recipe has no '" + key + "'; allowed: " + join(allowed, " "));
    }
  }
  if (recipe.name.empty()) throw UsageError("a recipe needs a 'name'");
  if (std::ranges::any_of(recipe.name, [](unsigned char c) { return c < ' ' || c == 127; }))
    throw UsageError(
        "a recipe's 'name' has a control character; allowed: what is printed as it is");
  check_recipe(recipe);
  return recipe;
}

std::string write_recipe(const Recipe& recipe) {
  json object = fields_to_json(recipe, recipe_fields());
  object[kTraining] = fields_to_json(recipe.training, tuning_fields());
  return object.dump(2);
}

void check_recipe(const Recipe& recipe) {
  make_plan(recipe, {});
  way_back_of(recipe, {});
  make_warmup(recipe, {});
  if (!recipe.warmup.empty()) require_followed(recipe, &ExchangeInfo::follows_warmup, "warm-up");
  if (recipe.mixer.empty() && has_ranks(recipe))
    require_followed(recipe, &ExchangeInfo::follows_ranks, "rank by tensor");
  if (recipe.draws != "strata" && recipe.draws != "own")
    throw UsageError("a recipe's 'draws' are '" + recipe.draws + "'; allowed: strata own");
  parse_outer(recipe.outer);
  if (!recipe.mixer.empty()) require_nothing_beside_mixer(recipe);
  require_rounds_in_turn(recipe);
}

void check_recipe(const Recipe& recipe, const Model& model) {
  check_recipe(recipe);
  require_fitting(rules_of(recipe), model);
}

// One local step whose change nobody treats further is a step on the mean gradient.
bool takes_local_steps(const Recipe& recipe) {
  return recipe.mixer.empty() && (recipe.delay != 1 || recipe.outer != "none");
}

std::unique_ptr<Aggregator> make_aggregator(const Agreement& agreement, Transport& transport) {
  const Recipe& recipe = agreement.recipe;
  check_recipe(recipe, agreement.model);
  if (!recipe.mixer.empty())
    throw UsageError("recipe '" + recipe.name + "' mixes models by '" + recipe.mixer +
                     "' and averages nothing; allowed: a recipe without mixer");
  agree(agreement, transport);
  return make_aggregator(recipe.exchange,
                         {.transport = transport,
                          .model = agreement.model,
                          .plan = make_plan(recipe, agreement.model),
                          .warmup = make_warmup(recipe, agreement.model),
                          .memory = recipe.memory,
                          .down = way_back_of(recipe, agreement.model),
                          .down_memory = recipe.down_memory,
                          .seed = agreement.seed,
                          .strata = recipe.draws == "strata",
                          .timeout_seconds = agreement.timeout_seconds,
                          .threads = agreement.threads,
                          .engine = agreement.engine,
                          .unit_bytes = agreement.unit_bytes,
                          .zeros_rest = !takes_local_steps(recipe),
                          .guard = takes_local_steps(recipe) ? GuardOptions{} : agreement.guard});
}

// "ring" is the ring of all ranks.
Graph make_graph(const Recipe& recipe, int ranks) {
  const bool open = recipe.topology.find(':') == std::string::npos;
  const auto at = std::ranges::find(topologies(), recipe.topology, &TopologyInfo::name);
  const bool sized = open && at != topologies().end() && !at->parameters.empty() &&
                     at->parameters[0].name == ranks_parameter().name;
  return make_graph(sized ? recipe.topology + ":" + std::to_string(ranks) : recipe.topology);
}

std::unique_ptr<Mixer> make_mixer(const Agreement& agreement, Transport& transport) {
  const Recipe& recipe = agreement.recipe;
  check_recipe(recipe, agreement.model);
  if (recipe.mixer.empty())
    throw UsageError("recipe '" + recipe.name + "' has no mixer; it averages by exchange '" +
                     recipe.exchange + "'");
  agree(agreement, transport);
  return make_mixer(recipe.mixer, {.transport = transport,
                                   .model = agreement.model,
                                   .graph = make_graph(recipe, transport.size()),
                                   .plan = make_plan(recipe, agreement.model),
                                   .seed = agreement.seed,
                                   .timeout_seconds = agreement.timeout_seconds,
                                   .threads = agreement.threads});
}

}  // namespace laconic

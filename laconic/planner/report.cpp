// Requests and reports as JSON.
#include "laconic/planner/report.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <variant>

#include "laconic/base/errors.h"
#include "laconic/planner/link.h"

namespace laconic {
namespace {

using json = nlohmann::ordered_json;

template <class T>
T taken(const std::string& key, const json& value) {
  const auto refuse = [&](const char* must_be) {
    throw UsageError("a plan's '" + key + "' must be " + must_be + ", not " + value.dump());
  };
  if constexpr (std::is_same_v<T, std::string>) {
    if (!value.is_string()) refuse("text");
  } else if constexpr (std::is_same_v<T, double>) {
    if (!value.is_number()) refuse("a number");
  } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
    if (!value.is_array() ||
        !std::ranges::all_of(value, [](const json& entry) { return entry.is_string(); }))
      refuse("a list of texts");
  } else {
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() > (std::uint64_t{1} << 31))
      refuse("a whole number, 0 or above");
  }
  return value.get<T>();
}

bool read_into(PlanRequest& request, const std::string& key, const json& value) {
  const auto read = [&]<class T>(T& into) { into = taken<T>(key, value); };
  if (key == "model")
    read(request.model);
  else if (key == "gradients")
    read(request.gradients);
  else if (key == "workers")
    read(request.workers);
  else if (key == "link")
    read(request.link);
  else if (key == "compute_seconds")
    request.compute_seconds = taken<double>(key, value);
  else if (key == "batch")
    read(request.batch);
  else if (key == "recipes")
    read(request.recipes);
  else if (key == "bucket_bytes")
    read(request.bucket_bytes);
  else if (key == "headers")
    read(request.headers);
  else if (key == "repeats")
    read(request.repeats);
  else if (key == "cores")
    read(request.cores);
  else if (key == "stack")
    read(request.stack);
  else if (key == "adaptive")
    read(request.adaptive);
  else if (key == "bytes")
    request.budget.bytes = taken<std::uint64_t>(key, value);
  else if (key == "error")
    request.budget.error = taken<double>(key, value);
  else
    return false;
  return true;
}

constexpr const char* kKeys =
    "model gradients workers link compute_seconds batch recipes bucket_bytes headers repeats "
    "cores stack adaptive bytes error";

Situation situation_of(const PlanRequest& request) {
  if (request.headers != "tcp" && request.headers != "none")
    throw UsageError("headers '" + request.headers + "'; allowed: tcp none");
  if (!request.stack.empty() && request.cores == 0)
    throw UsageError("a stack without 'cores', of which messages take it");
  if (request.batch == 0) throw UsageError("a batch of 0; allowed: 1 and more");
  if (request.adaptive.empty() && (request.budget.bytes || request.budget.error))
    throw UsageError("a budget without 'adaptive', which says what it is for");
  Situation situation{.workers = request.workers,
                      .link = parse_link(request.link),
                      .compute_seconds = request.compute_seconds.value_or(0),
                      .bucket_bytes = static_cast<std::size_t>(request.bucket_bytes),
                      .packets = request.headers == "tcp",
                      .repeats = request.repeats,
                      .cores = request.cores,
                      .computes = request.computes};
  if (!request.stack.empty()) situation.stack = parse_stack(request.stack);
  require_sound(situation);  // before files are read
  if (!request.adaptive.empty()) variants_of(request.adaptive);
  situation.samples = read_samples(request.model, request.gradients);
  if (!request.compute_seconds)
    situation.compute_seconds =
        estimated_compute(situation.samples, request.batch) / shares_of(situation).one;
  if (request.cores > 0 && request.stack.empty())
    situation.stack = measure_stack(situation.link.bits_per_second);
  return situation;
}

// All that are built in and whatever else was named.
std::vector<Recipe> recipes_of(const PlanRequest& request) {
  if (request.recipes.empty()) return recipes();
  std::vector<Recipe> all;
  for (const std::string& name : request.recipes)
    all.push_back(name == "bf16" ? bf16_recipe() : find_recipe(name));
  return all;
}

json to_json(const Outcomes& outcomes) {
  return {{"bytes", outcomes.bytes},
          {"error", outcomes.error},
          {"layout", outcomes.recipe.layout},
          {"recipe", json::parse(write_recipe(outcomes.recipe))}};
}

json to_json(const Adaptive& adaptive) {
  json object = {{"chosen", to_json(adaptive.chosen)},
                 {"layer_wise", to_json(adaptive.layer_wise)}};
  if (adaptive.entire_model) object["entire_model"] = to_json(*adaptive.entire_model);
  return object;
}

json to_json(const Forecast& forecast, const PlanRequest& request) {
  if (!forecast.obstacle.empty())
    return {{"recipe", forecast.recipe.name}, {"obstacle", forecast.obstacle}};
  json object = {{"recipe", forecast.recipe.name},
                 {"bytes_per_step", forecast.bytes},
                 {"messages_per_step", forecast.messages},
                 {"exact", forecast.exact},
                 {"kernel_seconds", forecast.kernel_seconds},
                 {"link_seconds", forecast.link_seconds},
                 {"exposed_seconds", forecast.exposed_seconds},
                 {"step_seconds", forecast.step_seconds},
                 {"over_dense", forecast.over_dense},
                 {"over_bf16", forecast.over_bf16}};
  object["error"] = forecast.error ? json(*forecast.error) : json();
  object["command"] = command_of(forecast.recipe, request);
  object["python"] = python_of(forecast.recipe);
  return object;
}

}  // namespace

PlanRequest read_request(std::string_view text) {
  const json object = json::parse(text, nullptr, false);
  if (!object.is_object()) throw UsageError("a plan's request must be one JSON object");
  PlanRequest request;
  for (const auto& [key, value] : object.items())
    if (!read_into(request, key, value))
      throw UsageError("a plan has no '" + key + "'; allowed: " + kKeys);
  return request;
}

PlanReport make_report(const PlanRequest& request,
                       const std::function<void(const std::string&)>& tell) {
  std::vector<Recipe> all = recipes_of(request);
  PlanReport report{.request = request, .situation = situation_of(request)};
  if (!request.adaptive.empty()) {
    if (tell) tell("adaptive");
    report.adaptive = adapt(request.adaptive, request.budget, report.situation);
    all.push_back(report.adaptive->chosen.recipe);
  }
  report.forecasts = forecast_all(all, report.situation, tell);
  return report;
}

std::string write_report(const PlanReport& report) {
  const Situation& s = report.situation;
  json object = {{"model", s.samples.name},
                 {"tensors", s.samples.model.size()},
                 {"parameters", count_of(s.samples.model)},
                 {"gradients", s.samples.drawn ? json(kDrawnAs) : json(report.request.gradients)},
                 {"workers", s.workers},
                 {"link",
                  {{"text", report.request.link},
                   {"bits_per_second", s.link.bits_per_second},
                   {"latency_seconds", s.link.latency_seconds},
                   {"headers", report.request.headers}}},
                 {"compute_seconds", s.compute_seconds},
                 {"compute_estimated", !report.request.compute_seconds.has_value()},
                 {"bucket_bytes", s.bucket_bytes}};
  object["cores"] = s.cores > 0 ? json(s.cores) : json();
  object["stack"] = json();
  if (s.cores > 0)
    object["stack"] = {{"message_seconds", s.stack.message}, {"byte_seconds", s.stack.byte}};
  if (report.adaptive) object["adaptive"] = to_json(*report.adaptive);
  object["recipes"] = json::array();
  for (const Forecast& forecast : report.forecasts)
    object["recipes"].push_back(to_json(forecast, report.request));
  return object.dump(2, ' ', false, json::error_handler_t::replace);
}

std::string command_of(const Recipe& recipe, const PlanRequest& request) {
  const auto& built_in = recipes();
  const bool named = std::ranges::find(built_in, recipe) != built_in.end();
  std::string what = named ? "--recipe " + recipe.name : "--recipe " + recipe.name + ".json";
  if (recipe == bf16_recipe()) what = "--op half:bf16 --exchange sharded";
  for (const std::string& file : request.recipes)
    if (!named && file.ends_with(".json") && find_recipe(file) == recipe) what = "--recipe " + file;
  return "laconic train " + what + " --workers " + std::to_string(request.workers);
}

std::string python_of(const Recipe& recipe) {
  const std::string text = json(recipe.name).dump();
  if (!recipe.mixer.empty()) return "lc.Gossip(optimizer, recipe=" + text + ")";
  if (takes_local_steps(recipe)) return "lc.LocalSteps(optimizer, recipe=" + text + ")";
  if (recipe == bf16_recipe()) return "lc.attach(model, \"half:bf16\", exchange=\"sharded\")";
  return "lc.attach(model, recipe=" + text + ")";
}

}  // namespace laconic

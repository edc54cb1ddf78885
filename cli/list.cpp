// laconic list: everything that can be named in a spec, with its parameters, traits and paper.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/catalogue.h"
#include "cli/command.h"
#include "cli/text.h"

namespace laconic::cli {
namespace {

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

Json to_json(const Parameter& parameter) {
  Json json = {{"name", parameter.name}, {"range", parameter.range()}};
  json["default"] = parameter.fallback.empty() ? Json() : Json(parameter.fallback);
  json["help"] = parameter.help;
  return json;
}

Json to_json(const OperatorFacts& facts) {
  return {{"spec", facts.spec},
          {"count", kNominalCount},
          {"lossless", facts.lossless()},
          {"unbiased", facts.lossless() || facts.traits.unbiased},
          {"random", facts.traits.random},
          {"omega", or_null(facts.traits.omega)},
          {"delta", or_null(facts.traits.delta)}};
}

Json to_json(const Entry& entry) {
  Json json = {{"name", entry.name}, {"summary", entry.summary}, {"paper", entry.paper}};
  json["parameters"] = Json::array();
  for (const auto& parameter : entry.parameters) json["parameters"].push_back(to_json(parameter));
  if (entry.facts) {
    json["role"] = role_name(entry.facts->role);
    json["examples"] = entry.facts->examples;
    json["traits"] = to_json(*entry.facts);
  }
  return json;
}

Json to_json(const std::vector<Group>& groups) {
  Json json = Json::object();
  for (const auto& group : groups) {
    json[group.name] = Json::array();
    for (const auto& entry : group.entries) json[group.name].push_back(to_json(entry));
  }
  return json;
}

// Deltas next to 1 are told apart by what they miss.
std::string delta_text(double delta) {
  const double missing = 1 - delta;
  return missing > 0 && missing < 1e-3 ? fmt::format("1 - {:.3g}", missing)
                                       : fmt::format("{:.4g}", delta);
}

// "quantiser, unbiased, omega 0.125, delta 0.875"
std::string describe(const OperatorFacts& facts) {
  std::string text(role_name(facts.role));
  if (facts.lossless()) return text + ", lossless";
  text += facts.traits.unbiased ? ", unbiased" : ", biased";
  if (facts.traits.omega) text += fmt::format(", omega {:.4g}", *facts.traits.omega);
  if (facts.traits.delta) text += ", delta " + delta_text(*facts.traits.delta);
  return text;
}

std::string describe(const Parameter& parameter) {
  return fmt::format(
      "{} = {}{}{}", parameter.name, parameter.range(),
      parameter.fallback.empty() ? " (must be given)" : " (default " + parameter.fallback + ")",
      parameter.help.empty() ? "" : ": " + parameter.help);
}

void print_entry(const Entry& entry) {
  constexpr std::size_t kIndent = 6;
  fmt::print("  {}{}\n", entry.name, entry.facts ? "  [" + describe(*entry.facts) + "]" : "");
  print_wrapped(entry.summary, kIndent);
  for (const auto& parameter : entry.parameters) print_wrapped(describe(parameter), kIndent);
  print_wrapped(entry.paper, kIndent);
}

void print_groups(const std::vector<Group>& groups) {
  for (const auto& group : groups) {
    fmt::print("{}: {}\n", group.name, group.title);
    for (const auto& entry : group.entries) print_entry(entry);
    fmt::print("\n");
  }
  print_wrapped(
      "unbiased: the mean of what is decoded is the array; omega: the error's mean square is at "
      "most omega "
      "|x|^2; delta: it is at most (1 - delta) |x|^2. Shown for " +
          with_commas(kNominalCount) + " entries.",
      0);
}

const RegisterCommand command{{
    .name = "list",
    .summary = "Shows all operators, memories, layouts, exchanges, transports and recipes.",
    .examples = {"laconic list", "laconic list --json"},
    .attach =
        [](CLI::App& app) {
          const auto json = std::make_shared<bool>(false);
          app.add_flag("--json", *json, "Print JSON");
          return [json](const Globals&) {
            const auto groups = catalogue();
            if (*json) {
              print_json(to_json(groups));
            } else {
              print_groups(groups);
            }
          };
        },
}};

}  // namespace
}  // namespace laconic::cli

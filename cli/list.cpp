// laconic list: everything that can be named in a spec, with its parameters, traits and paper.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/catalogue.h"
#include "cli/command.h"
#include "cli/text.h"
#include "cli/traits.h"
#include "laconic/base/errors.h"
#include "laconic/operators/operator.h"

namespace laconic::cli {
namespace {

struct Options {
  std::string what;  // empty: everything
  std::size_t count = kNominalCount;
  bool json = false;
};

Json to_json(const Parameter& parameter) {
  Json json = {{"name", parameter.name}, {"range", parameter.range()}};
  json["default"] = parameter.fallback.empty() ? Json() : Json(parameter.fallback);
  json["help"] = parameter.help;
  return json;
}

Json to_json(const OperatorFacts& facts) {
  Json json = {{"spec", facts.spec}, {"count", facts.count}, {"lossless", facts.lossless()}};
  json.update(cli::to_json(facts.traits));
  if (facts.lossless()) json["unbiased"] = true;
  return json;
}

Json to_json(const Entry& entry) {
  Json json = {{"name", entry.name}, {"summary", entry.summary}, {"paper", entry.paper}};
  if (!entry.bits.empty()) json["bits"] = entry.bits;
  if (!entry.json.empty()) json["recipe"] = Json::parse(entry.json);
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

// "biased, delta 0.01 (topk:0.01)"
std::string describe(const OperatorFacts& facts, const std::string& name) {
  if (facts.lossless()) return "lossless";
  return cli::describe(facts.traits) + (facts.spec == name ? "" : " (" + facts.spec + ")");
}

// The default is told unless it is the first of several words.
std::string describe(const Parameter& parameter) {
  const bool told = !parameter.fallback.empty() &&
                    (!parameter.is_word() || parameter.words()[0] != parameter.fallback);
  return parameter.name + " = " + parameter.range() +
         (told ? " (default " + parameter.fallback + ")" : "");
}

// The lines of an entry beside its name: summary, promises, parameters.
std::vector<std::string> short_lines(const Entry& entry, std::size_t width) {
  std::vector<std::string> parameters;
  for (const auto& parameter : entry.parameters) parameters.push_back(describe(parameter));
  std::vector<std::string> lines;
  for (const std::string& text :
       {entry.summary, entry.facts ? describe(*entry.facts, entry.name) : entry.parts,
        join(parameters, "; ")})
    for (auto& line : wrap(text, width)) lines.push_back(std::move(line));
  return lines;
}

// A name too long for its column stands on a line of its own.
void print_short(const Entry& entry) {
  constexpr std::size_t kIndent = 14;
  const auto lines = short_lines(entry, kColumns - kIndent);
  const bool fits = entry.name.size() + 3 < kIndent && !lines.empty();
  fmt::print("  {:<{}}{}\n", entry.name, kIndent - 2, fits ? lines[0] : "");
  for (std::size_t i = fits ? 1 : 0; i < lines.size(); ++i)
    fmt::print("{:{}}{}\n", "", kIndent, lines[i]);
}

void print_full(const Group& group, const Entry& entry) {
  constexpr std::size_t kIndent = 2;
  fmt::print("{} ({}{})\n", entry.name, group.name,
             entry.facts ? ", " + std::string(role_name(entry.facts->role)) : "");
  print_wrapped(entry.summary, kIndent);
  if (entry.facts)
    print_wrapped(fmt::format("{}; {} entries", describe(*entry.facts, entry.name),
                              with_commas(entry.facts->count)),
                  kIndent);
  for (const auto& parameter : entry.parameters)
    print_wrapped(describe(parameter) + (parameter.help.empty() ? "" : ": " + parameter.help),
                  kIndent);
  if (!entry.bits.empty()) print_wrapped("bits: " + entry.bits, kIndent);
  if (entry.facts) print_wrapped("examples: " + join(entry.facts->examples, " "), kIndent);
  print_wrapped(entry.paper, kIndent);
}

// Operators under their roles, in the order in which a chain has them.
void print_group(const Group& group) {
  fmt::print("{}: {}\n", group.name, group.title);
  auto entries = group.entries;
  std::ranges::stable_sort(entries, {}, [](const Entry& entry) {
    return entry.facts ? entry.facts->role : Role::scaler;
  });
  const Role* last = nullptr;
  for (const auto& entry : entries) {
    if (entry.facts && (!last || *last != entry.facts->role)) {
      last = &entry.facts->role;
      fmt::print(" {}\n", role_name(*last));
    }
    print_short(entry);
  }
  fmt::print("\n");
}

void print_groups(const std::vector<Group>& groups, std::size_t count) {
  for (const auto& group : groups) print_group(group);
  print_wrapped(kTraitWords, 0);
  print_wrapped("Shown for " + with_commas(count) +
                    " entries (--count); the first of several words is the default. laconic list "
                    "NAME tells all of one, laconic list SPEC "
                    "what a chain promises.",
                0);
}

// One group, by its name.
std::vector<Group> group_named(std::vector<Group> groups, const std::string& name) {
  std::erase_if(groups, [&](const Group& group) { return group.name != name; });
  return groups;
}

// The groups with the entries of one name only.
std::vector<Group> named(std::vector<Group> groups, const std::string& name) {
  for (Group& group : groups)
    std::erase_if(group.entries, [&](const Entry& entry) { return entry.name != name; });
  std::erase_if(groups, [](const Group& group) { return group.entries.empty(); });
  return groups;
}

Json chain_json(const Operator& op, std::size_t count) {
  Json json = {{"spec", op.spec()}, {"count", count}};
  json.update(cli::to_json(op.traits(count)));
  json["max_bytes"] = op.max_size(count);
  json["stages"] = Json::array();
  for (const StageText& stage : split_chain(op.spec()))
    json["stages"].push_back({{"name", stage.name}, {"bits", stage_named(stage.name).bits}});
  return json;
}

void print_chain(const Operator& op, std::size_t count) {
  fmt::print("{} on {} entries\n", op.spec(), with_commas(count));
  print_wrapped(cli::describe(op.traits(count)), 2);
  fmt::print("  at most {} bytes\n", with_commas(op.max_size(count)));
  for (const StageText& stage : split_chain(op.spec()))
    fmt::print("  bits of {}: {}\n", stage.name, stage_named(stage.name).bits);
  fmt::print("\n");
  print_wrapped(kTraitWords, 0);
}

// Text such as 'recipe', 'choco:0.4' and 'natrual' is neither a name nor a chain.
void require_chain(const std::string& what, const std::vector<Group>& all) {
  const std::string name(split_chain(what)[0].name);
  const auto groups = named(all, name);
  if (groups.empty()) {
    std::vector<std::string> kinds;
    for (const Group& group : all) kinds.push_back(group.name);
    throw UsageError("no operator '" + name +
                     "', nor anything else of that name; known: all that laconic list shows, and " +
                     join(kinds, " "));
  }
  if (groups.front().name != all.front().name)
    throw UsageError("'" + what + "' is no chain of operators; laconic list " + name + " shows " +
                     name);
}

void list_chain(const Options& options) {
  const Operator op = parse_operator(options.what);
  if (options.json) {
    print_json(chain_json(op, options.count));
  } else {
    print_chain(op, options.count);
  }
}

void list(const Options& options) {
  const auto all = catalogue(options.count);
  if (const auto one = group_named(all, options.what); !one.empty()) {
    if (options.json) return print_json(to_json(one));
    return print_group(one[0]);
  }
  const auto groups = options.what.empty() ? all : named(all, options.what);
  if (groups.empty()) {
    require_chain(options.what, all);
    list_chain(options);
  } else if (options.json) {
    print_json(to_json(groups));
  } else if (options.what.empty()) {
    print_groups(groups, options.count);
  } else {
    for (const Group& group : groups) print_full(group, group.entries[0]);
  }
}

const RegisterCommand command{{
    .name = "list",
    .summary = "Shows everything that has a name, one kind of it, or what one thing or one chain "
               "promises.",
    .examples = {"laconic list", "laconic list recipes", "laconic list topk",
                 "laconic list topk:0.01+natural --count 5000", "laconic list --json"},
    .attach =
        [](CLI::App& app) {
          const auto options = std::make_shared<Options>();
          app.add_option("--count", options->count, "Entries for which promises are shown")
              ->check(CLI::Range(std::size_t{1}, std::size_t{1} << 31))
              ->capture_default_str();
          app.add_flag("--json", options->json, "Print JSON");
          app.add_option(
              "WHAT", options->what,
              "A name, a kind such as recipes, or an operator such as topk:0.01+natural");
          return [options](const Globals&) { list(*options); };
        },
}};

}  // namespace
}  // namespace laconic::cli

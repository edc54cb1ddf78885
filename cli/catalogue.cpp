// The tables of operators, memories, layouts, exchanges, transports and recipes in one form.
#include "cli/catalogue.h"

#include <algorithm>

#include "laconic/exchange/aggregator.h"
#include "laconic/exchange/recipe.h"
#include "laconic/exchange/transport.h"
#include "laconic/layout/layout.h"
#include "laconic/memory/memory.h"
#include "laconic/operators/operator.h"

namespace laconic::cli {
namespace {

template <class Info>
Entry entry_of(const Info& info) {
  return {info.name, info.summary, info.paper, info.parameters};
}

// The stage alone, or its first example where a parameter must be given.
std::string nominal_spec(const StageInfo& stage) {
  const bool complete = std::ranges::none_of(
      stage.parameters, [](const Parameter& parameter) { return parameter.fallback.empty(); });
  return complete || stage.examples.empty() ? stage.name : stage.examples.front();
}

Entry entry_of(const StageInfo& stage) {
  const Operator op = parse_operator(nominal_spec(stage));
  Entry entry = entry_of<StageInfo>(stage);
  entry.facts = {stage.role, stage.examples, op.spec(), op.traits(kNominalCount)};
  return entry;
}

// A recipe's parts stand where others have their paper.
Entry entry_of(const Recipe& recipe) {
  return {recipe.name,
          recipe.summary,
          "op " + recipe.op + ", memory " + recipe.memory + ", layout " + recipe.layout +
              ", exchange " + recipe.exchange,
          {}};
}

template <class Info>
Group group_of(std::string name, std::string title, const std::vector<Info>& infos) {
  Group group{std::move(name), std::move(title), {}};
  for (const Info& info : infos) group.entries.push_back(entry_of(info));
  return group;
}

}  // namespace

std::vector<Group> catalogue() {
  return {
      group_of("operators", "how an array becomes bytes; chained with '+'", stages()),
      group_of("memories", "what a worker remembers between steps", memories()),
      group_of("layouts", "how a model is cut into slices", layouts()),
      group_of("exchanges", "who talks to whom", exchanges()),
      group_of("transports", "how ranks reach each other", transports()),
      group_of("recipes", "whole methods by name", recipes()),
  };
}

}  // namespace laconic::cli

// The tables of operators, codecs, memories, layouts, exchanges, mixers, topologies, transports,
// recipes and models in one form.
#include "cli/catalogue.h"

#include <fmt/format.h>

#include <algorithm>

#include "laconic/codecs/levels.h"
#include "laconic/exchange/aggregator.h"
#include "laconic/exchange/gossip/mixer.h"
#include "laconic/exchange/transport.h"
#include "laconic/layout/layout.h"
#include "laconic/layout/models.h"
#include "laconic/memory/memory.h"
#include "laconic/operators/operator.h"
#include "laconic/recipes/recipe.h"

namespace laconic::cli {
namespace {

template <class Info>
Entry entry_of(const Info& info) {
  return {info.name, info.summary, info.paper, info.parameters};
}

// The stage alone, or its first example where a parameter or another stage must be given.
std::string nominal_spec(const StageInfo& stage) {
  const bool alone =
      stage.role != Role::scaler && stage.role != Role::bucket && stage.role != Role::coder;
  const bool complete = std::ranges::none_of(
      stage.parameters, [](const Parameter& parameter) { return parameter.fallback.empty(); });
  return (alone && complete) || stage.examples.empty() ? stage.name : stage.examples.front();
}

OperatorFacts facts_of(const StageInfo& stage, std::size_t count) {
  const Operator op = parse_operator(nominal_spec(stage));
  return {stage.role, stage.examples, op.spec(), count, op.traits(count)};
}

Entry entry_of(const IndexCodec& codec) { return {codec.name, codec.summary, codec.paper, {}}; }

Entry entry_of(const LevelCodec& codec) { return {codec.name, codec.summary, codec.paper, {}}; }

Entry entry_of(const NamedModel& model) { return {model.name, model.summary, "", {}}; }

// What a recipe consists of, without what every recipe has unless it says otherwise.
std::string parts_of(const Recipe& r) {
  std::string parts = "op " + r.op;
  if (r.mixer.empty())
    parts += ", memory " + r.memory + ", layout " + r.layout + ", exchange " + r.exchange;
  else
    parts += ", layout " + r.layout + ", mixer " + r.mixer + ", topology " + r.topology;
  if (!r.down.empty()) parts += ", down " + r.down;
  if (r.down_memory != "none") parts += ", down memory " + r.down_memory;
  if (r.draws != Recipe().draws) parts += ", draws " + r.draws;
  if (r.delay > 1) parts += ", every " + std::to_string(r.delay) + " steps";
  if (r.outer != "none") parts += ", outer " + r.outer;
  if (r.fragments > 1) parts += fmt::format(", {} fragments in turn", r.fragments);
  if (r.overlap > 0) parts += fmt::format(", under way for {} steps", r.overlap);
  if (r.merge > 0) parts += fmt::format(", merge {}", r.merge);
  for (const std::string& phase : r.warmup)
    parts += ", before step " + phase.substr(0, phase.find(' ')) + phase.substr(phase.find(' '));
  const Tuning& t = r.training;
  if (!t.optimizer.empty()) parts += ", " + t.optimizer;
  if (t.lr) parts += fmt::format(", lr {}", *t.lr);
  if (t.momentum) parts += fmt::format(", momentum {}", *t.momentum);
  if (!t.decay.empty()) parts += ", " + t.decay + " decay";
  if (t.workers > 0) parts += fmt::format(", {} workers", t.workers);
  if (t.batch > 0) parts += fmt::format(", batches of {}", t.batch);
  return parts;
}

// A recipe's parts also stand where others have their paper.
Entry entry_of(const Recipe& recipe) {
  const std::string parts = parts_of(recipe);
  return {.name = recipe.name,
          .summary = recipe.summary,
          .paper = parts,
          .parameters = {},
          .parts = parts,
          .json = write_recipe(recipe)};
}

template <class Info>
Group group_of(std::string name, std::string title, const std::vector<Info>& infos) {
  Group group{std::move(name), std::move(title), {}};
  for (const Info& info : infos) {
    group.entries.push_back(entry_of(info));
    if constexpr (requires { info.bits; }) group.entries.back().bits = info.bits;
  }
  return group;
}

Group operators(std::size_t count) {
  Group group = group_of("operators", "how an array becomes bytes; chained with '+'", stages());
  for (std::size_t i = 0; i < group.entries.size(); ++i)
    group.entries[i].facts = facts_of(stages()[i], count);
  return group;
}

}  // namespace

std::vector<Group> catalogue(std::size_t count) {
  return {
      operators(count),
      group_of("index_codecs", "how kept positions are written: topk:0.01,rice", index_codecs()),
      group_of("level_codecs", "how levels are written: qsgd:4+levels:elias", level_codecs()),
      group_of("memories", "what a worker remembers between steps", memories()),
      group_of("layouts", "how a model is cut into slices", layouts()),
      group_of("exchanges", "who talks to whom", exchanges()),
      group_of("mixers", "how neighbours' models come together", mixers()),
      group_of("topologies", "who mixes with whom", topologies()),
      group_of("transports", "how ranks reach each other", transports()),
      group_of("recipes", "whole methods by name", recipes()),
      group_of("models", "networks whose shapes are known to audit", named_models()),
  };
}

}  // namespace laconic::cli

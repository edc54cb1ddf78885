// A recipe: the value that names a whole method. Readable from JSON, stored in checkpoints, agreed
// by all ranks at start-up.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "laconic/exchange/aggregator.h"

namespace laconic {

struct Recipe {
  std::string name;
  std::string op = "identity", memory = "none", layout = "tensor", exchange = "gather";
  std::string down = {};                 // the operator of the way back; empty: op
  std::string down_memory = "none";      // and the memory beside it
  std::vector<std::string> rules = {};   // as parse_rule reads them
  std::vector<std::string> warmup = {};  // "STEP SPEC": before that step SPEC stands for op
  std::string summary = {};              // one sentence

  friend bool operator==(const Recipe&, const Recipe&) = default;
};

// The built-in recipes, in the order in which a comparison shows them.
const std::vector<Recipe>& recipes();

// The slices and operators a recipe stands for, after its warm-up.
Plan make_plan(const Recipe& recipe, const Model& model);

// A built-in recipe by its name, or one's own from a file whose name ends in .json.
Recipe find_recipe(const std::string& name_or_file);

// {"name": ..., "op": ..., "memory": ..., "layout": ..., "exchange": ..., "down": ...,
// "down_memory": ..., "rules": [...], "warmup": ["100 natural", ...], "summary": ...}; all but name
// may be missing. Throws UsageError for anything else, naming the key.
Recipe read_recipe(std::string_view json);
std::string write_recipe(const Recipe& recipe);

// What every rank must have in common before the first step.
struct Agreement {
  Model model;
  Recipe recipe;
  std::uint64_t seed = 0;
  double timeout_seconds = 60;
  unsigned threads = 1;
};

// The aggregator a recipe stands for, after all ranks have compared notes: throws UsageError on
// every rank, naming one that differs and in what, unless program version, recipe, model and seed
// are the same everywhere.
std::unique_ptr<Aggregator> make_aggregator(const Agreement& agreement, Transport& transport);

}  // namespace laconic

// A recipe: the value that names a whole method. Readable from JSON, stored in checkpoints, agreed
// by all ranks at start-up.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "laconic/exchange/gossip/mixer.h"

namespace laconic {

// What a recipe was tuned with. A training run takes it unless it is told otherwise.
struct Tuning {
  std::string optimizer = {};  // empty: the run's own
  std::optional<double> lr = {}, momentum = {};
  std::string decay = {};                // of the rate; empty: the run's own
  std::uint64_t workers = 0, batch = 0;  // 0: the run's own

  friend bool operator==(const Tuning&, const Tuning&) = default;
};

struct Recipe {
  std::string name;
  std::string op = "identity", memory = "none", layout = "tensor", exchange = "gather";
  std::string down = {};             // the operator of the way back; empty: op
  std::string down_memory = "none";  // and the memory beside it
  // How operators that round at random draw where ranks' messages are averaged: "strata" lets their
  // errors cancel in the mean, "own" makes them independent.
  std::string draws = "strata";
  std::vector<std::string> rules = {};   // as parse_rule reads them
  std::vector<std::string> warmup = {};  // "STEP SPEC": before that step SPEC stands for op
  // Local steps: ranks train on their own and average what has changed every `delay` steps.
  std::uint64_t delay = 1;
  std::string outer = "none";  // what takes the averaged change as its gradient
  // So many fragments of the model take turns: each is averaged every `delay` steps, at another
  // time. What is sent may be under way for `overlap` steps, in which ranks train on; when it has
  // arrived, `merge` is how much of its own model a rank keeps beside the common one.
  std::uint64_t fragments = 1, overlap = 0;
  double merge = 0;
  // Without a centre: neighbours in a topology mix their models, and there is no exchange.
  std::string mixer = {}, topology = "ring";
  Tuning training = Tuning();
  std::string summary = {};  // one sentence

  friend bool operator==(const Recipe&, const Recipe&) = default;
};

// The built-in recipes, in the order in which a comparison shows them.
const std::vector<Recipe>& recipes();

// Whether ranks train on their own and average what has changed.
bool takes_local_steps(const Recipe& recipe);

// The slices and operators a recipe stands for, after its warm-up.
Plan make_plan(const Recipe& recipe, const Model& model);
// And before that, in rising order.
std::vector<Phase> make_warmup(const Recipe& recipe, const Model& model);

// A built-in recipe by its name, or one's own from a file whose name ends in .json.
Recipe find_recipe(const std::string& name_or_file);

// One JSON object with the names of the members above as keys; "training" is an object too. All but
// name may be missing. Throws UsageError for anything else, naming the key.
Recipe read_recipe(std::string_view json);
std::string write_recipe(const Recipe& recipe);

// Throws UsageError unless the parts are known, well-formed and go together.
void check_recipe(const Recipe& recipe);
// And its rules fit tensors of this model.
void check_recipe(const Recipe& recipe, const Model& model);

// What every rank must have in common before the first step.
struct Agreement {
  Model model;
  Recipe recipe;
  std::uint64_t seed = 0;
  double timeout_seconds = 60;
  unsigned threads = 1;                           // these need not be the same,
  Engine engine = Engine::callers;                // nor who moves the parts
  std::size_t unit_bytes = std::size_t{1} << 20;  // as Setup's
  GuardOptions guard = {};      // not where ranks take local steps or mix: those hardly wait
  std::uint32_t start_crc = 0;  // CRC-32C of the model before the first step; 0: not compared
};

// What a rank tells the others of it, as JSON: everything they must have in common, by name.
std::string write_notes(const Agreement& agreement);

// Throws UsageError, naming a rank that differs from rank 0 and in what, unless all notes are the
// same, and DataError for bytes that are no notes. notes[i] is what rank i has sent: any bytes.
void compare_notes(std::span<const ByteView> notes);

// Ranks compare notes: throws UsageError on every rank, naming one that differs and in what, unless
// program version, recipe, model, its start, seed and unit_bytes are the same everywhere.
void agree(const Agreement& agreement, Transport& transport);

// The exchange a recipe stands for, after all ranks have agreed. With local steps, what it averages
// are the changes of a whole round: make_method (method.h) does that. Throws UsageError for a
// recipe with a mixer.
std::unique_ptr<Aggregator> make_aggregator(const Agreement& agreement, Transport& transport);

// Who mixes with whom among so many ranks, for a recipe with a mixer.
Graph make_graph(const Recipe& recipe, int ranks);

// The mixer a recipe stands for, after all ranks have agreed. Throws UsageError for one without.
std::unique_ptr<Mixer> make_mixer(const Agreement& agreement, Transport& transport);

}  // namespace laconic

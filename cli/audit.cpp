// laconic audit: what a method puts on the wire for a whole model, to the byte. Frames are written
// by the library's own writer and read back before anything is counted.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/array.h"
#include "cli/catalogue.h"
#include "cli/command.h"
#include "cli/gradient.h"
#include "cli/ideal.h"
#include "cli/sections.h"
#include "cli/tensors.h"
#include "laconic/codecs/varint.h"
#include "laconic/layout/models.h"

namespace laconic::cli {
namespace {

struct Options {
  std::string model = "resnet50", shapes, op, recipe, layout;
  std::vector<std::string> rules;
  std::uint64_t seed = 0, delay = 0;
  bool verbose = false, json = false;
};

// Frames are all that an audit can count.
void require_frames(const Recipe& recipe) {
  const std::string name = recipe.exchange.substr(0, recipe.exchange.find(':'));
  const auto exchange = std::ranges::find(exchanges(), name, &ExchangeInfo::name);
  const bool own_form = exchange != exchanges().end() && exchange->own_form;
  if (own_form || !recipe.mixer.empty())
    throw UsageError("recipe '" + recipe.name + "' sends by " +
                     (own_form ? "exchange '" + recipe.exchange : "mixer '" + recipe.mixer) +
                     "', not in frames of an operator; its bytes are those that 'laconic train' "
                     "counts");
}

// What was asked for: a recipe, an operator, or one with parts of it replaced.
Recipe recipe_of(const Options& options) {
  Recipe recipe;
  if (!options.recipe.empty() || options.op.empty())
    recipe = find_recipe(options.recipe.empty() ? "sbc2" : options.recipe);
  if (!options.op.empty()) recipe.op = options.op;
  if (!options.layout.empty()) recipe.layout = options.layout;
  if (options.delay > 0) recipe.delay = options.delay;
  recipe.rules.insert(recipe.rules.end(), options.rules.begin(), options.rules.end());
  require_frames(recipe);
  check_recipe(recipe);
  return recipe;
}

struct Row {
  std::string name, spec;
  std::size_t count = 0, payload_bytes = 0;
  std::size_t header_bytes = 0;  // in the table of sections
  std::optional<Kept> kept = {};
};

// The sum of several rows under one name.
Row sum_of(std::span<const Row> rows, const std::string& name) {
  Row sum{.name = name, .spec = ""};
  for (const Row& row : rows) {
    sum.count += row.count;
    sum.payload_bytes += row.payload_bytes;
    sum.header_bytes += row.header_bytes;
    if (!row.kept) continue;
    if (!sum.kept) sum.kept = Kept{};
    sum.kept->entries += row.kept->entries;
    sum.kept->bytes += row.kept->bytes;
  }
  return sum;
}

struct Audit {
  std::string model;
  std::size_t tensors = 0;
  Recipe recipe;
  std::vector<Row> rows = {};
  std::optional<Ideal> ideal = {};
  std::uint64_t count = 0;
  std::size_t payload_bytes = 0, wire_bytes = 0;

  std::size_t header_bytes() const { return wire_bytes - payload_bytes; }
  Row all() const { return sum_of(rows, "all sections"); }
  // Dense bytes of all steps that share a message, over the bytes given.
  double ratio(std::size_t bytes) const {
    return static_cast<double>(recipe.delay) * static_cast<double>(count) * sizeof(float) /
           static_cast<double>(bytes);
  }
};

Row row_of(const Frame& frame, const Section& section, const Slice& slice, Scratch& scratch) {
  const std::size_t size = section.bytes.size();
  return {.name = slice.name,
          .spec = frame.operators[section.operator_index].spec(),
          .count = section.count,
          .payload_bytes = size,
          .header_bytes = varint_size(section.name.size()) + varint_size(0) +
                          varint_size(section.count) + varint_size(section.operator_index << 2) +
                          varint_size(size),
          .kept = kept_in(frame, section, scratch)};
}

Audit run_audit(const Options& options, Scratch& scratch) {
  Audit audit{.model = options.shapes.empty() ? options.model : options.shapes,
              .recipe = recipe_of(options)};
  make_plan(audit.recipe, {});  // a wrong spec is told before a file is read
  const Model model =
      options.shapes.empty() ? named_model(options.model) : read_tensors(options.shapes).model;
  audit.tensors = model.size();
  audit.count = count_of(model);
  check_recipe(audit.recipe, model);
  const Plan plan = make_plan(audit.recipe, model);
  const auto values = made_up_gradient(count_of(model), scratch.pool, Key(options.seed));
  // A step late in training: its number takes three bytes.
  const FrameHeader header{.seed = options.seed, .step = 1'000'000, .shape = {count_of(model)}};
  ModelFrame out;
  write_model(plan, values, header, out, scratch);
  const Frame frame = read_frame(out.bytes.view(), {.max_count = count_of(model)});
  check_sections(frame, scratch);
  for (std::size_t i = 0; i < plan.layout.size(); ++i)
    audit.rows.push_back(row_of(frame, frame.sections[i], plan.layout[i], scratch));
  audit.payload_bytes = frame.payload_bytes;
  audit.wire_bytes = frame.wire_bytes;
  if (plan.operators.size() == 1) audit.ideal = ideal_of(plan.operators[0], audit.recipe.delay);
  return audit;
}

constexpr std::string_view kValues =
    "independent normal numbers, so the kept positions lie as if drawn at random";

Json to_json(const Row& row) {
  Json json = {{"name", row.name},
               {"spec", row.spec},
               {"count", row.count},
               {"payload_bytes", row.payload_bytes},
               {"payload_bits", 8 * row.payload_bytes},
               {"header_bytes", row.header_bytes}};
  json["kept"] = row.kept ? Json(row.kept->entries) : Json();
  json["position_bytes"] = row.kept ? Json(row.kept->bytes) : Json();
  json["bits_per_position"] = row.kept ? Json(row.kept->bits_per_position()) : Json();
  json["codec"] = row.kept ? Json(row.kept->codec) : Json();
  return json;
}

// Of the stages, and of the index codecs that wrote positions.
std::vector<std::pair<std::string, std::string_view>> formulas_of(const Audit& audit) {
  std::vector<std::pair<std::string, std::string_view>> formulas;
  for (const StageText& stage : split_chain(audit.recipe.op))
    formulas.emplace_back(stage.name, stage_named(stage.name).bits);
  for (const IndexCodec& codec : index_codecs())
    if (std::ranges::any_of(
            audit.rows, [&](const Row& row) { return row.kept && row.kept->codec == codec.name; }))
      formulas.emplace_back("P, " + codec.name, codec.bits);
  return formulas;
}

Json to_json(const Audit& audit, const Options& options) {
  const Recipe& recipe = audit.recipe;
  Json json = {{"model", audit.model},
               {"tensors", audit.tensors},
               {"count", audit.count},
               {"recipe", recipe.name.empty() ? Json() : Json(recipe.name)},
               {"spec", parse_operator(recipe.op).spec()},
               {"layout", recipe.layout},
               {"rules", recipe.rules},
               {"delay", audit.recipe.delay},
               {"values", kValues},
               {"seed", options.seed},
               {"dense_bytes", audit.count * sizeof(float)},
               {"payload_bytes", audit.payload_bytes},
               {"header_bytes", audit.header_bytes()},
               {"wire_bytes", audit.wire_bytes},
               {"ratio_without_headers", audit.ratio(audit.payload_bytes)},
               {"ratio", audit.ratio(audit.wire_bytes)}};
  const auto kept = audit.all().kept;
  json["kept"] = kept ? Json(kept->entries) : Json();
  json["bits_per_position"] = kept ? Json(kept->bits_per_position()) : Json();
  json["ideal"] = Json();
  if (audit.ideal)
    json["ideal"] = {{"density", audit.ideal->density},
                     {"rice_bits", audit.ideal->rice_bits},
                     {"bits_per_position", audit.ideal->bits_per_position},
                     {"ratio", audit.ideal->ratio}};
  json["paper_ratio"] = or_null(ratio_in_paper(audit.recipe));
  json["formulas"] = Json::array();
  for (const auto& [name, bits] : formulas_of(audit))
    json["formulas"].push_back({{"name", name}, {"bits", bits}});
  json["sections"] = Json::array();
  for (const Row& row : audit.rows) json["sections"].push_back(to_json(row));
  return json;
}

void print_row(const Row& row) {
  fmt::print("{:<31} {:>11} {:>9} {:>13} {:>13} {:<6} {:>7}\n", shortened(row.name, 31),
             with_commas(row.count), row.kept ? with_commas(row.kept->entries) : "all",
             with_commas(8 * row.payload_bytes),
             row.kept ? fmt::format("{:.3f}", row.kept->bits_per_position()) : "",
             row.kept ? row.kept->codec : "", row.header_bytes);
}

// The largest few, unless all are wanted.
void print_rows(const Audit& audit, bool all) {
  std::vector<Row> rows = audit.rows;
  constexpr std::size_t kShown = 8;
  fmt::print("\n{:<31} {:>11} {:>9} {:>13} {:>13} {:<6} {:>7}\n", "section", "entries", "kept",
             "payload bits", "bits/position", "codec", "header");
  const std::size_t shown = all || rows.size() <= kShown + 1 ? rows.size() : kShown;
  if (shown < rows.size()) std::ranges::stable_sort(rows, std::ranges::greater(), &Row::count);
  for (std::size_t i = 0; i < shown; ++i) print_row(rows[i]);
  if (shown < rows.size())
    print_row(sum_of(std::span(rows).subspan(shown),
                     fmt::format("{} others (--verbose: all)", rows.size() - shown)));
  print_row(audit.all());
}

std::string ratio_text(double ratio) {
  return ratio < 1000 ? fmt::format("{:.{}f}", ratio, ratio < 100 ? 3 : 1)
                      : with_commas(static_cast<std::uint64_t>(std::llround(ratio)));
}

// Where the bytes of the message went.
void print_bytes(const Audit& audit) {
  const Row all = audit.all();
  const std::size_t positions = all.kept ? all.kept->bytes : 0;
  fmt::print("\n{:<22} {:>13} bytes per step\n", "dense", with_commas(audit.count * sizeof(float)));
  fmt::print("{:<22} {:>13} bytes per message", "payload", with_commas(audit.payload_bytes));
  if (all.kept)
    fmt::print(": positions {}, values {}", with_commas(positions),
               with_commas(audit.payload_bytes - positions));
  fmt::print("\n{:<22} {:>13} bytes per message: table {}, head and foot {}\n", "headers",
             with_commas(audit.header_bytes()), with_commas(all.header_bytes),
             with_commas(audit.header_bytes() - all.header_bytes));
  fmt::print("{:<22} {:>13} bytes per message\n", "wire", with_commas(audit.wire_bytes));
  fmt::print("{:<22} {:>13} step{} per message\n", "delay", with_commas(audit.recipe.delay),
             audit.recipe.delay == 1 ? "" : "s");
}

void print_ratios(const Audit& audit) {
  fmt::print("{:<22} {:>13}\n", "ratio without headers",
             ratio_text(audit.ratio(audit.payload_bytes)));
  fmt::print("{:<22} {:>13}\n", "ratio with headers", ratio_text(audit.ratio(audit.wire_bytes)));
  if (audit.ideal)
    fmt::print("{:<22} {:>13}   32 / (p E) x delay: p = {}, b = {}, E = {:.4f}{}\n", "ideal ratio",
               ratio_text(audit.ideal->ratio), audit.ideal->density, audit.ideal->rice_bits,
               audit.ideal->bits_per_position,
               parse_operator(audit.recipe.op).spec().starts_with("stc") ? " + 1" : "");
  if (const auto paper = ratio_in_paper(audit.recipe))
    fmt::print("{:<22} {:>13}   on ResNet-50, Sattler et al. (arXiv 1805.08768)\n",
               "ratio in the paper", ratio_text(*paper));
}

void print_formulas(const Audit& audit) {
  fmt::print("\nbits of a section's payload:\n");
  for (const auto& [name, bits] : formulas_of(audit)) fmt::print("  {:<10} {}\n", name, bits);
  print_wrapped(kBitsLetters, 2);
}

void print_audit(const Audit& audit, const Options& options) {
  const Recipe& recipe = audit.recipe;
  fmt::print("{}: {} tensors, {} entries\n", printable(audit.model), audit.tensors,
             with_commas(audit.count));
  print_wrapped(fmt::format("{}op {}, layout {}", recipe.name.empty() ? "" : recipe.name + ": ",
                            parse_operator(recipe.op).spec(), recipe.layout),
                0);
  for (const std::string& rule : recipe.rules) fmt::print("rule {}\n", printable(rule));
  fmt::print("values: {}; seed {}\n", kValues, options.seed);
  print_rows(audit, options.verbose);
  print_bytes(audit);
  print_ratios(audit);
  print_formulas(audit);
}

void audit(const Options& options, const Globals& globals) {
  Scratch scratch(globals.threads);
  const Audit result = run_audit(options, scratch);
  if (options.json) {
    print_json(to_json(result, options));
  } else {
    print_audit(result, options);
  }
}

const RegisterCommand command{{
    .name = "audit",
    .summary = "Counts what a method puts on the wire for a whole model, headers included.",
    .examples = {"laconic audit --recipe sbc3",
                 "laconic audit --op topk:0.01+natural --model resnet18 --verbose",
                 "laconic audit --op qsgd:4 --rule max_rank=1,op=identity --layout fused:4M",
                 "laconic audit --shapes gradients-step-100.npz --op sbc:0.01 --delay 10 --json"},
    .attach =
        [](CLI::App& app) {
          const auto options = std::make_shared<Options>();
          std::vector<std::string> models;
          for (const NamedModel& model : named_models()) models.push_back(model.name);
          auto* model = app.add_option("--model", options->model, join(models, " | "));
          model->type_name("NAME")->capture_default_str();
          app.add_option("--shapes", options->shapes, "Take the tensors' shapes from a file")
              ->type_name("FILE.npz")
              ->excludes(model);
          auto* op = app.add_option("--op", options->op, "Operator; see laconic list");
          op->type_name("SPEC");
          app.add_option("--recipe", options->recipe,
                         "A recipe of laconic list, sbc2 by default, or FILE.json")
              ->type_name("NAME")
              ->excludes(op);
          app.add_option("--layout", options->layout, "tensor (default), whole, fused, split")
              ->type_name("SPEC");
          app.add_option("--rule", options->rules,
                         "Another operator for some tensors, such as "
                         "max_rank=1,op=identity; may be repeated")
              ->allow_extra_args(false);
          app.add_option("--delay", options->delay, "Local steps per message")
              ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1'000'000'000}));
          app.add_option("--seed", options->seed, "Seed of the made-up values")
              ->capture_default_str();
          app.add_flag("--verbose", options->verbose, "Show every section");
          app.add_flag("--json", options->json, "Print JSON");
          return [options](const Globals& globals) { audit(*options, globals); };
        },
}};

}  // namespace
}  // namespace laconic::cli

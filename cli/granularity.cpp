// laconic granularity: layer-wise or entire-model compression? Answered on one's own gradients.
// The question is that of Dutta et al. (arXiv 1911.08250).
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "cli/array.h"
#include "cli/command.h"
#include "cli/trial.h"
#include "laconic/kernels/reduce.h"

namespace laconic::cli {
namespace {

struct Options {
  std::string op;
  std::vector<std::string> files, layouts, rules;
  unsigned draws = 0;
  std::uint64_t seed = 0;
  bool verbose = false, json = false;
};

struct Result {
  Model model;
  std::vector<double> shares;  // of |x|^2 by tensor, mean over files
  std::vector<Trial> trials;   // layer-wise, entire-model, then what else was asked for
  unsigned draws = 1;
};

void require_usable(const Tensors& tensors, const std::string& path) {
  std::span<const float> rest = tensors.values;
  for (const Tensor& tensor : tensors.model) {
    if (!kernels::all_finite(rest.first(tensor.count())))
      throw DataError(path + ": tensor '" + tensor.name +
                      "' holds NaN or Inf; errors are measured on finite entries only");
    rest = rest.subspan(tensor.count());
  }
  if (kernels::sum_of_squares(tensors.values) == 0)
    throw DataError(path + ": all entries are 0, and no operator loses anything of that");
}

std::string tensor_text(const Tensor& tensor) {
  return "'" + tensor.name + "' " + shape_text(tensor.shape);
}

// Throws unless `path` has the model of the first file.
void require_same(const Model& first, const Model& other, const std::string& path) {
  if (first.size() != other.size())
    throw UsageError(path + ": " + std::to_string(other.size()) +
                     " tensors; the file before it has " + std::to_string(first.size()));
  for (std::size_t i = 0; i < first.size(); ++i)
    if (first[i].name != other[i].name || first[i].shape != other[i].shape)
      throw UsageError(path + ": tensor " + tensor_text(other[i]) +
                       " stands where the file before it has " + tensor_text(first[i]));
}

// Which operator each tensor gets.
std::vector<std::size_t> operators_of(const Options& options, const Model& model) {
  return make_plan(model, "tensor", parse_operator(options.op), parse_rules(options.rules))
      .operator_of;
}

// Tensors of one operator side by side: layouts merge neighbours only, and a bias between any two
// weights would leave nothing to merge.
Tensors grouped(Tensors tensors, const Options& options) {
  const auto operators = operators_of(options, tensors.model);
  Tensors result;
  for (std::size_t op = 0; result.model.size() < tensors.model.size(); ++op) {
    std::span<const float> rest = tensors.values;
    for (std::size_t i = 0; i < operators.size(); ++i) {
      const auto values = rest.first(tensors.model[i].count());
      rest = rest.subspan(values.size());
      if (operators[i] != op) continue;
      result.model.push_back(tensors.model[i]);
      result.values.insert(result.values.end(), values.begin(), values.end());
    }
  }
  return result;
}

Tensors read_usable(const std::string& path, const Options& options) {
  Tensors tensors = read_tensors(path);
  require_usable(tensors, path);
  require_fitting(parse_rules(options.rules), tensors.model);
  return options.rules.empty() ? std::move(tensors) : grouped(std::move(tensors), options);
}

std::vector<Trial> make_trials(const Options& options, const Model& model) {
  const Operator op = parse_operator(options.op);
  const auto rules = parse_rules(options.rules);
  std::vector<std::string> layouts = {"tensor", "whole"};
  for (const std::string& layout : options.layouts)
    if (std::ranges::count(layouts, layout) == 0) layouts.push_back(layout);
  std::vector<Trial> trials;
  for (const std::string& layout : layouts) trials.emplace_back(model, layout, op, rules);
  return trials;
}

void add_shares(const Tensors& tensors, double weight, std::vector<double>& shares) {
  std::span<const float> rest = tensors.values;
  const double all = kernels::sum_of_squares(rest);
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const std::size_t count = tensors.model[i].count();
    shares[i] += weight * kernels::sum_of_squares(rest.first(count)) / all;
    rest = rest.subspan(count);
  }
}

Result measure(const Options& options, Scratch& scratch) {
  make_trials(options, {});  // wrong specs are told before files are read
  Tensors tensors = read_usable(options.files[0], options);
  Result result{.model = tensors.model,
                .shares = std::vector<double>(tensors.model.size()),
                .trials = make_trials(options, tensors.model)};
  constexpr unsigned kDraws = 20;
  const bool random = std::ranges::any_of(result.trials, &Trial::random);
  result.draws = options.draws > 0 ? options.draws : random ? kDraws : 1;
  for (std::size_t file = 0; file < options.files.size(); ++file) {
    if (file > 0) tensors = read_usable(options.files[file], options);
    require_same(result.model, tensors.model, options.files[file]);
    add_shares(tensors, 1.0 / static_cast<double>(options.files.size()), result.shares);
    for (unsigned draw = 0; draw < result.draws; ++draw) {
      show_progress(fmt::format("file {} of {}, draw {} of {}", file + 1, options.files.size(),
                                draw + 1, result.draws));
      const FrameHeader header{.seed = options.seed,
                               .step = file * result.draws + draw,
                               .shape = {tensors.values.size()}};
      for (Trial& trial : result.trials) trial.run(tensors, header, scratch);
    }
  }
  show_progress("");
  return result;
}

bool equal_errors(const Trial& a, const Trial& b) {
  constexpr double kRounding = 1e-9;  // of floats added in another order
  return std::abs(*a.error() - *b.error()) <= kRounding * std::max(*a.error(), *b.error());
}

// Which of two has the smaller error: -1 the first, 1 the second, 0 neither by more than chance
// allows, which is two standard errors of the difference over runs.
int smaller_error(const Trial& a, const Trial& b) {
  const auto runs = static_cast<double>(a.errors().size());
  const double mean = *a.error() - *b.error();
  double squares = 0;
  for (std::size_t i = 0; i < a.errors().size(); ++i)
    squares += std::pow(a.errors()[i] - b.errors()[i] - mean, 2);
  const double doubt = runs > 1 ? 2 * std::sqrt(squares / (runs - 1) / runs) : 0;
  if (equal_errors(a, b) || std::abs(mean) <= doubt) return 0;
  return mean < 0 ? -1 : 1;
}

std::string spoken(const Trial& trial) {
  if (trial.layout() == "tensor") return "layer-wise";
  return trial.layout() == "whole" ? "entire-model" : trial.layout();
}

std::string whole_number(double value) {
  return with_commas(static_cast<std::uint64_t>(std::llround(value)));
}

std::string bytes_text(double better, double other) {
  if (better == other) return "at the same bytes";
  if (std::abs(better / other - 1) < 0.01) return "at about the same bytes";
  return fmt::format("at {} bytes against {}", whole_number(better), whole_number(other));
}

std::string verdict(const Trial& a, const Trial& b) {
  const int order = smaller_error(a, b);
  if (order == 0)
    return fmt::format("{} and {} have the same error{}: {:.4g} and {:.4g}, {}", spoken(a),
                       spoken(b), equal_errors(a, b) ? "" : " as far as these runs tell",
                       *a.error(), *b.error(), bytes_text(a.wire_bytes(), b.wire_bytes()));
  const Trial& better = order < 0 ? a : b;
  const Trial& other = order < 0 ? b : a;
  return fmt::format("{} has the smaller error: {:.4g} against {:.4g}, {}", spoken(better),
                     *better.error(), *other.error(),
                     bytes_text(better.wire_bytes(), other.wire_bytes()));
}

// Layer-wise against entire-model, and then any other layout that is better than both.
std::vector<std::string> verdicts(const std::vector<Trial>& trials) {
  std::vector<std::string> lines = {verdict(trials[0], trials[1])};
  const Trial& better = smaller_error(trials[0], trials[1]) <= 0 ? trials[0] : trials[1];
  for (std::size_t i = 2; i < trials.size(); ++i)
    if (smaller_error(trials[i], better) < 0) lines.push_back(verdict(trials[i], better));
  return lines;
}

Json tensor_json(const Result& result, std::size_t i) {
  Json json = {{"name", result.model[i].name},
               {"shape", result.model[i].shape},
               {"count", result.model[i].count()},
               {"share", result.shares[i]}};
  json["errors"] = Json::object();
  for (const Trial& trial : result.trials)
    json["errors"][trial.layout()] = or_null(trial.tensor_errors()[i].value());
  const PartRecord& alone = result.trials[0].slices()[i];
  json["bound"] = or_null(alone.bound.value());
  json["bytes"] = or_null(alone.bytes.value());
  json["encode_seconds"] = alone.encode_seconds;
  json["decode_seconds"] = alone.decode_seconds;
  return json;
}

Json to_json(const Trial& trial) {
  return {{"layout", trial.layout()},
          {"slices", trial.slices().size()},
          {"error", or_null(trial.error())},
          {"bound", or_null(trial.bound())},
          {"kept", or_null(trial.kept())},
          {"payload_bytes", trial.payload_bytes()},
          {"wire_bytes", trial.wire_bytes()},
          {"encode_seconds", trial.encode_seconds()},
          {"decode_seconds", trial.decode_seconds()}};
}

Json to_json(const Result& result, const Options& options) {
  Json json = {{"spec", parse_operator(options.op).spec()},
               {"rules", options.rules},
               {"files", options.files},
               {"count", count_of(result.model)},
               {"draws", result.draws},
               {"seed", options.seed}};
  json["layouts"] = Json::array();
  for (const Trial& trial : result.trials) json["layouts"].push_back(to_json(trial));
  const int order = smaller_error(result.trials[0], result.trials[1]);
  json["smaller_error"] = order == 0 ? Json() : Json(result.trials[order < 0 ? 0 : 1].layout());
  json["verdict"] = verdicts(result.trials);
  json["tensors"] = Json::array();
  for (std::size_t i = 0; i < result.model.size(); ++i)
    json["tensors"].push_back(tensor_json(result, i));
  return json;
}

// Four digits, "-" for what is not known.
std::string number(const std::optional<double>& value) {
  return value ? fmt::format("{:.4g}", *value) : "-";
}

// All layouts but the layer-wise one.
std::span<const Trial> others(const Result& result) { return std::span(result.trials).subspan(1); }

void print_tensor(const Result& result, std::size_t i) {
  const PartRecord& alone = result.trials[0].slices()[i];
  fmt::print("{:<18} {:>10} {:>7.2f}% {:>9} {:>8} {:>9} {:>8.1f}",
             shortened(result.model[i].name, 18), with_commas(result.model[i].count()),
             100 * result.shares[i], number(result.trials[0].tensor_errors()[i].value()),
             number(alone.bound.value()), whole_number(alone.bytes.value().value_or(0)),
             1e6 * (alone.encode_seconds + alone.decode_seconds));
  for (const Trial& trial : others(result))
    fmt::print(" {:>9}", number(trial.tensor_errors()[i].value()));
  fmt::print("\n");
}

void print_heading(const Result& result) {
  fmt::print("\n{:<18} {:>10} {:>8} {:>37}", "", "", "share",
             "--------------- tensor --------------");
  for (const Trial& trial : others(result)) fmt::print(" {:>9}", shortened(trial.layout(), 9));
  fmt::print("\n{:<18} {:>10} {:>8} {:>9} {:>8} {:>9} {:>8}", "tensor", "entries", "of |x|^2",
             "error", "bound", "bytes", "us");
  for (std::size_t i = 0; i < others(result).size(); ++i) fmt::print(" {:>9}", "error");
  fmt::print("\n");
}

// Those with the largest share of |x|^2, unless all are wanted.
void print_tensors(const Result& result, bool all) {
  constexpr std::size_t kShown = 20;
  print_heading(result);
  std::vector<std::size_t> order(result.model.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const std::size_t shown = all || order.size() <= kShown + 1 ? order.size() : kShown;
  if (shown < order.size())
    std::ranges::stable_sort(order, std::ranges::greater(),
                             [&](std::size_t i) { return result.shares[i]; });
  for (std::size_t i = 0; i < shown; ++i) print_tensor(result, order[i]);
  if (shown < order.size())
    fmt::print("{} others with smaller shares (--verbose: all)\n", order.size() - shown);
}

void print_layouts(const Result& result) {
  fmt::print("\n{:<16} {:>7} {:>10} {:>10} {:>11} {:>12} {:>8} {:>9} {:>9}\n", "layout", "slices",
             "error", "bound", "kept", "wire bytes", "bits", "encode ms", "decode ms");
  const auto count = static_cast<double>(count_of(result.model));
  for (const Trial& trial : result.trials)
    fmt::print("{:<16} {:>7} {:>10} {:>10} {:>11} {:>12} {:>8.3f} {:>9.3f} {:>9.3f}\n",
               shortened(trial.layout(), 16), trial.slices().size(), number(trial.error()),
               number(trial.bound()), trial.kept() ? whole_number(*trial.kept()) : "all",
               whole_number(trial.wire_bytes()), 8 * trial.wire_bytes() / count,
               1e3 * trial.encode_seconds(), 1e3 * trial.decode_seconds());
}

void print_result(const Result& result, const Options& options) {
  fmt::print("{}: {} file{}, {} tensors, {} entries, {} draw{} each\n",
             parse_operator(options.op).spec(), options.files.size(),
             options.files.size() == 1 ? "" : "s", result.model.size(),
             with_commas(count_of(result.model)), result.draws, result.draws == 1 ? "" : "s");
  for (const std::string& rule : options.rules) fmt::print("rule {}\n", printable(rule));
  fmt::print(
      "error: |x - C(x)|^2 / |x|^2; bound: what the operator promises of it; us: encode and "
      "decode\n");
  print_tensors(result, options.verbose);
  print_layouts(result);
  fmt::print("\n");
  for (const std::string& line : verdicts(result.trials)) print_wrapped(line, 0);
}

void granularity(const Options& options, const Globals& globals) {
  Scratch scratch(globals.threads);
  const Result result = measure(options, scratch);
  if (options.json) {
    print_json(to_json(result, options));
  } else {
    print_result(result, options);
  }
}

const RegisterCommand command{{
    .name = "granularity",
    .summary = "Compares layer-wise with entire-model compression on recorded gradients.",
    .examples = {"laconic train --recipe dense --steps 301 --out grads --record 0,100,300",
                 "laconic granularity --op topk:0.01 grads/gradients-step-*.npz",
                 "laconic granularity --op qsgd:4 --rule max_rank=1,op=identity --layout fused:1M "
                 "step.npz"},
    .attach =
        [](CLI::App& app) {
          const auto options = std::make_shared<Options>();
          app.add_option("--op", options->op, "Operator, such as topk:0.01; see laconic list")
              ->type_name("SPEC")
              ->required();
          app.add_option("--layout", options->layouts,
                         "One more layout, such as fused:4M or split:10000; may be repeated")
              ->type_name("SPEC")
              ->allow_extra_args(false);
          app.add_option("--rule", options->rules,
                         "Another operator for some tensors, such as max_rank=1,op=identity; may "
                         "be repeated")
              ->allow_extra_args(false);
          app.add_option("--draws", options->draws,
                         "Runs per file; default 20 for random operators, else 1")
              ->check(CLI::Range(1, 1'000'000));
          app.add_option("--seed", options->seed, "Seed of the draws")->capture_default_str();
          app.add_flag("--verbose", options->verbose, "Show every tensor");
          app.add_flag("--json", options->json, "Print JSON");
          app.add_option("FILE", options->files,
                         ".npz of named tensors, or .npy; several are averaged")
              ->required();
          return [options](const Globals& globals) { granularity(*options, globals); };
        },
}};

}  // namespace
}  // namespace laconic::cli

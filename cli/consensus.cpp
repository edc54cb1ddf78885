// laconic consensus: how fast workers that start with different matrices come to agree by gossip,
// in rounds and in bytes. The papers' experiment, for any mixers on any graphs.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/agreement.h"
#include "cli/command.h"
#include "cli/report.h"
#include "cli/text.h"
#include "laconic/base/errors.h"
#include "laconic/base/file.h"
#include "laconic/exchange/gossip/spectrum.h"
#include "laconic/version.h"

namespace laconic::cli {
namespace {

constexpr std::uint64_t kMostRounds = 1'000'000;
constexpr std::uint64_t kMostEntries = std::uint64_t{1} << 26;
constexpr std::size_t kMostPoints = 500;  // of a curve in the report
constexpr double kClose = 1e-3;           // the error whose cost the tables show

struct Options {
  std::vector<std::string> topologies = {"ring:8"}, mixers = {"powergossip"};
  std::string edges, weights = "metropolis", op = "identity", shape = "100x100", gamma, report;
  std::uint64_t rounds = 1024, seed = 0;
  double timeout_seconds = 600;
  bool json = false;
};

// A graph and what it is called.
struct Place {
  std::string topology;
  Graph graph;
  Spectrum spectrum;
};

// One mixer on one graph.
struct Result {
  const Place* place;
  std::string mixer, op;
  std::vector<AgreementRow> rows;  // of every round

  const AgreementRow& last() const { return rows.back(); }
  // The first round with so small an error; none: null.
  const AgreementRow* close() const {
    const auto found = std::ranges::find_if(rows, [](const auto& r) { return r.error <= kClose; });
    return found == rows.end() ? nullptr : &*found;
  }
};

// "100x100"
std::vector<std::uint64_t> parse_shape(const std::string& text) {
  std::vector<std::uint64_t> shape;
  std::uint64_t count = 1;
  const auto refuse = [&] {
    throw UsageError("--shape '" + printable(text) +
                     "' is not allowed; allowed: sides of at least 1 such as 100x100, up to " +
                     with_commas(kMostEntries) + " entries");
  };
  for (const char* at = text.c_str(); *at != '\0';) {
    std::uint64_t side = 0;
    const auto [end, error] = std::from_chars(at, text.c_str() + text.size(), side);
    if (error != std::errc() || side == 0 || side > kMostEntries) refuse();
    if (*end != '\0' && (*end != 'x' || end[1] == '\0')) refuse();
    shape.push_back(side);
    if ((count *= side) > kMostEntries) refuse();
    at = *end == '\0' ? end : end + 1;
  }
  if (shape.empty()) refuse();
  return shape;
}

Place place_of(std::string topology, const Graph& edges, const Options& options) {
  if (edges.size() > kMostWorkers)
    throw UsageError(std::to_string(edges.size()) + " ranks; allowed here: up to " +
                     std::to_string(kMostWorkers));
  Graph graph = edges.with(weights_of(options.weights));
  const Spectrum spectrum = spectrum_of(graph);
  return {std::move(topology), std::move(graph), spectrum};
}

std::vector<Place> places_of(const Options& options) {
  if (!options.edges.empty())
    return {place_of(options.edges, graph_from_edges(as_text(read_file(options.edges).view())),
                     options)};
  std::vector<Place> places;
  for (const auto& topology : options.topologies)
    places.push_back(place_of(topology, make_graph(topology), options));
  return places;
}

const MixerInfo* info_of(const std::string& mixer) {
  const auto stages = split_chain(mixer);
  const auto found = std::ranges::find(mixers(), stages[0].name, &MixerInfo::name);
  return found == mixers().end() ? nullptr : &*found;
}

// Whether the spec says another gamma than the mixer's default.
bool has_gamma(const MixerInfo& info, const std::string& mixer) {
  try {
    const Args args(info.name, info.parameters, split_chain(mixer)[0].args);
    const auto gamma = std::ranges::find(info.parameters, "gamma", &Parameter::name);
    return args.text("gamma") != gamma->fallback;
  } catch (const UsageError&) {  // no gamma where there is no default, or another mistake
    return false;
  }
}

// The mixer's spec with the gamma asked for, unless it has its own.
std::string with_gamma(const std::string& mixer, const Options& options, const Spectrum& spectrum) {
  const MixerInfo* info = info_of(mixer);
  if (options.gamma.empty() || (info && has_gamma(*info, mixer))) return mixer;
  const std::string gamma =
      options.gamma == "best" ? fmt::format("{:.7g}", spectrum.best_gamma()) : options.gamma;
  return mixer + (mixer.find(':') == std::string::npos ? ":" : ",") + "gamma=" + gamma;
}

// The operator is for mixers that take one; if none does, it stays to be refused.
std::string op_of(const std::string& mixer, const Options& options) {
  const auto takes = [](const std::string& spec) {
    const MixerInfo* info = info_of(spec);
    return info && info->takes_operator;
  };
  const bool refused = std::ranges::none_of(options.mixers, takes);
  return takes(mixer) || refused ? options.op : "identity";
}

std::vector<Result> run(const Options& options, const std::vector<Place>& places) {
  if (options.rounds == 0 || options.rounds > kMostRounds)
    throw UsageError("--rounds " + std::to_string(options.rounds) + "; allowed: 1 to " +
                     with_commas(kMostRounds));
  const Model model = {{"x", parse_shape(options.shape)}};
  std::vector<Result> results;
  for (const Place& place : places)
    for (const auto& spec : options.mixers) {
      Result result{&place, with_gamma(spec, options, place.spectrum), op_of(spec, options), {}};
      const auto progress = [&](std::uint64_t round) {
        if (round % 16 == 0)
          show_progress(fmt::format("{} on {}: round {} of {}", result.mixer, place.topology, round,
                                    options.rounds));
      };
      result.rows = agree({.mixer = result.mixer,
                           .graph = place.graph,
                           .model = model,
                           .plan = make_plan(model, "tensor", parse_operator(result.op)),
                           .rounds = options.rounds,
                           .seed = options.seed,
                           .timeout_seconds = options.timeout_seconds},
                          progress);
      show_progress("");
      results.push_back(std::move(result));
    }
  return results;
}

// Rounds at even distances, and at even distances of their logarithms: enough for both plots.
std::vector<AgreementRow> thinned(const std::vector<AgreementRow>& rows) {
  if (rows.size() <= kMostPoints) return rows;
  std::vector<AgreementRow> kept;
  const auto even = [&](std::size_t i) { return i * kMostPoints / rows.size(); };
  const auto logs = [](std::size_t i) {
    return std::floor(16 * std::log2(static_cast<double>(i)));
  };
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (i < 2 || i + 1 == rows.size() || even(i) != even(i - 1) || logs(i) != logs(i - 1))
      kept.push_back(rows[i]);
  return kept;
}

Json to_json(const AgreementRow& row) {
  return {{"round", row.round},           {"error", row.error}, {"payload_bytes", row.payload},
          {"traffic_bytes", row.traffic}, {"waits", row.waits}, {"apart", row.apart}};
}

Json to_json(const Result& result, const std::vector<AgreementRow>& rows) {
  const Spectrum& spectrum = result.place->spectrum;
  Json json = {{"mixer", result.mixer},
               {"op", result.op},
               {"topology", printable(result.place->topology)},
               {"ranks", result.place->graph.size()},
               {"spectral_gap", spectrum.gap()},
               {"best_gamma", spectrum.best_gamma()},
               {"best_contraction", spectrum.contraction(spectrum.best_gamma())},
               {"close", result.close() ? to_json(*result.close()) : Json()},
               {"last", to_json(result.last())}};
  json["rounds"] = Json::array();
  for (const AgreementRow& row : rows) json["rounds"].push_back(to_json(row));
  return json;
}

std::string command_of(const Options& options) {
  std::string text = "laconic consensus";
  if (!options.edges.empty()) text += " --edges " + printable(options.edges);
  for (const auto& topology : options.topologies)
    if (options.edges.empty()) text += " --topology " + topology;
  for (const auto& mixer : options.mixers) text += " --mixer " + mixer;
  if (options.op != "identity") text += " --op " + options.op;
  if (!options.gamma.empty()) text += " --gamma " + options.gamma;
  if (options.weights != "metropolis") text += " --weights " + options.weights;
  return text + fmt::format(" --shape {} --rounds {} --seed {}", options.shape, options.rounds,
                            options.seed);
}

Json to_json(const std::vector<Result>& results, const Options& options, bool every_round) {
  Json json = {{"program", "laconic " LACONIC_VERSION},
               {"kind", "consensus"},
               {"title", fmt::format("Consensus of {} matrices", options.shape)},
               {"shape", parse_shape(options.shape)},
               {"weights", options.weights},
               {"rounds", options.rounds},
               {"seed", options.seed},
               {"close_error", kClose},
               {"command", command_of(options)}};
  json["runs"] = Json::array();
  for (const Result& result : results)
    json["runs"].push_back(to_json(result, every_round ? result.rows : thinned(result.rows)));
  return json;
}

std::string whole(double bytes) { return with_commas(static_cast<std::uint64_t>(bytes + 0.5)); }

void print_place(const Place& place) {
  const Spectrum& spectrum = place.spectrum;
  fmt::print("{}, {} ranks: spectral gap {:.6f}, best gamma {:.6f} contracts by {:.6f} per round\n",
             printable(place.topology), place.graph.size(), spectrum.gap(), spectrum.best_gamma(),
             spectrum.contraction(spectrum.best_gamma()));
}

void print_rounds(const Result& result, const Options& options) {
  print_place(*result.place);
  fmt::print("{}{} on {} normal matrices\n\n", result.mixer,
             result.op == "identity" ? "" : " with " + result.op, options.shape);
  fmt::print("{:>9} {:>12} {:>20} {:>20} {:>10}\n", "round", "error", "payload/worker",
             "traffic/worker", "waits");
  for (const AgreementRow& row : result.rows)
    if (row.round == 0 || std::has_single_bit(row.round) || &row == &result.last())
      fmt::print("{:>9} {:>12.4e} {:>20} {:>20} {:>10}\n", row.round, row.error, whole(row.payload),
                 whole(row.traffic), whole(row.waits));
  print_wrapped(
      "\nerror: the sum over workers of |x - mean|^2, relative to the start; payload: bytes sent "
      "without headers; traffic: all bytes sent; waits: how often a worker waited for others.",
      0);
}

// Of mixers that need neighbours within some bound: whether they were.
void print_bounds(const std::vector<Result>& results) {
  for (const Result& result : results) {
    const auto most = std::ranges::max_element(result.rows, {}, &AgreementRow::apart);
    if (most->apart == 0) continue;
    const auto beyond = std::ranges::count_if(result.rows, [](auto& r) { return r.apart > 1; });
    print_wrapped(
        fmt::format("\n{} on {}: neighbours were at least {:.3g} of its bound (theta) apart in "
                    "round {}; beyond it, where rounds go wrong, in {} of {} rounds.",
                    result.mixer, printable(result.place->topology), most->apart, most->round,
                    with_commas(static_cast<std::uint64_t>(beyond)),
                    with_commas(result.rows.size() - 1)),
        0);
  }
}

// Several runs: a row each.
void print_runs(const std::vector<Result>& results, const Options& options) {
  const Place* before = nullptr;
  for (const Result& result : results) {
    if (result.place != before) {
      fmt::print("{}", before ? "\n" : "");
      print_place(*result.place);
      fmt::print("{:<32} {:>12} {:>18} {:>14} {:>18}\n", "mixer", "error", "traffic/worker",
                 "rounds to 1e-3", "traffic to 1e-3");
    }
    before = result.place;
    const AgreementRow* close = result.close();
    fmt::print("{:<32} {:>12.4e} {:>18} {:>14} {:>18}\n",
               shortened(result.mixer + (result.op == "identity" ? "" : " " + result.op), 32),
               result.last().error, whole(result.last().traffic),
               close ? with_commas(close->round) : "-", close ? whole(close->traffic) : "-");
  }
  print_wrapped(fmt::format("\n{} rounds on {} normal matrices. error: the sum over workers of "
                            "|x - mean|^2, relative to the start; traffic: all bytes sent.",
                            with_commas(options.rounds), options.shape),
                0);
}

void print(const Options& options) {
  const auto places = places_of(options);
  if (!options.report.empty()) require_writable(options.report);
  const auto results = run(options, places);
  if (!options.report.empty())
    write_file(options.report, as_bytes(page_of(to_json(results, options, false))));
  if (options.json) return print_json(to_json(results, options, true));
  if (results.size() == 1)
    print_rounds(results[0], options);
  else
    print_runs(results, options);
  print_bounds(results);
  if (!options.report.empty()) fmt::print("\nPlots: {}\n", printable(options.report));
}

const RegisterCommand command{{
    .name = "consensus",
    .summary = "Runs gossip between workers that start apart: error against rounds and bytes.",
    .examples = {"laconic consensus --topology ring:8 --mixer powergossip --gamma best",
                 "laconic consensus --mixer choco:0.2 --op topk:0.1 --rounds 4096",
                 "laconic consensus --mixer dpsgd --mixer powergossip --report gossip.html",
                 "laconic consensus --topology torus:4x4 --mixer dpsgd --shape 64x64 --json"},
    .attach =
        [](CLI::App& app) {
          const auto options = std::make_shared<Options>();
          const auto add = [&](const char* name, auto& value, const char* help) {
            return app.add_option(name, value, help);
          };
          // A list takes one value per mention, so that what follows is not taken for another.
          add("--topology", options->topologies, "Who mixes with whom (see list); may be repeated")
              ->type_name("SPEC")
              ->expected(1)
              ->take_all()
              ->default_str("ring:8");
          add("--edges", options->edges, "A file of edges instead, two ranks per line")
              ->type_name("PATH")
              ->excludes("--topology");
          add("--weights", options->weights,
              "Of edges: metropolis, or uniform where that is doubly stochastic")
              ->type_name("NAME")
              ->capture_default_str();
          add("--mixer", options->mixers, "How they mix (see list); may be repeated")
              ->type_name("SPEC")
              ->expected(1)
              ->take_all()
              ->default_str("powergossip");
          add("--op", options->op, "Operator of mixers that take one")
              ->type_name("SPEC")
              ->capture_default_str();
          add("--shape", options->shape, "Each worker's matrix")
              ->type_name("ROWSxCOLS")
              ->capture_default_str();
          add("--rounds", options->rounds, "Rounds of gossip")->capture_default_str();
          add("--seed", options->seed, "Of matrices and mixer")->capture_default_str();
          add("--gamma", options->gamma,
              "Gamma of mixers that say none: a number, or 'best' for the graph")
              ->type_name("GAMMA");
          add("--timeout", options->timeout_seconds, "Seconds a worker waits for another")
              ->capture_default_str();
          add("--report", options->report, "Page with plots to write")->type_name("PATH");
          app.add_flag("--json", options->json, "Print JSON, with every round");
          return [options](const Globals&) { print(*options); };
        },
}};

}  // namespace
}  // namespace laconic::cli

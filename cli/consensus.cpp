// laconic consensus: how fast workers that start with different matrices come to agree by gossip,
// in rounds and in bytes. The papers' experiment; ranks are threads.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <bit>
#include <charconv>
#include <exception>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "cli/command.h"
#include "cli/text.h"
#include "laconic/base/errors.h"
#include "laconic/base/file.h"
#include "laconic/exchange/gossip/mixer.h"
#include "laconic/exchange/gossip/spectrum.h"
#include "laconic/transports/threads.h"

namespace laconic::cli {
namespace {

constexpr int kMostRanks = 1024;  // threads of this process
constexpr std::uint64_t kMostRounds = 1'000'000;
constexpr std::uint64_t kMostEntries = std::uint64_t{1} << 26;

struct Options {
  std::string topology = "ring:8", edges, mixer = "powergossip", op = "identity";
  std::string shape = "100x100", gamma;
  std::uint64_t rounds = 1024, seed = 0;
  double timeout_seconds = 600;
  bool json = false;
};

// One rank's account, by round; entry 0 is the start.
struct Trace {
  std::vector<double> error;  // |x - mean of all starts|^2
  std::vector<std::uint64_t> payload, traffic, waits;
};

// All ranks' together: what the table shows.
struct Row {
  std::uint64_t round = 0;
  double error = 1;                 // relative to the start
  double payload = 0, traffic = 0;  // bytes sent so far, mean over ranks
  double waits = 0;
};

struct Result {
  Graph graph;
  Spectrum spectrum;
  std::string mixer;
  std::vector<Row> rows;  // of every round
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

Graph graph_of(const Options& options) {
  Graph graph = options.edges.empty() ? make_graph(options.topology)
                                      : graph_from_edges(as_text(read_file(options.edges).view()));
  if (graph.size() > kMostRanks)
    throw UsageError(std::to_string(graph.size()) + " ranks; allowed here: up to " +
                     std::to_string(kMostRanks));
  return graph;
}

// The mixer's spec with the gamma asked for.
std::string mixer_of(const Options& options, const Spectrum& spectrum) {
  if (options.gamma.empty()) return options.mixer;
  const std::string gamma =
      options.gamma == "best" ? fmt::format("{:.9g}", spectrum.best_gamma()) : options.gamma;
  return options.mixer + (options.mixer.find(':') == std::string::npos ? ":" : ",") +
         "gamma=" + gamma;
}

using Models = std::vector<std::vector<float>>;

Models starts(const Options& options, std::size_t ranks, std::size_t count) {
  Models models(ranks, std::vector<float>(count));
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    std::mt19937_64 random(Key(options.seed).fork(rank).bits(0));
    std::normal_distribution<float> normal;
    std::ranges::generate(models[rank], [&] { return normal(random); });
  }
  return models;
}

std::vector<double> mean_of(const Models& models) {
  std::vector<double> mean(models[0].size());
  for (const auto& model : models)
    for (std::size_t i = 0; i < mean.size(); ++i)
      mean[i] += model[i] / static_cast<double>(models.size());
  return mean;
}

double error_of(std::span<const float> model, std::span<const double> mean) {
  double sum = 0;
  for (std::size_t i = 0; i < model.size(); ++i) {
    const double apart = model[i] - mean[i];
    sum += apart * apart;
  }
  return sum;
}

void mix(Mixer& mixer, std::vector<float>& model, std::span<const double> mean,
         std::uint64_t rounds, Trace& trace) {
  trace = {{error_of(model, mean)}, {0}, {0}, {0}};
  for (std::uint64_t round = 0; round < rounds; ++round) {
    const StepStats stats = mixer.mix(model, {.step = round});
    trace.error.push_back(error_of(model, mean));
    trace.payload.push_back(trace.payload.back() + stats.payload_bytes);
    trace.traffic.push_back(trace.traffic.back() + stats.traffic_bytes);
    trace.waits.push_back(trace.waits.back() + stats.rounds);
  }
}

// One thread per rank. The error of a rank that failed by itself counts more than those of ranks
// that waited for it.
std::vector<Trace> run_ranks(std::vector<std::unique_ptr<Transport>> ends,
                             std::vector<std::unique_ptr<Mixer>> mixers, Models models,
                             std::uint64_t rounds) {
  const auto mean = mean_of(models);
  std::vector<Trace> traces(ends.size());
  std::vector<std::exception_ptr> errors(ends.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t rank = 0; rank < ends.size(); ++rank)
      threads.emplace_back([&, rank] {
        try {
          mix(*mixers[rank], models[rank], mean, rounds, traces[rank]);
        } catch (...) {
          errors[rank] = std::current_exception();
        }
        ends[rank].reset();  // tells the others that this rank has left
      });
  }
  std::exception_ptr waited;
  for (const auto& error : errors) {
    try {
      if (error) std::rethrow_exception(error);
    } catch (const TransportError&) {
      waited = error;
    }
  }
  if (waited) std::rethrow_exception(waited);
  return traces;
}

std::vector<Row> rows_of(const std::vector<Trace>& traces) {
  const auto ranks = static_cast<double>(traces.size());
  double start = 0;
  for (const Trace& trace : traces) start += trace.error[0];
  std::vector<Row> rows(traces[0].error.size());
  for (std::size_t round = 0; round < rows.size(); ++round) {
    Row& row = rows[round];
    row = {.round = round, .error = 0};
    for (const Trace& trace : traces) {
      row.error += trace.error[round] / start;
      row.payload += static_cast<double>(trace.payload[round]) / ranks;
      row.traffic += static_cast<double>(trace.traffic[round]) / ranks;
      row.waits += static_cast<double>(trace.waits[round]) / ranks;
    }
  }
  return rows;
}

Result run(const Options& options) {
  if (options.rounds == 0 || options.rounds > kMostRounds)
    throw UsageError("--rounds " + std::to_string(options.rounds) + "; allowed: 1 to " +
                     with_commas(kMostRounds));
  const Model model = {{"x", parse_shape(options.shape)}};
  Graph graph = graph_of(options);
  const Spectrum spectrum = spectrum_of(graph);
  const std::string mixer = mixer_of(options, spectrum);
  const Plan plan = make_plan(model, "tensor", parse_operator(options.op));
  auto ends = make_thread_transports(graph.size());
  std::vector<std::unique_ptr<Mixer>> mixers;
  for (const auto& end : ends)
    mixers.push_back(make_mixer(mixer, {.transport = *end,
                                        .model = model,
                                        .graph = graph,
                                        .plan = plan,
                                        .seed = options.seed,
                                        .timeout_seconds = options.timeout_seconds}));
  Models models = starts(options, ends.size(), count_of(model));
  const auto traces =
      run_ranks(std::move(ends), std::move(mixers), std::move(models), options.rounds);
  return {std::move(graph), spectrum, mixer, rows_of(traces)};
}

Json to_json(const Result& result, const Options& options) {
  Json json = {{"topology", options.edges.empty() ? options.topology : options.edges},
               {"ranks", result.graph.size()},
               {"mixer", result.mixer},
               {"op", options.op},
               {"shape", parse_shape(options.shape)},
               {"seed", options.seed},
               {"spectral_gap", result.spectrum.gap()},
               {"best_gamma", result.spectrum.best_gamma()},
               {"best_contraction", result.spectrum.contraction(result.spectrum.best_gamma())}};
  json["rounds"] = Json::array();
  for (const Row& row : result.rows)
    json["rounds"].push_back({{"round", row.round},
                              {"error", row.error},
                              {"payload_bytes", row.payload},
                              {"traffic_bytes", row.traffic},
                              {"waits", row.waits}});
  return json;
}

std::string whole(double bytes) { return with_commas(static_cast<std::uint64_t>(bytes + 0.5)); }

void print_table(const Result& result, const Options& options) {
  const Spectrum& spectrum = result.spectrum;
  fmt::print("{}, {} ranks: spectral gap {:.6f}, best gamma {:.6f} contracts by {:.6f} per round\n",
             options.edges.empty() ? options.topology : printable(options.edges),
             result.graph.size(), spectrum.gap(), spectrum.best_gamma(),
             spectrum.contraction(spectrum.best_gamma()));
  fmt::print("{}{} on {} normal matrices\n\n", result.mixer,
             options.op == "identity" ? "" : " with " + options.op, options.shape);
  fmt::print("{:>9} {:>12} {:>20} {:>20} {:>10}\n", "round", "error", "payload/worker",
             "traffic/worker", "waits");
  for (const Row& row : result.rows)
    if (row.round == 0 || std::has_single_bit(row.round) || &row == &result.rows.back())
      fmt::print("{:>9} {:>12.4e} {:>20} {:>20} {:>10}\n", row.round, row.error, whole(row.payload),
                 whole(row.traffic), whole(row.waits));
  print_wrapped(
      "\nerror: the sum over workers of |x - mean|^2, relative to the start; payload: bytes sent "
      "without headers; traffic: all bytes sent; waits: how often a worker waited for others.",
      0);
}

const RegisterCommand command{{
    .name = "consensus",
    .summary = "Runs gossip between workers that start apart: error against rounds and bytes.",
    .examples = {"laconic consensus --topology ring:8 --mixer powergossip --gamma best",
                 "laconic consensus --mixer choco:0.2 --op topk:0.1 --rounds 4096",
                 "laconic consensus --topology torus:4x4 --mixer dpsgd --shape 64x64 --json"},
    .attach =
        [](CLI::App& app) {
          const auto options = std::make_shared<Options>();
          const auto add = [&](const char* name, auto& value, const char* help) {
            return app.add_option(name, value, help);
          };
          add("--topology", options->topology, "Who mixes with whom (see list)")
              ->type_name("SPEC")
              ->capture_default_str();
          add("--edges", options->edges, "A file of edges instead, two ranks per line")
              ->type_name("PATH")
              ->excludes("--topology");
          add("--mixer", options->mixer, "How they mix (see list)")
              ->type_name("SPEC")
              ->capture_default_str();
          add("--op", options->op, "Operator of mixers that take one")
              ->type_name("SPEC")
              ->capture_default_str();
          add("--shape", options->shape, "Each worker's matrix")
              ->type_name("ROWSxCOLS")
              ->capture_default_str();
          add("--rounds", options->rounds, "Rounds of gossip")->capture_default_str();
          add("--seed", options->seed, "Of matrices and mixer")->capture_default_str();
          add("--gamma", options->gamma, "The mixer's gamma: a number, or 'best' for the graph")
              ->type_name("GAMMA");
          add("--timeout", options->timeout_seconds, "Seconds a worker waits for another")
              ->capture_default_str();
          app.add_flag("--json", options->json, "Print JSON, with every round");
          return [options](const Globals&) {
            const Result result = run(*options);
            if (options->json) {
              print_json(to_json(result, *options));
            } else {
              print_table(result, *options);
            }
          };
        },
}};

}  // namespace
}  // namespace laconic::cli

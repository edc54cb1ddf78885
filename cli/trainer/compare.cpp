// laconic compare: the same model, data and seeds with one recipe after the other. What `./run`
// does.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/report.h"
#include "cli/text.h"
#include "cli/trainer/link.h"
#include "cli/trainer/options.h"
#include "cli/trainer/progress.h"
#include "cli/trainer/summaries.h"
#include "laconic/base/errors.h"
#include "laconic/base/file.h"
#include "laconic/version.h"

namespace laconic::cli {
namespace {

struct Options {
  std::string data = "fashion-mnist", link = "100mbit,1ms", report = "report.html", command;
  // One of each kind: a dozen runs of half a minute.
  std::vector<std::string> recipes = {"dense",
                                      "natural-entropy",
                                      "natural-bidirectional",
                                      "dither",
                                      "qsgd",
                                      "topk-natural",
                                      "sbc1",
                                      "powersgd",
                                      "diloco",
                                      "sparseloco",
                                      "dpsgd",
                                      "powergossip"};
  std::uint64_t seeds = 1;
  trainer::Settings settings;
  SettingsFor settings_for;
  bool json = false;
};

// All runs of one recipe.
struct Runs {
  trainer::Settings settings;
  std::vector<std::uint64_t> seeds;
  std::vector<trainer::Result> results;
};

struct Summary {
  double accuracy = 0, accuracy_min = 1, accuracy_max = 0, worker_accuracy = 0, ratio = 1,
         traffic_per_step = 0, step_seconds = 0, exposed_seconds = 0, link_seconds = 0;
};

Summary summarise(const Runs& runs, const Link& link) {
  Summary s;
  const double n = static_cast<double>(runs.results.size());
  double wire = 0, dense = 0;
  for (const auto& result : runs.results) {
    const auto& last = result.evaluations.back();
    const double steps = static_cast<double>(std::max<std::uint64_t>(1, last.step));
    s.accuracy += last.accuracy / n;
    s.worker_accuracy += last.worker_accuracy / n;
    s.accuracy_min = std::min(s.accuracy_min, last.accuracy);
    s.accuracy_max = std::max(s.accuracy_max, last.accuracy);
    wire += static_cast<double>(last.totals.wire_bytes);
    dense += static_cast<double>(last.totals.dense_bytes);
    s.traffic_per_step += static_cast<double>(last.totals.step_bytes()) / steps / n;
    s.step_seconds += last.totals.step_seconds() / steps / n;
    s.exposed_seconds += last.totals.exposed_seconds / steps / n;
    s.link_seconds += link.step_seconds(last.totals, last.step) / n;
  }
  s.ratio = wire > 0 ? dense / wire : 1;
  return s;
}

// What a dense ring sends per rank and step.
double ring_bytes(std::size_t parameters, std::size_t workers) {
  return 2.0 * static_cast<double>(workers - 1) / static_cast<double>(workers) * 4 *
         static_cast<double>(parameters);
}

std::string bytes_text(double bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB"};
  int unit = 0;
  for (; unit < 3 && bytes >= 1024; ++unit) bytes /= 1024;
  return fmt::format("{:.{}f} {}", bytes, unit == 0 ? 0 : 2, units[unit]);
}

// Four digits that count: 3.556, 39.20, 243.3, 39186.
std::string ratio_text(double ratio) {
  const int decimals = ratio < 10 ? 2 : ratio < 1000 ? 1 : 0;
  return fmt::format("{:.{}f}x", ratio, decimals);
}

void print_table(const std::vector<Runs>& all, const Options& o, const Link& link) {
  const double ring = ring_bytes(all.front().results.front().parameters, o.settings.workers);
  fmt::print("\n{:<21} {:>9} {:>11} {:>10} {:>8} {:>12} {:>9} {:>12}\n", "recipe", "accuracy",
             "min-max", "per worker", "ratio", "traffic/step", "step", "on the link");
  for (const Runs& runs : all) {
    const Summary s = summarise(runs, link);
    fmt::print(
        "{:<21} {:>7.2f} % {:>11} {:>10} {:>8} {:>12} {:>6.1f} ms {:>9.1f} ms\n",
        runs.settings.recipe.name, 100 * s.accuracy,
        fmt::format("{:.2f}-{:.2f}", 100 * s.accuracy_min, 100 * s.accuracy_max),
        s.worker_accuracy != s.accuracy ? fmt::format("{:.2f} %", 100 * s.worker_accuracy) : "",
        ratio_text(s.ratio), bytes_text(s.traffic_per_step), 1e3 * s.step_seconds,
        1e3 * s.link_seconds);
  }
  fmt::print("\n");
  print_wrapped(
      fmt::format("{} on {}, {} workers, batches of {} (or what a recipe was tuned "
                  "with), {} seed{}. per worker: of the workers' own models, where they "
                  "differ; accuracy is then that of their mean. ratio: dense bytes / "
                  "bytes in frames. traffic: bytes a "
                  "rank really sent per step, evaluations apart; a dense ring sends {}. step: "
                  "measured here, where ranks are threads and "
                  "sending costs nothing. on the link: computed for {} from the bytes "
                  "really sent and the seconds really "
                  "measured.",
                  o.settings.model, o.data, o.settings.workers, o.settings.batch, o.seeds,
                  o.seeds == 1 ? "" : "s", bytes_text(ring), link.text),
      0);
}

Json runs_json(const Runs& runs) {
  Json list = Json::array();
  for (std::size_t i = 0; i < runs.results.size(); ++i) {
    Json evaluations = Json::array();
    for (const auto& e : runs.results[i].evaluations)
      evaluations.push_back(Json::parse(write_evaluation(e)));
    list.push_back({{"seed", runs.seeds[i]}, {"evaluations", evaluations}});
  }
  return list;
}

// 0.05, not the digits of the float nearest to it.
double short_decimal(float value) { return std::stod(fmt::format("{}", value)); }

Json report_json(const std::vector<Runs>& all, const Options& o, const Link& link) {
  const auto& s = o.settings;
  const std::size_t parameters = all.front().results.front().parameters;
  Json recipes = Json::array();
  for (const Runs& runs : all) {
    const Summary m = summarise(runs, link);
    const Recipe& recipe = runs.settings.recipe;
    recipes.push_back(
        {{"name", recipe.name},
         {"op", recipe.op},
         {"memory", recipe.memory},
         {"layout", recipe.layout},
         {"exchange", recipe.exchange},
         {"delay", recipe.delay},
         {"outer", recipe.outer},
         {"fragments", recipe.fragments},
         {"overlap", recipe.overlap},
         {"merge", recipe.merge},
         {"mixer", recipe.mixer},
         {"topology", recipe.topology},
         {"workers", runs.settings.workers},
         {"batch", runs.settings.batch},
         {"optimizer", runs.settings.optimizer.kind},
         {"lr", short_decimal(runs.settings.lr)},
         {"summary",
          {{"accuracy", m.accuracy},
           {"accuracy_min", m.accuracy_min},
           {"accuracy_max", m.accuracy_max},
           {"worker_accuracy", m.worker_accuracy},
           {"ratio", m.ratio},
           {"traffic_bytes_per_step", m.traffic_per_step},
           {"dense_traffic_bytes_per_step", ring_bytes(parameters, runs.settings.workers)},
           {"step_seconds", m.step_seconds},
           {"exposed_seconds_per_step", m.exposed_seconds},
           {"link_step_seconds", m.link_seconds}}},
         {"runs", runs_json(runs)}});
  }
  return {{"program", "laconic " LACONIC_VERSION},
          {"title", fmt::format("{} on {}, {} workers", s.model, o.data, s.workers)},
          {"data", o.data},
          {"model", s.model},
          {"parameters", parameters},
          {"workers", s.workers},
          {"epochs", s.epochs},
          {"batch", s.batch},
          {"optimizer", s.optimizer.kind},
          {"lr", short_decimal(s.lr)},
          {"seeds", all.front().seeds},
          {"link",
           {{"text", link.text},
            {"bits_per_second", link.bits_per_second},
            {"latency_seconds", link.latency_seconds}}},
          {"command", o.command},
          {"recipes", recipes}};
}

// One run after the other, each seed through all recipes. Returns false when it was interrupted.
bool train_all(const Options& o, const trainer::Data& data, std::vector<Runs>& all) {
  ProgressBar bar;
  std::size_t number = 0;
  for (std::uint64_t seed = 1; seed <= o.seeds; ++seed) {
    for (Runs& runs : all) {
      const std::string title =
          fmt::format("{}/{} {}", ++number, all.size() * o.seeds, runs.settings.recipe.name);
      auto settings = runs.settings;
      settings.seed = seed;
      const trainer::Observer observer{.step =
                                           [&](const trainer::Progress& p) {
                                             bar.show(title, p.step, p.steps, p.done_here,
                                                      p.seconds);
                                           },
                                       .evaluation = {},
                                       .note = {},
                                       .stop = &interrupted()};
      auto result = trainer::train(settings, data, {}, observer);
      bar.clear();
      if (!result.finished()) return false;
      if (!o.json)
        fmt::print("{:<29} seed {}: {:.2f} %\n", title, seed,
                   100 * result.evaluations.back().accuracy);
      std::fflush(stdout);
      runs.seeds.push_back(seed);
      runs.results.push_back(std::move(result));
    }
  }
  return true;
}

void show(const std::vector<Runs>& all, const Options& o, const Link& link) {
  const Json report = report_json(all, o, link);
  // A page that cannot be written takes nothing else with it.
  if (o.json)
    print_json(report);
  else
    print_table(all, o, link);
  if (o.report.empty()) return;
  write_file(o.report, as_bytes(page_of(report)));
  if (!o.json) fmt::print("\nPlots: {}\n", o.report);
}

void run(Options o) {
  const Link link = parse_link(o.link);
  if (o.seeds < 1 || o.seeds > 1000)
    throw UsageError(fmt::format("{} seeds; allowed: 1 to 1000", o.seeds));
  std::vector<Runs> all;
  for (const auto& name : o.recipes) all.push_back({o.settings_for(find_recipe(name)), {}, {}});
  if (all.empty()) throw UsageError("nothing to compare: --recipes names none");
  if (!o.report.empty()) require_writable(o.report);
  const trainer::Data data = trainer::load_data(o.data, o.settings.validation);
  o.data = data.name;
  for (const Runs& runs : all) trainer::check_run(runs.settings, data, {});
  const bool finished = train_all(o, data, all);
  std::erase_if(all, [](const Runs& runs) { return runs.results.empty(); });
  if (!finished)
    fmt::print(stderr,
               "laconic: stopped; {}; laconic train --out FOLDER keeps runs to go on with\n",
               all.empty() ? "no run was finished" : "what was finished is shown");
  if (!all.empty()) show(all, o, link);
  if (!finished) end_interrupted();
}

const RegisterCommand command{{
    .name = "compare",
    .summary = kCompareSummary,
    .examples = {"laconic compare",
                 "laconic compare --recipes dense,natural,mine.json --seeds 5 --epochs 3",
                 "laconic compare --link 1gbit,200us --report nightly.html --json"},
    .attach =
        [](CLI::App& app) {
          const auto o = std::make_shared<Options>();
          o->settings.evaluations = 4;
          app.add_option("--recipes", o->recipes, "Recipes to compare, built-in or FILE.json")
              ->delimiter(',')
              ->default_str(join(o->recipes, ","));
          app.add_option("--seeds", o->seeds, "Runs of each recipe, with seeds 1, 2, ...")
              ->capture_default_str();
          app.add_option("--link", o->link, "Link whose step time is computed: rate,latency")
              ->capture_default_str();
          app.add_option("--report", o->report, "Page to write; empty for none")
              ->capture_default_str();
          app.add_flag("--json", o->json, "Print the report's data as JSON");
          o->settings_for = add_training_options(app, o->data, o->settings);
          return [o](const Globals& globals) {
            o->settings.threads = globals.threads;
            o->command = globals.command;
            run(*o);
          };
        },
}};

}  // namespace
}  // namespace laconic::cli

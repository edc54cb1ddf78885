// laconic train: one run of one recipe.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "cli/command.h"
#include "cli/report.h"
#include "cli/text.h"
#include "cli/trainer/options.h"
#include "cli/trainer/processes.h"
#include "cli/trainer/progress.h"
#include "cli/trainer/summaries.h"
#include "laconic/base/errors.h"
#include "laconic/base/file.h"
#include "laconic/version.h"

namespace laconic::cli {
namespace {

struct Options {
  std::string data = "fashion-mnist";
  std::optional<std::string> recipe;
  Recipe own{.name = "own"};                        // from --op, --memory, ...
  std::uint64_t delay = 0;                          // 0: the recipe's own
  std::string outer;                                // empty: the recipe's own
  std::optional<std::uint64_t> fragments, overlap;  // none: the recipe's own
  std::optional<double> merge;
  std::string topology;  // empty: the recipe's own
  trainer::Settings settings;
  SettingsFor settings_for;
  bool workers_given = false;
  trainer::Output output;
  std::string transport = "threads", guard = {}, command;
  bool json = false;
};

void print_evaluation(const trainer::Evaluation& e) {
  fmt::print(
      "step {:>7}  epoch {:>6.2f}  loss {:.4f}  accuracy {:.2f} %{}  sent {} of {} dense bytes per "
      "rank{}\n",
      e.step, e.epoch, e.loss, 100 * e.accuracy,
      e.worker_accuracy != e.accuracy ? fmt::format(" (workers {:.2f} %)", 100 * e.worker_accuracy)
                                      : "",
      with_commas(e.totals.wire_bytes), with_commas(e.totals.dense_bytes),
      e.skipped > 0 ? fmt::format("  {} steps skipped: not finite", e.skipped) : "");
  std::fflush(stdout);
}

void print_result(const Options& options, const trainer::Result& result) {
  const trainer::Evaluation& last = result.evaluations.back();
  const double ratio = last.totals.wire_bytes > 0 ? static_cast<double>(last.totals.dense_bytes) /
                                                        static_cast<double>(last.totals.wire_bytes)
                                                  : 1;
  fmt::print("{}: {:.2f} % after {} steps, ratio {:.2f}", options.settings.recipe.name,
             100 * last.accuracy, last.step, ratio);
  if (!options.output.folder.empty()) fmt::print(", all in {}/", options.output.folder);
  fmt::print("\n");
}

// The lines of a file of the run's that have this, the last so many of them.
Json lines_of(const std::string& path, const char* key, std::size_t most) {
  Json lines = Json::array();
  if (!std::filesystem::exists(path)) return lines;
  const Buffer bytes = read_file(path);
  std::istringstream in(std::string(as_text(bytes.view())));
  for (std::string line; std::getline(in, line);)
    if (Json one = Json::parse(line); one.contains(key)) lines.push_back(std::move(one));
  if (lines.size() > most)
    lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(most));
  return lines;
}

// A page with where the time of every step went, and what the guard has decided.
void write_page(const Options& options) {
  constexpr std::size_t kMostSteps = 20000, kMostDecisions = 1000;
  const auto& s = options.settings;
  const std::string& folder = options.output.folder;
  const Json page = {
      {"kind", "run"},
      {"program", "laconic " LACONIC_VERSION},
      {"title", fmt::format("{} by {}, {} workers", s.model, s.recipe.name, s.workers)},
      {"recipe", s.recipe.name},
      {"model", s.model},
      {"data", options.data},
      {"workers", s.workers},
      {"batch", s.batch},
      {"transport", options.transport},
      {"guard", options.guard},
      {"command", options.command},
      {"steps", lines_of(folder + "/steps.jsonl", "step", kMostSteps)},
      {"decisions", lines_of(folder + "/guard.jsonl", "why", kMostDecisions)}};
  write_file(folder + "/report.html", as_bytes(page_of(page)));
}

Recipe recipe_of(const Options& options) {
  Recipe recipe = options.recipe ? find_recipe(*options.recipe) : options.own;
  if (options.delay > 0) recipe.delay = options.delay;
  if (!options.outer.empty()) recipe.outer = options.outer;
  recipe.fragments = options.fragments.value_or(recipe.fragments);
  recipe.overlap = options.overlap.value_or(recipe.overlap);
  recipe.merge = options.merge.value_or(recipe.merge);
  if (options.topology.empty()) return recipe;
  if (recipe.mixer.empty())
    throw UsageError("--topology " + options.topology +
                     " without a mixer; allowed: beside --mixer, or a recipe that has one");
  recipe.topology = options.topology;
  return recipe;
}

// The data of a run whose arguments have been found to be right.
trainer::Data prepare(Options& options, const Transport* transport) {
  options.settings = options.settings_for(recipe_of(options));
  if (options.guard.empty()) options.guard = transport ? "on" : "off";
  options.settings.guard = GuardOptions::parse(options.guard);
  if (transport) take_ranks(options.settings, options.workers_given, transport->size());
  trainer::Data data = trainer::load_data(options.data, options.settings.validation);
  trainer::check_run(options.settings, data, options.output);
  return data;
}

void tell_end(const Options& options, const trainer::Result& result) {
  if (options.output.trace) write_page(options);
  if (!result.finished())
    fmt::print(stderr, "laconic: stopped after {} of {} steps; {}\n", result.step, result.steps,
               options.output.folder.empty() ? "nothing of it is kept without --out FOLDER"
                                             : "the same command with --resume goes on from there");
  else if (!options.json)
    print_result(options, result);
}

// Without a transport, all ranks are threads of this process. With one, rank 0 alone prints.
void run_on(const Options& options, const trainer::Data& data, Transport* transport) {
  ProgressBar bar;
  const trainer::Observer observer{
      .step =
          [&](const trainer::Progress& p) {
            bar.show(options.settings.recipe.name, p.step, p.steps, p.done_here, p.seconds);
          },
      .evaluation =
          [&](const trainer::Evaluation& e) {
            bar.clear();
            if (options.json)
              fmt::print("{}\n", write_evaluation(e));
            else
              print_evaluation(e);
            std::fflush(stdout);
          },
      .note = [&](const std::string& note) { fmt::print(stderr, "laconic: {}\n", note); },
      .stop = &interrupted()};
  const trainer::Result result =
      transport ? trainer::train_rank(options.settings, data, options.output, observer, *transport)
                : trainer::train(options.settings, data, options.output, observer);
  bar.clear();
  if (!transport || transport->rank() == 0) tell_end(options, result);
  if (!result.finished()) end_interrupted();
}

void run(Options options) {
  trainer::Data data;
  on_transport(
      options.transport, options.settings.timeout_seconds,
      [&](const Transport* transport) { data = prepare(options, transport); },
      [&](Transport* transport) { run_on(options, data, transport); });
}

const RegisterCommand command{{
    .name = "train",
    .summary = kTrainSummary,
    .examples = {"laconic train --recipe natural-entropy --epochs 3 --out run1",
                 "laconic train --op natural:8 --memory feedback --layout whole --steps 500",
                 "laconic train --recipe natural-entropy --epochs 3 --out run1 --resume",
                 "laconic train --op sbc:0.01 --memory feedback:masking=on --delay 10 --epochs 3",
                 "laconic train --recipe powergossip --topology torus:2x4",
                 "laconic train --recipe dense --steps 301 --out grads --record 0,100,300",
                 "mpirun -n 4 laconic train --transport mpi --recipe natural --epochs 3",
                 "RANK=0 WORLD_SIZE=2 MASTER_ADDR=10.0.0.1 MASTER_PORT=29500 laconic train "
                 "--transport sockets --recipe natural"},
    .attach =
        [](CLI::App& app) {
          const auto o = std::make_shared<Options>();
          auto* recipe = app.add_option("--recipe", o->recipe,
                                        "A built-in recipe, or FILE.json; see laconic list");
          for (auto* own :
               {app.add_option("--op", o->own.op, "Operator")->capture_default_str(),
                app.add_option("--memory", o->own.memory, "Memory")->capture_default_str(),
                app.add_option("--layout", o->own.layout, "Layout")->capture_default_str(),
                app.add_option("--exchange", o->own.exchange, "Exchange")->capture_default_str(),
                app.add_option("--down", o->own.down,
                               "Operator of the way back, where an exchange has one; as --op"),
                app.add_option("--down-memory", o->own.down_memory, "And the memory beside it")
                    ->capture_default_str(),
                app.add_option("--draws", o->own.draws,
                               "How rounding draws: strata, so that ranks' errors cancel in the "
                               "mean, or own")
                    ->capture_default_str(),
                app.add_option("--rule", o->own.rules,
                               "Operator for some tensors, name=*.bias,op=identity, or under "
                               "powersgd their rank, name=fc1.weight,rank=4"),
                app.add_option("--mixer", o->own.mixer,
                               "Instead of an exchange: neighbours mix models, as in choco:0.4")})
            own->excludes(recipe);
          app.add_option("--delay", o->delay, "Local steps between exchanges; recipes have theirs")
              ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1'000'000'000}));
          app.add_option("--outer", o->outer,
                         "What takes the change of a round: none, momentum:0.9,lr=1 or "
                         "nesterov:0.9,lr=0.7");
          app.add_option("--fragments", o->fragments,
                         "Fragments of the model that take turns within --delay steps");
          app.add_option("--overlap", o->overlap,
                         "Steps for which a round is under way while ranks train on; below delay "
                         "/ fragments");
          app.add_option("--merge", o->merge,
                         "How much of its own model a rank keeps when a round has arrived; below "
                         "1");
          app.add_option("--topology", o->topology, "Who mixes with whom: ring, torus:2x4, ...");
          o->settings_for = add_training_options(app, o->data, o->settings);
          app.add_option("--transport", o->transport, transport_help())->capture_default_str();
          app.add_option("--guard", o->guard,
                         "on: a step goes plain, in 16 bits or by another operator where that is "
                         "faster; report: only says so; replay=FILE: as guard.jsonl of another run "
                         "says; off: bytes do not depend on what steps take. Usually on among "
                         "processes, off among threads");
          app.add_option("--seed", o->settings.seed, "Same seed, same run")->capture_default_str();
          app.add_option("--out", o->output.folder,
                         "Folder for metrics.jsonl, checkpoint.lac and model.lac");
          app.add_flag("--flush", o->settings.flush,
                       "After the last step deliver what is still owed to the model, uncompressed");
          app.add_flag("--trace", o->output.trace,
                       "Leave steps.jsonl there too, what each step and its parts took, and "
                       "report.html, which shows it");
          app.add_option("--checkpoint-every", o->output.checkpoint_every,
                         "Steps between checkpoints; 0: at the end");
          app.add_flag(
              "--resume", o->output.resume,
              "Go on with the run in --out, if there is one, with as many --workers or others");
          app.add_option("--record", o->output.record, "Steps whose gradients are written as .npz")
              ->delimiter(',');
          app.add_flag("--json", o->json, "Print each evaluation as a line of JSON");
          const auto* workers = app.get_option("--workers");
          return [o, workers](const Globals& globals) {
            o->settings.threads = globals.threads;
            o->workers_given = !workers->empty();
            o->command = globals.command;
            run(*o);
          };
        },
}};

}  // namespace
}  // namespace laconic::cli

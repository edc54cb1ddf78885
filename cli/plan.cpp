// laconic plan: which recipe for this model, so many workers and this link?
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/text.h"
#include "laconic/base/errors.h"
#include "laconic/base/file.h"
#include "laconic/planner/report.h"

namespace laconic::cli {
namespace {

struct Options {
  PlanRequest request;
  double compute = -1, error = -1;
  std::uint64_t bytes = 0;
  std::string out = "planned.json";
  bool json = false;
};

std::string bytes_text(double bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  for (; unit < 4 && bytes >= 1023.5; ++unit) bytes /= 1024;
  return fmt::format("{:.{}f} {}", bytes, unit == 0 ? 0 : bytes < 100 ? 2 : 1, units[unit]);
}

std::string seconds_text(double seconds) {
  if (seconds < 1) return fmt::format("{:.1f} ms", seconds * 1e3);
  if (seconds < 1e4) return fmt::format("{:.2f} s", seconds);
  return seconds < 1e7 ? fmt::format("{:.1f} h", seconds / 3600)
                       : fmt::format("{:.0f} d", seconds / 86400);
}

void print_row(const Forecast& f) {
  if (!f.obstacle.empty()) return;
  fmt::print("{:<21} {:>11}{} {:>9} {:>9} {:>9} {:>8.2f}x {:>7.2f}x {:>11}\n",
             shortened(f.recipe.name, 21), bytes_text(f.bytes), f.exact ? " " : "~",
             seconds_text(f.kernel_seconds), seconds_text(f.exposed_seconds),
             seconds_text(f.step_seconds), f.over_dense, f.over_bf16,
             f.error ? fmt::format("{:.4g}", *f.error) : "");
}

void print_adaptive(const Adaptive& adaptive, const std::string& out) {
  const auto show = [](const char* name, const Outcomes& outcomes) {
    const char* of = outcomes.recipe.op == "identity" ? "factors" : "frames";
    fmt::print("{:<14} {:>13} bytes in {}, error {:.4g}\n", name, with_commas(outcomes.bytes), of,
               outcomes.error);
  };
  fmt::print("\n");
  show("layer-wise", adaptive.layer_wise);
  if (adaptive.entire_model) show("entire-model", *adaptive.entire_model);
  show("adaptive", adaptive.chosen);
  const Recipe& recipe = adaptive.chosen.recipe;
  print_wrapped(
      fmt::format("{} rules beside {}, layout {}, written to {}", recipe.rules.size(),
                  recipe.op == "identity" ? recipe.exchange : recipe.op, recipe.layout, out),
      0);
}

void print_situation(const PlanReport& report) {
  const Situation& s = report.situation;
  const Samples& samples = s.samples;
  print_wrapped(
      fmt::format("{}: {} tensors, {} entries; {} workers{}, each behind {}{}; a step computes "
                  "for {}{}",
                  printable(samples.name), samples.model.size(),
                  with_commas(count_of(samples.model)), s.workers,
                  s.cores > 0
                      ? fmt::format(" that share {} cores, of which a message takes {:.1f} us and "
                                    "a byte {:.2f} ns",
                                    s.cores, s.stack.message * 1e6, s.stack.byte * 1e9)
                      : "",
                  report.request.link, s.packets ? ", TCP" : "", seconds_text(s.compute_seconds),
                  report.request.compute_seconds
                      ? ""
                      : fmt::format(" (estimated for a batch of {}: 6 operations per parameter, "
                                    "use and sample, 10^12 a second; --compute says better)",
                                    report.request.batch)),
      0);
  print_wrapped(samples.drawn
                    ? fmt::format("gradients {}; --gradients takes recorded ones", kDrawnAs)
                    : fmt::format("gradients of {} recorded steps", samples.gradients.size()),
                0);
}

void print_report(const PlanReport& report, const std::string& out) {
  print_situation(report);
  if (report.adaptive) print_adaptive(*report.adaptive, out);
  fmt::print("\n{:<21} {:>11}  {:>9} {:>9} {:>9} {:>9} {:>8} {:>11}\n", "recipe", "bytes/step",
             "kernels", "exposed", "step", "/ dense", "/ bf16", "error");
  for (const Forecast& forecast : report.forecasts) print_row(forecast);
  for (const Forecast& forecast : report.forecasts)
    if (!forecast.obstacle.empty())
      print_wrapped(fmt::format("{}: {}", forecast.recipe.name, forecast.obstacle), 0);
  fmt::print("\n");
  print_wrapped(
      "bytes/step: all that rank 0 sends, heads and votes too (~: reckoned from a part of the "
      "model). kernels: of one core, measured here. exposed: what a step takes beyond computing. "
      "error: |mean - x|^2 / |x|^2 of one step; memories send later what is lacking.",
      0);
  const Forecast& best = report.forecasts.front();
  if (best.obstacle.empty())
    fmt::print("\n{}\n{}\n", command_of(best.recipe, report.request), python_of(best.recipe));
}

// Empty for a number for which `allowed` holds, which for NaN it does not.
template <class Allowed>
std::string number_must(const std::string& text, const char* be, Allowed allowed) {
  double value = 0;
  if (CLI::detail::lexical_cast(text, value) && allowed(value)) return "";
  return "'" + text + "' is not allowed; allowed: " + be;
}

std::string not_below_zero(const std::string& text) {
  return number_must(text, "0 and more", [](double value) { return value >= 0; });
}

std::string above_zero(const std::string& text) {
  return number_must(text, "above 0", [](double value) { return value > 0; });
}

void plan(Options options) {
  PlanRequest& request = options.request;
  if (options.compute >= 0) request.compute_seconds = options.compute;
  if (options.bytes > 0) request.budget.bytes = options.bytes;
  if (options.error >= 0) request.budget.error = options.error;
  if (!request.adaptive.empty()) require_writable(options.out);
  const PlanReport report =
      make_report(request, [](const std::string& name) { show_progress(name); });
  show_progress("");
  if (report.adaptive)
    write_file(options.out, as_bytes(write_recipe(report.adaptive->chosen.recipe) + "\n"));
  if (options.json) return print_json(Json::parse(write_report(report)));
  print_report(report, options.out);
}

const RegisterCommand command{{
    .name = "plan",
    .summary = "Foresees bytes, step times and errors of every recipe on a link, best first.",
    .examples = {"laconic plan --model resnet50 --workers 16 --link 100mbit,1ms --compute 0.4",
                 "laconic plan --model gpt2 --workers 1000 --link 1gbit,40ms --recipes "
                 "dense,diloco,sparseloco",
                 "laconic plan --model run1/gradients-step-100.npz --compute 0.13 --workers 4",
                 "laconic plan --model lenet5 --gradients run1/gradients-step-100.npz --adaptive "
                 "topk:0.01 --bytes 8000",
                 "laconic plan --model lenet5 --gradients run1/gradients-step-100.npz --adaptive "
                 "powersgd:4"},
    .attach =
        [](CLI::App& app) {
          const auto o = std::make_shared<Options>();
          PlanRequest& r = o->request;
          app.add_option(
                 "--model", r.model,
                 "A model of laconic audit, FILE.json with tensors, or FILE.npz of gradients")
              ->capture_default_str();
          app.add_option("--gradients", r.gradients, "Recorded gradients; may be several files")
              ->type_name("FILE.npz");
          app.add_option("--workers", r.workers, "2 to 10000")->capture_default_str();
          app.add_option("--link", r.link, "Of each worker, both ways: rate,latency")
              ->capture_default_str();
          app.add_option("--compute,--batch-seconds", o->compute,
                         "Seconds that a worker computes in a step; estimated if not given")
              ->check(not_below_zero);
          app.add_option("--batch", r.batch, "Samples of a worker and step, for the estimate")
              ->capture_default_str();
          app.add_option("--recipes", r.recipes, "Built-in or FILE.json; all that are built in")
              ->delimiter(',');
          app.add_option("--bucket-bytes", r.bucket_bytes,
                         "Gradients that are handed over together")
              ->capture_default_str();
          app.add_option("--headers", r.headers, "What travels beside messages: tcp | none")
              ->capture_default_str();
          app.add_option("--repeats", r.repeats, "Of measurements, the best of which counts")
              ->capture_default_str();
          app.add_option("--cores", r.cores,
                         "Workers share so many cores of one machine, and --compute is what a step "
                         "computes while all do; 0: each has cores of its own")
              ->capture_default_str();
          app.add_option("--stack", r.stack,
                         "Of these cores, for a message and for a byte, as in 6us,0.4ns; measured "
                         "if not given")
              ->type_name("MESSAGE,BYTE");
          auto* adaptive = app.add_option(
              "--adaptive", r.adaptive,
              "Choose this operator's density, levels or bits, or powersgd's rank, by tensor and "
              "write a recipe");
          adaptive->type_name("SPEC");
          auto* bytes =
              app.add_option("--bytes", o->bytes, "Budget: bytes of a step's frames, or factors");
          bytes->needs(adaptive)->check(above_zero);
          app.add_option("--error", o->error, "Budget: error; without any that of the operator")
              ->needs(adaptive)
              ->excludes(bytes)
              ->check(not_below_zero);
          app.add_option("--out", o->out, "Where --adaptive writes its recipe")
              ->capture_default_str();
          app.add_flag("--json", o->json, "Print JSON");
          return [o](const Globals&) { plan(*o); };
        },
}};

}  // namespace
}  // namespace laconic::cli

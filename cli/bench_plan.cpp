// laconic bench plan: does the planner say the truth? Steps of recipes over a link that really
// waits, beside what was foreseen.
//
// Ranks are threads, the backward pass is a clock: a bucket's gradients are there when the
// planner's rule says so. Kernels are real and share this machine's cores.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <barrier>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/bench_method.h"
#include "cli/command.h"
#include "cli/text.h"
#include "laconic/base/errors.h"
#include "laconic/planner/report.h"
#include "laconic/transports/threads.h"

namespace laconic::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  PlanRequest request;
  double compute = 0.1;
  std::uint64_t steps = 5;
  bool json = false;
};

struct Row {
  Forecast forecast;
  double measured = 0;  // the median
};

void sleep_until(Clock::time_point began, double seconds) {
  std::this_thread::sleep_until(
      began + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds)));
}

// One step of one rank: forward, backward with parts that leave as they come, the rest.
void step(Aggregator& aggregator, const Situation& situation, std::vector<float>& gradient,
          std::uint64_t number) {
  const Model& model = situation.samples.model;
  gradient = situation.samples.gradients[0];
  const double backward = kBackwardShare * situation.compute_seconds;
  const auto began = Clock::now();
  sleep_until(began, situation.compute_seconds - backward);
  const std::vector<float> parameters(gradient.size());
  aggregator.begin({.step = kForeseenStep + number, .lr = 0.1F, .parameters = parameters});
  const Plan plan = make_plan(model, "tensor", parse_operator("identity"));
  for (const UnitSlices& bucket : units_of(model, plan, situation.bucket_bytes)) {
    sleep_until(began, situation.compute_seconds - backward * (1 - bucket.ready));
    std::vector<void*> arrays;
    for (const std::size_t tensor : bucket.slices)
      arrays.push_back(gradient.data() + plan.layout[tensor].offset);
    aggregator.submit({.tensors = bucket.slices, .data = arrays});
  }
  aggregator.finish();
  aggregator.commit();
}

// Whoever ends, also by an error, keeps nobody waiting.
struct Leaves {
  std::barrier<>& all;
  ~Leaves() { all.arrive_and_drop(); }
};

// The median over steps of what the slowest rank takes.
double measure(const Recipe& recipe, const Situation& situation, std::uint64_t steps) {
  Link link = situation.link;
  link.sleep = true;
  std::vector<std::unique_ptr<Transport>> ends;
  for (auto& end : make_thread_transports(situation.workers))
    ends.push_back(std::make_unique<ModelledTransport>(std::move(end), link));
  std::vector<std::vector<double>> taken(ends.size());
  std::barrier all(situation.workers);
  on_ranks(std::move(ends), [&](std::size_t rank, Transport& transport) {
    const Leaves leaves{all};
    const auto aggregator = make_aggregator({.model = situation.samples.model,
                                             .recipe = recipe,
                                             .timeout_seconds = 3600,
                                             .engine = Engine::thread,
                                             .unit_bytes = situation.bucket_bytes},
                                            transport);
    std::vector<float> gradient;
    for (std::uint64_t number = 0; number <= steps; ++number) {
      all.arrive_and_wait();
      Stopwatch watch;
      step(*aggregator, situation, gradient, number);
      if (number > 0) taken[rank].push_back(watch.lap());
    }
  });
  std::vector<double> slowest(steps);
  for (std::size_t i = 0; i < slowest.size(); ++i)
    for (const auto& of_rank : taken) slowest[i] = std::max(slowest[i], of_rank[i]);
  std::ranges::nth_element(slowest, slowest.begin() + static_cast<std::ptrdiff_t>(steps / 2));
  return slowest[steps / 2];
}

void bench(Options options) {
  if (options.steps == 0) throw UsageError("--steps must be 1 or more");
  if (options.request.workers > 64) throw UsageError("--workers must be at most 64 threads");
  options.request.compute_seconds = options.compute;
  options.request.headers = "none";  // the modelled link has no packets
  options.request.stack = "0s,0s";   // nor sockets
  options.request.cores = std::max(1U, std::thread::hardware_concurrency());
  options.request.computes = false;
  const PlanReport report = make_report(options.request);
  std::vector<Row> rows;
  for (const Forecast& forecast : report.forecasts) {
    if (!forecast.obstacle.empty() || !forecast.recipe.mixer.empty() ||
        takes_local_steps(forecast.recipe))
      continue;
    show_progress(forecast.recipe.name);
    rows.push_back({forecast, measure(forecast.recipe, report.situation, options.steps)});
  }
  show_progress("");
  Json json = Json::array();
  for (const Row& row : rows)
    json.push_back({{"recipe", row.forecast.recipe.name},
                    {"foreseen_seconds", row.forecast.step_seconds},
                    {"measured_seconds", row.measured},
                    {"foreseen_over_measured", row.forecast.step_seconds / row.measured}});
  if (options.json) return print_json(json);
  fmt::print("{}, {} workers as threads, {}, {:.3f} s of computing, median of {} steps\n\n",
             printable(report.situation.samples.name), report.situation.workers,
             options.request.link, options.compute, options.steps);
  fmt::print("{:<22} {:>14} {:>14} {:>20}\n", "recipe", "foreseen ms", "measured ms",
             "foreseen / measured");
  for (const Row& row : rows)
    fmt::print("{:<22} {:>14.1f} {:>14.1f} {:>20.2f}\n", row.forecast.recipe.name,
               row.forecast.step_seconds * 1e3, row.measured * 1e3,
               row.forecast.step_seconds / row.measured);
}

const RegisterCommand command{{
    .name = "bench plan",
    .summary = "Compares step times that the planner foresees with steps over a link that waits.",
    .examples = {"laconic bench plan",
                 "laconic bench plan --model resnet20 --workers 2 --link 10mbit,5ms --compute 0.3"},
    .attach =
        [](CLI::App& app) {
          const auto o = std::make_shared<Options>();
          PlanRequest& r = o->request;
          r.model = "lenet5";
          r.workers = 4;
          r.recipes = {"dense",   "bf16",   "natural", "natural-sharded", "grid", "topk-natural",
                       "randomk", "spardl", "stc",     "powersgd"};
          app.add_option("--model", r.model, "As of laconic plan")->capture_default_str();
          app.add_option("--workers", r.workers, "Threads, 2 to 64")->capture_default_str();
          app.add_option("--link", r.link, "rate,latency")->capture_default_str();
          app.add_option("--compute", o->compute, "Seconds of computing in a step")
              ->capture_default_str();
          app.add_option("--recipes", r.recipes, "Built-in or FILE.json")
              ->delimiter(',')
              ->default_str(join(r.recipes, ","));
          app.add_option("--steps", o->steps, "Steps of each recipe")->capture_default_str();
          app.add_flag("--json", o->json, "Print JSON");
          return [o](const Globals&) { bench(*o); };
        },
}};

}  // namespace
}  // namespace laconic::cli

// laconic bench overlap: how much of the communication hides behind a backward pass.
//
// Ranks are threads. The backward pass is a clock: part i of the gradient is there after i + 1 of
// its equal shares. The link is modelled, and really as slow as the backward pass is long: its
// bandwidth is chosen so that the messages of a step whose parts are all there take just so long.
// Nothing can end before the backward pass and the last part's messages: that is 1 + 1 / parts of
// the backward pass.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <barrier>
#include <limits>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/bench_method.h"
#include "cli/command.h"
#include "cli/gradient.h"
#include "cli/text.h"
#include "laconic/base/errors.h"
#include "laconic/transports/modelled.h"
#include "laconic/transports/threads.h"

namespace laconic::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct Options : BenchOptions {
  std::size_t parts = 16;
  double backward = 0.8;  // seconds
};

const std::vector<std::string> kMethods = {
    "dense identity none",       "gather natural none",       "sharded natural none",
    "gather topk:0.01 feedback", "sharded topk:0.1 feedback", "summed randomk:0.1 none",
    "sparse topk:0.01 feedback", "server natural none",       "powersgd identity none"};

struct Row {
  BenchMethod method;
  double bits_per_second = 0;
  double alone = std::numeric_limits<double>::infinity();     // all parts at once
  double together = std::numeric_limits<double>::infinity();  // as backward finishes them
  double exposed = std::numeric_limits<double>::infinity();   // of that, what finish waited for
};

// One step per round; returns the seconds that the slowest rank took for the last of them.
struct Times {
  double model = 0, real = 0, exposed = 0;
};

class Steps {
 public:
  Steps(const Options& options, const Row& row, const std::vector<float>& fresh, const Link& link)
      : options_(options), row_(row), fresh_(fresh), link_(link), all_(options.ranks) {}

  // Warms up once, then times one step whose backward pass takes so many seconds.
  Times run(double backward) {
    std::vector<std::unique_ptr<Transport>> ends;
    for (auto& end : make_thread_transports(options_.ranks))
      ends.push_back(std::make_unique<ModelledTransport>(std::move(end), link_));
    std::vector<Times> times(ends.size());
    on_ranks(std::move(ends), [&](std::size_t rank, Transport& transport) {
      times[rank] = of_rank(static_cast<ModelledTransport&>(transport), backward);
    });
    Times most;
    for (const Times& one : times)
      most = {std::max(most.model, one.model), std::max(most.real, one.real),
              std::max(most.exposed, one.exposed)};
    return most;
  }

 private:
  Times of_rank(ModelledTransport& transport, double backward) {
    const Model model = equal_parts(fresh_.size(), options_.parts);
    const auto aggregator = make_aggregator(
        row_.method.exchange, {.transport = transport,
                               .model = model,
                               .plan = make_plan(model, "tensor", parse_operator(row_.method.op)),
                               .memory = row_.method.memory,
                               .engine = Engine::thread,
                               .unit_bytes = 1});
    std::vector<float> gradient(fresh_.size());
    step(*aggregator, model, gradient, 0, 0);
    all_.arrive_and_wait();
    const double clock = transport.seconds();
    const auto began = Clock::now();
    const StepStats stats = step(*aggregator, model, gradient, 1, backward);
    const std::chrono::duration<double> real = Clock::now() - began;
    const Times times{transport.seconds() - clock, real.count(), stats.exposed_seconds};
    all_.arrive_and_wait();
    return times;
  }

  // The last tensor comes first, as in a backward pass.
  StepStats step(Aggregator& aggregator, const Model& model, std::vector<float>& gradient,
                 std::uint64_t number, double backward) {
    gradient = fresh_;
    aggregator.begin({.step = number, .lr = 0.1F});
    const auto began = Clock::now();
    std::size_t end = gradient.size();
    for (std::size_t i = 0; i < model.size(); ++i) {
      const std::size_t tensor = model.size() - 1 - i;
      end -= model[tensor].count();
      const double share = static_cast<double>(i + 1) / static_cast<double>(model.size());
      std::this_thread::sleep_until(began + std::chrono::duration_cast<Clock::duration>(
                                                std::chrono::duration<double>(backward * share)));
      void* data = gradient.data() + end;
      aggregator.submit({.tensors = {&tensor, 1}, .data = {&data, 1}});
    }
    const StepStats stats = aggregator.finish();
    aggregator.commit();
    return stats;
  }

  const Options& options_;
  const Row& row_;
  const std::vector<float>& fresh_;
  Link link_;
  std::barrier<> all_;
};

void time_row(Row& row, const Options& options, const std::vector<float>& fresh) {
  if (row.bits_per_second == 0) {
    constexpr double kFast = 1e12;
    const double guess = Steps(options, row, fresh, {.bits_per_second = kFast}).run(0).model;
    row.bits_per_second = kFast * guess / options.backward;
    const Link link{.bits_per_second = row.bits_per_second, .sleep = true};
    row.bits_per_second *= Steps(options, row, fresh, link).run(0).real / options.backward;
  }
  const Link link{.bits_per_second = row.bits_per_second, .sleep = true};
  row.alone = std::min(row.alone, Steps(options, row, fresh, link).run(0).real);
  const Times together = Steps(options, row, fresh, link).run(options.backward);
  row.together = std::min(row.together, together.real);
  row.exposed = std::min(row.exposed, together.exposed);
}

void bench(const Options& options, const Globals& globals) {
  options.check();
  if (options.parts == 0 || options.parts > options.count)
    throw UsageError("--parts must be 1 up to --count");
  if (!(options.backward > 0 && options.backward <= 60))
    throw UsageError("--backward must be above 0 and at most 60 seconds");
  std::vector<Row> rows;
  for (BenchMethod& method : options.methods_or(kMethods)) rows.push_back({std::move(method)});
  Pool pool(globals.threads);
  const std::vector<float> fresh = made_up_gradient(options.count, pool);
  for (unsigned round = 0; round < options.repeats; ++round)
    for (Row& row : rows) {
      show_progress(fmt::format("round {} of {}: {}", round + 1, options.repeats, row.method.text));
      time_row(row, options, fresh);
    }
  show_progress("");
  const double least = 1 + 1 / static_cast<double>(options.parts);
  Json json = {{"count", options.count},     {"ranks", options.ranks},
               {"parts", options.parts},     {"backward_seconds", options.backward},
               {"repeats", options.repeats}, {"least", least}};
  for (const Row& row : rows)
    json["methods"].push_back({{"method", row.method.text},
                               {"bits_per_second", row.bits_per_second},
                               {"alone_seconds", row.alone},
                               {"together_seconds", row.together},
                               {"exposed_seconds", row.exposed},
                               {"together_over_backward", row.together / options.backward}});
  if (options.json) return print_json(json);
  fmt::print(
      "{} entries in {} parts on {} ranks, best of {}; a backward pass of {:.3f} s over a link on "
      "which\nthe messages of a step take as long\n\n",
      with_commas(options.count), options.parts, options.ranks, options.repeats, options.backward);
  fmt::print("{:<32} {:>10} {:>12} {:>12} {:>12} {:>16}\n", "method", "Mbit/s", "at once s",
             "overlapped s", "exposed s", "of the backward");
  for (const Row& row : rows)
    fmt::print("{:<32} {:>10.3f} {:>12.3f} {:>12.3f} {:>12.3f} {:>16.3f}\n", row.method.text,
               row.bits_per_second * 1e-6, row.alone, row.together, row.exposed,
               row.together / options.backward);
  fmt::print(
      "\nat once: all parts without a backward pass; {:.4f} of the backward pass is the "
      "least possible\n",
      least);
}

const RegisterCommand command{{
    .name = "bench overlap",
    .summary = "Times steps whose parts travel while a backward pass goes on.",
    .examples = {"laconic bench overlap",
                 "laconic bench overlap --method 'sharded topk:0.01 feedback' --parts 32",
                 "laconic bench overlap --backward 0.2 --json"},
    .attach =
        [](CLI::App& app) {
          const auto options =
              std::make_shared<Options>(Options{{.count = 1'638'400, .repeats = 3}});
          options->attach(app);
          app.add_option("--parts", options->parts, "Equal parts it comes in")
              ->capture_default_str();
          app.add_option("--backward", options->backward, "Seconds of a backward pass")
              ->capture_default_str();
          return [options](const Globals& globals) { bench(*options, globals); };
        },
}};

}  // namespace
}  // namespace laconic::cli

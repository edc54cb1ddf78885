// laconic bench step: what a whole step costs without a network: memory, operator, frame, opening
// and adding of all ranks' frames, as multiples of what copying the gradient takes.
//
// Ranks are threads of this process. What counts is the processor time of all of them together,
// divided by their number, so it does not matter how many cores there are. A round times one memcpy
// and one step of every method, so that a slow spell of the machine meets all of them; the best of
// all rounds counts.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <barrier>
#include <cstring>
#include <ctime>
#include <limits>
#include <nlohmann/json.hpp>

#include "cli/bench_method.h"
#include "cli/command.h"
#include "cli/gradient.h"
#include "cli/text.h"
#include "laconic/base/errors.h"
#include "laconic/kernels/cpu.h"
#include "laconic/transports/threads.h"

namespace laconic::cli {
namespace {

const std::vector<std::string> kMethods = {"dense identity none",
                                           "gather natural none",
                                           "sharded natural none",
                                           "gather topk:0.01 feedback",
                                           "gather sbc:0.01 feedback",
                                           "gather stc:0.01 feedback",
                                           "sharded topk:0.01 feedback",
                                           "gather bucket+qsgd:4,max none",
                                           "gather natural:nearest+entropy feedback",
                                           "powersgd identity none"};

struct Row {
  BenchMethod method;
  double seconds = std::numeric_limits<double>::infinity();
  std::uint64_t wire_bytes = 0;
};

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Whoever ends, also by an error, keeps nobody waiting.
struct Leaves {
  std::barrier<>& all;
  ~Leaves() { all.arrive_and_drop(); }
};

constexpr std::uint64_t kSteps = 12;

// Steps of one method on all ranks, with another gradient on every rank and in every step; the
// first half is not timed: memory is taken then, and residuals come to their size.
void time_method(Row& row, const BenchOptions& options, const std::vector<float>& fresh,
                 unsigned threads) {
  const Model model = equal_parts(fresh.size(), fresh.size() >= 16 ? 4 : 1);
  std::barrier all(options.ranks);
  double began = 0;
  on_ranks(make_thread_transports(options.ranks), [&](std::size_t rank, Transport& transport) {
    const Leaves leaves{all};
    const auto aggregator = make_aggregator(
        row.method.exchange, {.transport = transport,
                              .model = model,
                              .plan = make_plan(model, "tensor", parse_operator(row.method.op)),
                              .memory = row.method.memory,
                              .threads = threads});
    std::vector<float> gradient(fresh.size());
    for (std::uint64_t step = 0; step < kSteps; ++step) {
      const std::size_t turn = (rank * kSteps + step) * 1009 % fresh.size();
      std::ranges::rotate_copy(fresh, fresh.begin() + static_cast<std::ptrdiff_t>(turn),
                               gradient.begin());
      all.arrive_and_wait();
      if (rank == 0) began = processor_seconds();
      all.arrive_and_wait();
      const StepStats stats = aggregator->average(gradient, {.step = step, .lr = 0.1F});
      all.arrive_and_wait();
      if (rank > 0 || step < kSteps / 2) continue;
      row.wire_bytes = stats.wire_bytes;
      row.seconds = std::min(row.seconds, (processor_seconds() - began) / options.ranks);
    }
  });
}

double time_memcpy(const std::vector<float>& x, std::vector<float>& y) {
  const double began = processor_seconds();
  std::memcpy(y.data(), x.data(), x.size() * sizeof(float));
  asm volatile("" : : "r"(y.data()) : "memory");
  return processor_seconds() - began;
}

void bench(const BenchOptions& options, const Globals& globals) {
  options.check();
  std::vector<Row> rows;
  for (BenchMethod& method : options.methods_or(kMethods)) rows.push_back({std::move(method)});
  Pool pool(globals.threads);
  const std::vector<float> x = made_up_gradient(options.count, pool);
  std::vector<float> y(x.size());
  time_memcpy(x, y);
  double copy = std::numeric_limits<double>::infinity();
  for (unsigned round = 0; round < options.repeats; ++round)
    for (Row& row : rows) {
      show_progress(fmt::format("round {} of {}: {}", round + 1, options.repeats, row.method.text));
      copy = std::min(copy, time_memcpy(x, y));
      time_method(row, options, x, globals.threads);
    }
  show_progress("");
  Json json = {{"count", options.count},     {"ranks", options.ranks},
               {"cpu", cpu_in_use()},        {"threads", globals.threads},
               {"repeats", options.repeats}, {"memcpy_seconds", copy}};
  for (const Row& row : rows)
    json["methods"].push_back({{"method", row.method.text},
                               {"wire_bytes", row.wire_bytes},
                               {"step_seconds", row.seconds},
                               {"step_over_memcpy", row.seconds / copy}});
  if (options.json) return print_json(json);
  fmt::print("{} entries on {} ranks, cpu {}, best of {}; memcpy {:.3f} ms\n\n",
             with_commas(options.count), options.ranks, cpu_in_use(), options.repeats, copy * 1e3);
  fmt::print("{:<44} {:>12} {:>16} {:>14}\n", "method", "wire bytes", "step / memcpy",
             "ms per rank");
  for (const Row& row : rows)
    fmt::print("{:<44} {:>12} {:>16.2f} {:>14.1f}\n", row.method.text, with_commas(row.wire_bytes),
               row.seconds / copy, row.seconds * 1e3);
}

const RegisterCommand command{{
    .name = "bench step",
    .summary = "Times whole steps without a network against memcpy of the gradient.",
    .examples = {"laconic bench step",
                 "laconic bench step --method 'gather topk:0.01 feedback' --count 1000000",
                 "laconic bench step --ranks 8 --json"},
    .attach =
        [](CLI::App& app) {
          const auto options =
              std::make_shared<BenchOptions>(BenchOptions{.count = 25'000'000, .repeats = 5});
          options->attach(app);
          return [options](const Globals& globals) { bench(*options, globals); };
        },
}};

}  // namespace
}  // namespace laconic::cli

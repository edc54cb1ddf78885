// laconic bench operators: the speed of encoding and adding, as multiples of what copying the array
// takes; over several sizes; and beside what was recorded before. The best of all rounds counts,
// and how far the middle one is from it is told too.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/array.h"
#include "cli/bench_recorded.h"
#include "cli/command.h"
#include "cli/gradient.h"
#include "laconic/kernels/cpu.h"

namespace laconic::cli {
namespace {

struct Options : SpeedOptions {
  std::vector<std::size_t> counts;  // none: `count`
  std::string record, against;      // files
  bool json = false;
};

Json heading_of(const Options& options, unsigned threads) {
  return {{"cpu", cpu_in_use()},
          {"threads", threads},
          {"repeats", options.repeats},
          {"input", options.input}};
}

void print_heading(const Options& options, unsigned threads) {
  fmt::print("cpu {}, {} thread{}, {} entries, best of {}\n", cpu_in_use(), threads,
             threads == 1 ? "" : "s", options.input, options.repeats);
}

// With as many decimals as there is room for: on a busy machine anything may take long.
std::string fitted(double value, int decimals, std::size_t width) {
  std::string text = fmt::format("{:.{}f}", value, decimals);
  while (text.size() > width && decimals > 0) text = fmt::format("{:.{}f}", value, --decimals);
  return text;
}

// A time in memcpys, and how far the middle round was above it.
std::string in_copies(const Times& times, double copy) {
  return fmt::format("{} +{:.0f}%", fitted(times.best() / copy, 2, 5),
                     std::min(999.0, 100 * times.spread()));
}

void print_table(const Speeds& speeds) {
  const double copy = speeds.copy.best(), nano = 1e9 / static_cast<double>(speeds.count);
  fmt::print(
      "{} entries; by one thread memcpy {:.3f} ms +{:.0f}%, {:.3f} ns per entry; reading {:.2f} of "
      "it,\nmixing two arrays into a third {:.2f}\n\n",
      with_commas(speeds.count), copy * 1e3, 100 * speeds.copy.spread(), copy * nano,
      speeds.read.best() / copy, speeds.mix.best() / copy);
  fmt::print("{:<24} {:>6} | {:>11} {:>6} {:>5} {:>8} | {:>11} {:>5} {:>5} {:>5}\n", "operator",
             "bits", "encode", "ns", "floor", "feedback", "add", "ns", "touch", "four");
  for (const Speed& row : speeds.rows)
    fmt::print("{:<24} {:>6} | {:>11} {:>6} {:>4.0f}% {:>8} | {:>11} {:>5} {:>5} {:>5}\n",
               shortened(row.op.spec(), 24), fitted(bits_per_entry(row.bytes, speeds.count), 3, 6),
               in_copies(row.encode, copy), fitted(row.encode.best() * nano, 3, 6),
               100 * speeds.read.best() / row.encode.best(),
               fitted(row.feedback.best() / copy, 2, 8), in_copies(row.add, copy),
               fitted(row.add.best() * nano, 2, 5),
               row.touch.any() ? fitted(row.touch.best() / copy, 2, 5) : "",
               fitted(row.four.best() / copy, 2, 5));
  fmt::print(
      "\nbits and ns per entry; the rest in memcpys of the array, the best round, and how far "
      "above "
      "it\n"
      "the middle one was. floor: what a pass that only reads takes of it. feedback: encoding two "
      "arrays\n"
      "that are mixed, and writing what is left; touch: a number added to each entry that was "
      "sent; "
      "four:\n"
      "four sections are opened and added block by block\n");
}

std::string short_count(std::size_t count) {
  if (count % 1'000'000 == 0) return fmt::format("{} M", count / 1'000'000);
  if (count % 1000 == 0) return fmt::format("{} k", count / 1000);
  return std::to_string(count);
}

void print_curve(const std::vector<Speeds>& curve) {
  fmt::print("\nns per entry, encode / add\n\n{:<28}", "operator");
  for (const Speeds& speeds : curve) fmt::print(" {:>11}", short_count(speeds.count));
  const auto line = [&](const std::string& name, auto text) {
    fmt::print("\n{:<28}", shortened(name, 28));
    for (const Speeds& speeds : curve)
      fmt::print(" {:>11}", text(speeds, 1e9 / static_cast<double>(speeds.count)));
  };
  line("memcpy", [](const Speeds& speeds, double nano) {
    return fmt::format("{:.2f}", speeds.copy.best() * nano);
  });
  for (std::size_t i = 0; i < curve[0].rows.size(); ++i)
    line(curve[0].rows[i].op.spec(), [i](const Speeds& speeds, double nano) {
      return fmt::format("{:.2f}/{:.2f}", speeds.rows[i].encode.best() * nano,
                         speeds.rows[i].add.best() * nano);
    });
  fmt::print("\n");
}

void check(const Options& options) {
  const auto& counts = options.counts;
  if (options.count == 0 || options.repeats == 0)
    throw UsageError("--count and --repeats must be at least 1");
  if (std::ranges::find(counts, 0U) != counts.end() || counts.size() > 6)
    throw UsageError("--counts takes up to 6 numbers, each at least 1");
  if (!counts.empty() && !(options.record.empty() && options.against.empty()))
    throw UsageError("--record and --against take one count, not --counts");
}

void bench(const Options& options, const Globals& globals) {
  check(options);
  Scratch scratch(globals.threads);
  if (!options.record.empty()) return record_speeds(options.record, options, scratch);
  if (!options.against.empty()) return compare_speeds(options.against, options, scratch);
  std::vector<Speeds> curve;
  SpeedOptions one = options;
  for (const std::size_t count :
       options.counts.empty() ? std::vector{options.count} : options.counts) {
    one.count = count;
    curve.push_back(measure_speeds(one, scratch));
  }
  if (options.json) {
    Json json = heading_of(options, globals.threads);
    if (options.counts.empty()) json.update(to_json(curve[0]));
    for (std::size_t i = 0; i < options.counts.size(); ++i)
      json["curve"].push_back(to_json(curve[i]));
    return print_json(json);
  }
  print_heading(options, globals.threads);
  options.counts.empty() ? print_table(curve[0]) : print_curve(curve);
}

const RegisterCommand heading{{.name = "bench", .summary = "Measures speed on this machine."}};

const RegisterCommand command{{
    .name = "bench operators",
    .summary = "Times encoding and adding with each operator against memcpy of the same array.",
    .examples = {"laconic bench operators",
                 "laconic bench operators --op natural --op half --count 1000000",
                 "laconic bench operators --op topk:0.01 --counts 1000,100000,10000000",
                 "laconic bench operators --op grid --input sorted --threads 2 --json"},
    .attach =
        [](CLI::App& app) {
          const auto options = std::make_shared<Options>();
          app.add_option("--op", options->specs,
                         "Operator to time; may be given several times; every example of every "
                         "registered stage otherwise")
              ->type_name("SPEC")
              ->allow_extra_args(false);
          app.add_option("--count", options->count, "Entries of the array")->capture_default_str();
          app.add_option("--counts", options->counts, "Several counts: a curve")->delimiter(',');
          app.add_option("--input", options->input, "What the entries are")
              ->check(CLI::IsMember(input_names()))
              ->capture_default_str();
          app.add_option("--repeats", options->repeats, "Rounds, of which the best counts")
              ->capture_default_str();
          app.add_option("--record", options->record, "Write the ratios to memcpy to a file")
              ->type_name("FILE");
          app.add_option("--against", options->against,
                         "Fail where a ratio is more than twice that in a file")
              ->type_name("FILE");
          app.add_flag("--json", options->json, "Print JSON");
          return [options](const Globals& globals) { bench(*options, globals); };
        },
}};

}  // namespace
}  // namespace laconic::cli

// laconic bench operators: the speed of encoding and adding, as multiples of what copying the array
// takes: of one plain array; with feedback, which reads two arrays and writes what is left; of one
// section that is added; and of four that are opened and added block by block, as a step does.
//
// A round times every operator once, and beside each one a memcpy and a pass that only reads the
// array, so that a slow spell of the machine meets all of them; the best of all rounds counts, and
// how far the middle one is from it is told too. One untimed round first touches every page.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <nlohmann/json.hpp>

#include "cli/array.h"
#include "cli/command.h"
#include "cli/gradient.h"
#include "cli/text.h"
#include "laconic/base/errors.h"
#include "laconic/kernels/cpu.h"
#include "laconic/kernels/reduce.h"

namespace laconic::cli {
namespace {

struct Options {
  std::vector<std::string> specs;
  std::size_t count = 25'000'000;
  unsigned repeats = 9;
  bool json = false;
};

// What one thing took in every round.
class Times {
 public:
  void note(double seconds) { all_.insert(std::ranges::upper_bound(all_, seconds), seconds); }
  double best() const { return all_.front(); }
  // The middle one, as a share above the best.
  double spread() const { return all_[all_.size() / 2] / best() - 1; }

 private:
  std::vector<double> all_;  // ascending
};

struct Row {
  Operator op;
  std::size_t bytes = 0;
  Times encode = {}, feedback = {}, add = {}, four = {};
  Hint hint = {};
};

struct Result {
  std::vector<Row> rows;
  Times copy = {}, read = {};
};

template <class Work>
double seconds(Work work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Tells the compiler that somebody reads what `data` points to.
void keep(const void* data) { asm volatile("" : : "r"(data) : "memory"); }

constexpr std::size_t kRanks = 4;

// The arrays all rounds share.
struct Arrays {
  explicit Arrays(std::vector<float> made_up)
      : x(std::move(made_up)), y(x.size()), kept(x.size(), 0.001F), left(x.size()) {}

  std::vector<float> x, y, kept, left;
  std::array<Buffer, kRanks> sections;
  std::array<Decoder, kRanks> decoders;
};

double time_encode(const Row& row, const Source& source, Buffer& section, Scratch& scratch) {
  section.clear();
  return seconds([&] {
    if (!row.op.encode(source, section, make_keys(0, 0, 0), scratch).finite)
      throw DataError("the made-up array is not finite");
    keep(section.data());
  });
}

double time_four(const Row& row, Arrays& arrays, Scratch& scratch) {
  const Keys keys = make_keys(0, 0, 0);
  const std::size_t size = arrays.y.size(), blocks = (size + kBlock - 1) / kBlock;
  for (std::size_t rank = 1; rank < kRanks; ++rank) {
    arrays.sections[rank].clear();
    arrays.sections[rank].append(arrays.sections[0].view());
  }
  const Decoder* all[kRanks];
  std::ranges::transform(arrays.decoders, all, [](const Decoder& decoder) { return &decoder; });
  return seconds([&] {
    for (std::size_t rank = 0; rank < kRanks; ++rank)
      row.op.open(arrays.sections[rank].view(), size, keys, scratch, arrays.decoders[rank]);
    scratch.pool.each(blocks, [&](std::size_t block, unsigned) {
      const std::size_t from = block * kBlock, to = std::min(size, from + kBlock);
      sum_of(all, from, to, 0.25F, arrays.y.data() + from);
    });
    keep(arrays.y.data());
  });
}

void time_row(Row& row, Arrays& arrays, Scratch& scratch) {
  Buffer& section = arrays.sections[0];
  const Source feedback{.fresh = std::span(arrays.x),
                        .kept = std::span(arrays.kept),
                        .left = std::span(arrays.left),
                        .hint = &row.hint};
  row.feedback.note(time_encode(row, feedback, section, scratch));
  row.encode.note(time_encode(row, {.fresh = std::span(arrays.x)}, section, scratch));
  row.add.note(seconds([&] {
    row.op.add(section.view(), 1, arrays.y, make_keys(0, 0, 0), scratch);
    keep(arrays.y.data());
  }));
  row.four.note(time_four(row, arrays, scratch));
  row.bytes = section.size();
}

void time_memory(Result& result, Arrays& arrays) {
  result.copy.note(seconds([&] {
    std::memcpy(arrays.y.data(), arrays.x.data(), arrays.x.size() * sizeof(float));
    keep(arrays.y.data());
  }));
  std::uint32_t largest = 0;
  result.read.note(seconds([&] {
    largest = kernels::largest_magnitude(arrays.x);
    keep(&largest);
  }));
}

void time_round(Result& result, Arrays& arrays, Scratch& scratch) {
  for (Row& row : result.rows) {
    time_memory(result, arrays);
    time_row(row, arrays, scratch);
  }
}

Result measure(const Options& options, Scratch& scratch) {
  Result none;
  for (const auto& spec : options.specs.empty() ? first_specs() : options.specs)
    none.rows.push_back({parse_operator(spec)});
  Arrays arrays(made_up_gradient(options.count, scratch.pool));
  for (const Row& row : none.rows) arrays.sections[0].reserve(row.op.max_size(options.count));

  Result warm_up = none, result = none;
  time_round(warm_up, arrays, scratch);
  for (unsigned round = 0; round < options.repeats; ++round) {
    show_progress(fmt::format("round {} of {}", round + 1, options.repeats));
    time_round(result, arrays, scratch);
  }
  show_progress("");
  return result;
}

Json to_json(const Row& row, const Options& options, double memcpy_seconds) {
  Json json = {{"spec", row.op.spec()},
               {"bits_per_entry", bits_per_entry(row.bytes, options.count)}};
  const auto put = [&](const std::string& name, const Times& times) {
    json[name + "_seconds"] = times.best();
    json[name + "_spread"] = times.spread();
    json[name + "_over_memcpy"] = times.best() / memcpy_seconds;
  };
  put("encode", row.encode);
  put("feedback", row.feedback);
  put("add", row.add);
  put("four", row.four);
  return json;
}

Json to_json(const Result& result, const Options& options, unsigned threads) {
  Json json = {{"count", options.count},
               {"cpu", cpu_in_use()},
               {"threads", threads},
               {"repeats", options.repeats},
               {"memcpy_seconds", result.copy.best()},
               {"memcpy_spread", result.copy.spread()},
               {"read_seconds", result.read.best()},
               {"read_spread", result.read.spread()}};
  json["operators"] = Json::array();
  for (const Row& row : result.rows)
    json["operators"].push_back(to_json(row, options, result.copy.best()));
  return json;
}

// A time in memcpys, and how far the middle round was above it.
std::string in_copies(const Times& times, double copy) {
  return fmt::format("{:.2f} +{:.0f}%", times.best() / copy, 100 * times.spread());
}

void print_table(const Result& result, const Options& options, unsigned threads) {
  const double copy = result.copy.best(), nano = 1e9 / static_cast<double>(options.count);
  fmt::print("{} entries, cpu {}, {} thread{}, best of {}\n", with_commas(options.count),
             cpu_in_use(), threads, threads == 1 ? "" : "s", options.repeats);
  fmt::print(
      "by one thread: memcpy {:.3f} ms +{:.0f}%, {:.3f} ns per entry; reading {:.2f} of it\n\n",
      copy * 1e3, 100 * result.copy.spread(), copy * nano, result.read.best() / copy);
  fmt::print("{:<26} {:>6} | {:>11} {:>6} {:>8} | {:>11} {:>6} {:>6}\n", "operator", "bits",
             "encode", "ns", "feedback", "add", "ns", "four");
  for (const Row& row : result.rows)
    fmt::print("{:<26} {:>6.3f} | {:>11} {:>6.3f} {:>8.2f} | {:>11} {:>6.3f} {:>6.2f}\n",
               row.op.spec(), bits_per_entry(row.bytes, options.count), in_copies(row.encode, copy),
               row.encode.best() * nano, row.feedback.best() / copy, in_copies(row.add, copy),
               row.add.best() * nano, row.four.best() / copy);
  fmt::print(
      "\nbits and ns per entry; the rest in memcpys of the array, the best round, and how far "
      "above it\n"
      "the middle one was. feedback: encoding two arrays that are mixed, and writing what is "
      "left;\n"
      "four: four frames are opened and added block by block\n");
}

void bench(const Options& options, const Globals& globals) {
  if (options.count == 0 || options.repeats == 0)
    throw UsageError("--count and --repeats must be at least 1");
  Scratch scratch(globals.threads);
  const Result result = measure(options, scratch);
  if (options.json) {
    print_json(to_json(result, options, globals.threads));
  } else {
    print_table(result, options, globals.threads);
  }
}

const RegisterCommand heading{{.name = "bench", .summary = "Measures speed on this machine."}};

const RegisterCommand command{{
    .name = "bench operators",
    .summary = "Times encoding and adding with each operator against memcpy of the same array.",
    .examples = {"laconic bench operators",
                 "laconic bench operators --op natural --op half --count 1000000",
                 "laconic bench operators --threads 2 --json"},
    .attach =
        [](CLI::App& app) {
          const auto options = std::make_shared<Options>();
          app.add_option("--op", options->specs, "Operator to time; may be given several times")
              ->type_name("SPEC")
              ->allow_extra_args(false);
          app.add_option("--count", options->count, "Entries of the array")->capture_default_str();
          app.add_option("--repeats", options->repeats, "Rounds, of which the best counts")
              ->capture_default_str();
          app.add_flag("--json", options->json, "Print JSON");
          return [options](const Globals& globals) { bench(*options, globals); };
        },
}};

}  // namespace
}  // namespace laconic::cli

// laconic bench operators: the speed of encode and add, as multiples of what copying the array
// takes.
//
// A round times one memcpy and then every operator, so that a slow spell of the machine meets all
// of them; the best of all rounds counts. One untimed round first touches every page.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "cli/array.h"
#include "cli/command.h"
#include "cli/gradient.h"
#include "cli/text.h"
#include "laconic/base/errors.h"
#include "laconic/kernels/cpu.h"

namespace laconic::cli {
namespace {

struct Options {
  std::vector<std::string> specs;
  std::size_t count = 25'000'000;
  unsigned repeats = 9;
  bool json = false;
};

struct Row {
  Operator op;
  std::size_t bytes = 0;
  double encode_seconds = std::numeric_limits<double>::infinity();
  double add_seconds = encode_seconds;
};

struct Result {
  std::vector<Row> rows;
  double memcpy_seconds = std::numeric_limits<double>::infinity();
};

template <class Work>
double seconds(Work work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Tells the compiler that somebody reads what `data` points to.
void keep(const void* data) { asm volatile("" : : "r"(data) : "memory"); }

// The arrays all rounds share.
struct Arrays {
  std::vector<float> x, y;
  Buffer section;
};

void time_row(Row& row, Arrays& arrays, Scratch& scratch) {
  const Keys keys = make_keys(0, 0, 0);
  arrays.section.clear();
  const double encode = seconds([&] {
    if (!row.op.encode(arrays.x, arrays.section, keys, scratch))
      throw DataError("the made-up array is not finite");
    keep(arrays.section.data());
  });
  const double add = seconds([&] {
    row.op.add(arrays.section.view(), 1, arrays.y, keys, scratch);
    keep(arrays.y.data());
  });
  row.bytes = arrays.section.size();
  row.encode_seconds = std::min(row.encode_seconds, encode);
  row.add_seconds = std::min(row.add_seconds, add);
}

void time_round(Result& result, Arrays& arrays, Scratch& scratch) {
  const double copy = seconds([&] {
    std::memcpy(arrays.y.data(), arrays.x.data(), arrays.x.size() * sizeof(float));
    keep(arrays.y.data());
  });
  result.memcpy_seconds = std::min(result.memcpy_seconds, copy);
  for (Row& row : result.rows) time_row(row, arrays, scratch);
}

Result measure(const Options& options, Scratch& scratch) {
  Result none;
  for (const auto& spec : options.specs.empty() ? first_specs() : options.specs)
    none.rows.push_back({parse_operator(spec)});
  Arrays arrays{
      made_up_gradient(options.count, scratch.pool), std::vector<float>(options.count), {}};
  for (const Row& row : none.rows) arrays.section.reserve(row.op.max_size(options.count));

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
  return {{"spec", row.op.spec()},
          {"bits_per_entry", bits_per_entry(row.bytes, options.count)},
          {"encode_seconds", row.encode_seconds},
          {"add_seconds", row.add_seconds},
          {"encode_over_memcpy", row.encode_seconds / memcpy_seconds},
          {"add_over_memcpy", row.add_seconds / memcpy_seconds}};
}

Json to_json(const Result& result, const Options& options, unsigned threads) {
  Json json = {{"count", options.count},
               {"cpu", cpu_in_use()},
               {"threads", threads},
               {"repeats", options.repeats},
               {"memcpy_seconds", result.memcpy_seconds}};
  json["operators"] = Json::array();
  for (const Row& row : result.rows)
    json["operators"].push_back(to_json(row, options, result.memcpy_seconds));
  return json;
}

void print_table(const Result& result, const Options& options, unsigned threads) {
  const double giga = static_cast<double>(options.count) * 1e-9;
  fmt::print(
      "{} entries, cpu {}, {} thread{}, best of {}; memcpy by one thread: {:.3f} ms, {:.2f} "
      "Gelem/s\n\n",
      with_commas(options.count), cpu_in_use(), threads, threads == 1 ? "" : "s", options.repeats,
      result.memcpy_seconds * 1e3, giga / result.memcpy_seconds);
  fmt::print("{:<28} {:>10}   {:>15} {:>8}   {:>12} {:>8}\n", "operator", "bits/entry",
             "encode / memcpy", "Gelem/s", "add / memcpy", "Gelem/s");
  for (const Row& row : result.rows)
    fmt::print("{:<28} {:>10.3f}   {:>15.2f} {:>8.3f}   {:>12.2f} {:>8.3f}\n", row.op.spec(),
               bits_per_entry(row.bytes, options.count), row.encode_seconds / result.memcpy_seconds,
               giga / row.encode_seconds, row.add_seconds / result.memcpy_seconds,
               giga / row.add_seconds);
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

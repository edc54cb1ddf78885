// laconic inspect: what a frame says of itself, after every section was checked.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/array.h"
#include "cli/command.h"

namespace laconic::cli {
namespace {

struct Options {
  std::string in;
  FrameLimits limits;
  bool json = false;
};

Json to_json(const Frame& frame, const Section& section) {
  return {{"name", section.name},
          {"first", section.first},
          {"count", section.count},
          {"spec", frame.operators[section.operator_index].spec()},
          {"bytes", section.bytes.size()},
          {"bits_per_entry", bits_per_entry(section.bytes.size(), section.count)},
          {"finite", section.finite}};
}

Json to_json(const Frame& frame, const Sizes& sizes) {
  Json json = cli::to_json(frame.spec(), sizes);
  json["data_version"] = kDataVersion;
  json["seed"] = frame.header.seed;
  json["step"] = frame.header.step;
  json["rank"] = frame.header.rank;
  json["dtype"] = dtype_name(frame.header.dtype);
  json["shape"] = frame.header.shape;
  json["finite"] = frame.finite();
  json["sections"] = Json::array();
  for (const Section& section : frame.sections) json["sections"].push_back(to_json(frame, section));
  return json;
}

void print_sections(const Frame& frame) {
  fmt::print("\n{:<24} {:>14} {:>14} {:>14} {:>10}  {}\n", "section", "first", "count", "bytes",
             "bits/entry", "spec");
  for (const Section& section : frame.sections)
    fmt::print(
        "{:<24} {:>14} {:>14} {:>14} {:>10.3f}  {}{}\n", printable(section.name),
        with_commas(section.first), with_commas(section.count), with_commas(section.bytes.size()),
        bits_per_entry(section.bytes.size(), section.count),
        frame.operators[section.operator_index].spec(), section.finite ? "" : " (not finite)");
}

void print_frame(const std::string& path, const Frame& frame, const Sizes& sizes) {
  const FrameHeader& header = frame.header;
  fmt::print("{}: frame of data version {}\n", printable(path), kDataVersion);
  fmt::print("  array     {} {}, {} entries{}\n", dtype_name(header.dtype),
             shape_text(header.shape), with_commas(sizes.count),
             frame.finite() ? "" : ", some of them NaN or Inf");
  fmt::print("  operator  {}\n", frame.spec());
  fmt::print("  seed {}, step {}, rank {}\n", header.seed, header.step, header.rank);
  fmt::print("  payload   {} bytes\n", with_commas(sizes.payload_bytes));
  fmt::print("  wire      {} bytes, {:.2f}x, {:.3f} bits per entry\n",
             with_commas(sizes.wire_bytes), sizes.ratio(), sizes.bits_per_entry());
  print_sections(frame);
}

void inspect(const Options& options, const Globals& globals) {
  Scratch scratch(globals.threads);
  const auto [bytes, frame] = read_frame_file(options.in, options.limits, scratch);
  const Sizes sizes = sizes_of(frame.header, frame.payload_bytes, frame.wire_bytes);
  if (options.json) {
    print_json(to_json(frame, sizes));
  } else {
    print_frame(options.in, frame, sizes);
  }
}

const RegisterCommand command{{
    .name = "inspect",
    .summary = "Checks a frame to its last byte and shows what is in it.",
    .examples = {"laconic inspect gradient.lac", "laconic inspect --json gradient.lac"},
    .attach =
        [](CLI::App& app) {
          const auto options = std::make_shared<Options>();
          app.add_option("--max-count", options->limits.max_count, "Refuse arrays of more entries")
              ->capture_default_str();
          app.add_flag("--json", options->json, "Print JSON");
          app.add_option("FILE.lac", options->in, "The frame to read")->required();
          return [options](const Globals& globals) { inspect(*options, globals); };
        },
}};

}  // namespace
}  // namespace laconic::cli

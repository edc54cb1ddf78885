// laconic inspect: what a frame says of itself, after every section was checked.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/array.h"
#include "cli/command.h"
#include "cli/sections.h"
#include "cli/traits.h"

namespace laconic::cli {
namespace {

struct Options {
  std::string in;
  FrameLimits limits;
  bool json = false;
};

const char* state_note(SectionState state) {
  if (state == SectionState::not_finite) return " (not finite)";
  return state == SectionState::rests ? " (rests)" : "";
}

// What a frame's operators wrote, section by section.
using KeptList = std::vector<std::optional<Kept>>;

KeptList kept_lists(const Frame& frame, Scratch& scratch) {
  KeptList kept;
  for (const Section& section : frame.sections) kept.push_back(kept_in(frame, section, scratch));
  return kept;
}

// Entries of the largest section that an operator wrote.
std::size_t largest_count(const Frame& frame, std::size_t operator_index) {
  std::size_t most = 0;
  for (const Section& section : frame.sections)
    if (section.operator_index == operator_index) most = std::max(most, section.count);
  return most;
}

Json to_json(const Frame& frame, const Section& section, const std::optional<Kept>& kept) {
  Json json = {{"name", section.name},
               {"first", section.first},
               {"count", section.count},
               {"spec", frame.operators[section.operator_index].spec()},
               {"bytes", section.bytes.size()},
               {"bits_per_entry", bits_per_entry(section.bytes.size(), section.count)},
               {"finite", section.finite()},
               {"rests", section.rests()}};
  json["kept"] = kept ? Json(kept->entries) : Json();
  json["codec"] = kept ? Json(kept->codec) : Json();
  return json;
}

Json operators_json(const Frame& frame) {
  Json json = Json::array();
  for (std::size_t i = 0; i < frame.operators.size(); ++i) {
    const std::size_t count = largest_count(frame, i);
    json.push_back({{"spec", frame.operators[i].spec()},
                    {"count", count},
                    {"traits", cli::to_json(frame.operators[i].traits(count))}});
  }
  return json;
}

Json to_json(const Frame& frame, const Sizes& sizes, const KeptList& kept) {
  Json json = cli::to_json(frame.spec(), sizes);
  json["data_version"] = kDataVersion;
  json["seed"] = frame.header.seed;
  json["step"] = frame.header.step;
  json["rank"] = frame.header.rank;
  json["ranks"] = frame.header.ranks;
  json["dtype"] = dtype_name(frame.header.dtype);
  json["shape"] = frame.header.shape;
  json["finite"] = frame.finite();
  json["complete"] = frame.covers_all();
  json["crc"] = frame.crc;
  json["operators"] = operators_json(frame);
  json["sections"] = Json::array();
  for (std::size_t i = 0; i < frame.sections.size(); ++i)
    json["sections"].push_back(to_json(frame, frame.sections[i], kept[i]));
  return json;
}

void print_sections(const Frame& frame, const KeptList& kept) {
  fmt::print("\n{:<16} {:>12} {:>12} {:>10} {:>12} {:>10} {:<6} {}\n", "section", "first", "count",
             "kept", "bytes", "bits/entry", "codec", "spec");
  for (std::size_t i = 0; i < frame.sections.size(); ++i) {
    const Section& section = frame.sections[i];
    fmt::print("{:<16} {:>12} {:>12} {:>10} {:>12} {:>10.3f} {:<6} {}{}\n",
               shortened(section.name, 16), with_commas(section.first), with_commas(section.count),
               kept[i] ? with_commas(kept[i]->entries) : "all", with_commas(section.bytes.size()),
               bits_per_entry(section.bytes.size(), section.count), kept[i] ? kept[i]->codec : "",
               frame.operators[section.operator_index].spec(), state_note(section.state));
  }
}

void print_operators(const Frame& frame) {
  for (std::size_t i = 0; i < frame.operators.size(); ++i) {
    const std::size_t count = largest_count(frame, i);
    fmt::print("  {}  {}: {}\n", i == 0 ? "operator" : "        ", frame.operators[i].spec(),
               describe(frame.operators[i].traits(count)));
  }
}

void print_frame(const std::string& path, const Frame& frame, const Sizes& sizes,
                 const KeptList& kept) {
  const FrameHeader& header = frame.header;
  fmt::print("{}: frame of data version {}\n", printable(path), kDataVersion);
  fmt::print("  array     {} {}, {} entries{}\n", dtype_name(header.dtype),
             shape_text(header.shape), with_commas(sizes.count),
             frame.finite() ? "" : ", some of them NaN or Inf");
  if (!frame.covers_all()) fmt::print("            a part of it: see the sections\n");
  print_operators(frame);
  fmt::print("  seed {}, step {}, rank {}{}\n", header.seed, header.step, header.rank,
             header.ranks > 0 ? fmt::format(" of {}", header.ranks) : "");
  fmt::print("  payload   {} bytes\n", with_commas(sizes.payload_bytes));
  fmt::print("  wire      {} bytes, {:.2f}x, {:.3f} bits per entry\n",
             with_commas(sizes.wire_bytes), sizes.ratio(), sizes.bits_per_entry());
  print_sections(frame, kept);
}

void inspect(const Options& options, const Globals& globals) {
  Scratch scratch(globals.threads);
  const auto [bytes, frame] = read_frame_file(options.in, options.limits, scratch);
  const Sizes sizes = sizes_of(frame.header, frame.payload_bytes, frame.wire_bytes);
  const KeptList kept = kept_lists(frame, scratch);
  if (options.json) {
    print_json(to_json(frame, sizes, kept));
  } else {
    print_frame(options.in, frame, sizes, kept);
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

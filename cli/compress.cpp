// laconic compress: an array in, a frame out.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/array.h"
#include "cli/command.h"
#include "laconic/base/file.h"

namespace laconic::cli {
namespace {

struct Options {
  std::string op, in, out;
  std::uint64_t seed = 0;
  bool json = false, quiet = false;
};

void print_line(const Options& options, const std::string& spec, const Sizes& sizes, bool finite) {
  fmt::print("{}: {} -> {} bytes, {:.2f}x, {:.3f} bits per entry, {}{}\n", printable(options.in),
             with_commas(sizes.dense_bytes), with_commas(sizes.wire_bytes), sizes.ratio(),
             sizes.bits_per_entry(), spec,
             finite ? "" : " (not applied: the array holds NaN or Inf and is stored as it is)");
}

void compress(const Options& options, const Globals& globals) {
  const Operator op = parse_operator(options.op);
  Scratch scratch(globals.threads);
  const NpyArray array = read_array(options.in);
  const FrameHeader header{
      .seed = options.seed, .dtype = frame_dtype(array.dtype), .shape = array.shape};

  Buffer bytes;
  FrameWriter frame(bytes, header, {&op, 1});
  const std::size_t cols =
      array.shape.size() < 2 ? 1 : array.values.size() / std::max<std::size_t>(1, array.shape[0]);
  const bool finite = frame.add(0, array.values, 0, header.keys(), scratch, "data", cols);
  const std::size_t payload = frame.finish();
  write_file(options.out, bytes.view());

  const Sizes sizes = sizes_of(header, payload, bytes.size());
  if (options.json) {
    print_json(to_json(op.spec(), sizes));
  } else if (!options.quiet) {
    print_line(options, op.spec(), sizes, finite);
  }
}

const RegisterCommand command{{
    .name = "compress",
    .summary = "Compresses a .npy array of floats into a frame that can be decoded alone.",
    .examples = {"laconic compress --op natural gradient.npy gradient.lac",
                 "laconic compress --op natural+entropy --seed 7 --json gradient.npy gradient.lac"},
    .attach =
        [](CLI::App& app) {
          const auto options = std::make_shared<Options>();
          app.add_option("--op", options->op, "Operator, such as natural+entropy; see laconic list")
              ->type_name("SPEC")
              ->required();
          app.add_option("--seed", options->seed, "Seed of the rounding; same seed, same bytes")
              ->capture_default_str();
          app.add_flag("--json", options->json, "Print the sizes as JSON");
          app.add_flag("--quiet", options->quiet, "Print nothing");
          app.add_option("IN.npy", options->in, "float16, float32 or float64, in C order")
              ->required();
          app.add_option("OUT.lac", options->out, "The frame to write")->required();
          return [options](const Globals& globals) { compress(*options, globals); };
        },
}};

}  // namespace
}  // namespace laconic::cli

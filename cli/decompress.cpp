// laconic decompress: a frame in, an array out.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/array.h"
#include "cli/command.h"
#include "laconic/base/errors.h"
#include "laconic/base/file.h"

namespace laconic::cli {
namespace {

struct Options {
  std::string in, out;
  FrameLimits limits;
  bool quiet = false;
};

// A section that is not finite is copied, not added: adding would turn -0 to 0 and change the bits
// of some NaN.
void decode(const Frame& frame, const Section& section, std::span<float> values, Scratch& scratch) {
  if (section.finite()) {
    add_section(frame, section, 1, values, scratch);
  } else {
    std::ranges::copy(section.bytes, reinterpret_cast<std::uint8_t*>(values.data()));
  }
}

void decompress(const Options& options, const Globals& globals) {
  Scratch scratch(globals.threads);
  const auto [bytes, frame] = read_frame_file(options.in, options.limits, scratch);
  if (!frame.covers_all())
    throw DataError(
        fmt::format("{}: the frame holds a part of an array of {} entries, not all of it",
                    options.in, frame.header.count()));

  std::vector<float> values(static_cast<std::size_t>(frame.header.count()));
  for (const Section& section : frame.sections)
    decode(frame, section, std::span(values).subspan(section.first, section.count), scratch);

  Buffer npy;
  append_npy(npy_dtype(frame.header.dtype), frame.header.shape, values, npy);
  write_file(options.out, npy.view());
  if (!options.quiet)
    fmt::print("{}: {} -> {} bytes, {} {}, {}\n", printable(options.in), with_commas(bytes.size()),
               with_commas(npy.size()), dtype_name(frame.header.dtype),
               shape_text(frame.header.shape), frame.spec());
}

const RegisterCommand command{{
    .name = "decompress",
    .summary = "Decodes a frame back into a .npy array of the dtype and shape it was made from.",
    .examples = {"laconic decompress gradient.lac gradient.npy",
                 "laconic decompress --max-count 1000000 untrusted.lac small.npy"},
    .attach =
        [](CLI::App& app) {
          const auto options = std::make_shared<Options>();
          app.add_option("--max-count", options->limits.max_count, "Refuse arrays of more entries")
              ->capture_default_str();
          app.add_flag("--quiet", options->quiet, "Print nothing");
          app.add_option("IN.lac", options->in, "The frame to read")->required();
          app.add_option("OUT.npy", options->out, "The array to write")->required();
          return [options](const Globals& globals) { decompress(*options, globals); };
        },
}};

}  // namespace
}  // namespace laconic::cli

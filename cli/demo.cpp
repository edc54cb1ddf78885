// laconic demo: what the library has, and what each operator does to one array. Runs when no
// command is given and the trainer was not built.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "cli/array.h"
#include "cli/catalogue.h"
#include "cli/command.h"
#include "cli/gradient.h"
#include "cli/text.h"
#include "laconic/kernels/reduce.h"
#include "laconic/version.h"

namespace laconic::cli {
namespace {

constexpr std::size_t kCount = 1'000'000;

void print_names() {
  for (const auto& group : catalogue()) {
    std::vector<std::string> names;
    for (const auto& entry : group.entries) names.push_back(entry.name);
    fmt::print("  {:<12} {}\n", group.name, group.title);
    print_wrapped(join(names, " "), 15);
  }
}

// "<= 0.125 (omega)": the bound on the mean error that the operator states.
std::string promise(const Traits& traits) {
  if (traits.absolute > 0) return fmt::format("each entry within {:.3g}", traits.absolute);
  if (traits.omega == 0.0 || traits.delta == 1.0) return "exact";
  if (traits.omega) return fmt::format("<= {:.3g} (omega)", *traits.omega);
  if (traits.delta) return fmt::format("<= {:.3g} (1 - delta)", 1 - *traits.delta);
  return "none";
}

// |decoded - x|^2 / |x|^2
double relative_error(const Frame& frame, std::span<const float> x, Scratch& scratch) {
  std::vector<float> difference(x.begin(), x.end());
  for (const Section& section : frame.sections)
    add_section(frame, section, -1, std::span(difference).subspan(section.first, section.count),
                scratch);
  return kernels::sum_of_squares(difference) / kernels::sum_of_squares(x);
}

void print_row(const std::string& spec, std::span<const float> x, Scratch& scratch) {
  const Operator op = parse_operator(spec);
  const FrameHeader header{.shape = {x.size()}};
  Buffer bytes;
  FrameWriter writer(bytes, header, {&op, 1});
  writer.add(0, x, 0, header.keys(), scratch);
  const std::size_t payload = writer.finish();
  const Sizes sizes = sizes_of(header, payload, bytes.size());
  fmt::print("  {:<28} {:>14.3f} {:>8.2f}x {:>16.3g}   {}\n", spec, sizes.bits_per_entry(),
             sizes.ratio(), relative_error(read_frame(bytes.view()), x, scratch),
             promise(op.traits(x.size())));
}

void demo(const Globals& globals) {
  Scratch scratch(globals.threads);
  fmt::print("Laconic {}: compressed communication for distributed deep learning\n\n",
             LACONIC_VERSION);
  print_names();
  const auto gradient = made_up_gradient(kCount, scratch.pool);
  fmt::print(
      "\nA made-up gradient of {} normal entries, {} bytes as float32, through each stage:\n\n",
      with_commas(kCount), with_commas(4 * kCount));
  fmt::print("  {:<28} {:>14} {:>9} {:>16}   {}\n", "operator", "bits per entry", "ratio",
             "|C(x)-x|^2/|x|^2", "promised");
  for (const auto& spec : first_specs()) print_row(spec, gradient, scratch);
  fmt::print(
      "\nNext: laconic list, laconic compress --help, laconic bench operators, laconic --help\n");
}

const RegisterCommand command{{
    .name = "demo",
    .summary = "Shows what there is, and what each operator does to a made-up gradient.",
    .examples = {"laconic demo", "laconic demo --threads 2"},
    .attach = [](CLI::App&) { return demo; },
}};

}  // namespace
}  // namespace laconic::cli

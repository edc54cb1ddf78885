// Traits as words.
#include "cli/traits.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace laconic::cli {
namespace {

// Deltas next to 1 are told apart by what they miss.
std::string delta_text(double delta) {
  const double missing = 1 - delta;
  return missing > 0 && missing < 1e-3 ? fmt::format("1 - {:.3g}", missing)
                                       : fmt::format("{:.4g}", delta);
}

}  // namespace

std::string describe(const Traits& traits) {
  std::string text = traits.unbiased ? "unbiased" : "biased";
  if (traits.random) text += ", random";
  if (traits.shared) text += ", shared";
  if (traits.stratified) text += ", stratified";
  if (traits.omega) text += fmt::format(", omega {:.4g}", *traits.omega);
  if (traits.shared && traits.unbiased) text += " of the mean over ranks too";
  if (traits.delta) text += ", delta " + delta_text(*traits.delta);
  if (traits.absolute > 0) text += fmt::format(", each entry within {:.4g}", traits.absolute);
  return text;
}

Json to_json(const Traits& traits) {
  return {{"unbiased", traits.unbiased},    {"random", traits.random},
          {"shared", traits.shared},        {"stratified", traits.stratified},
          {"omega", or_null(traits.omega)}, {"delta", or_null(traits.delta)},
          {"absolute", traits.absolute}};
}

}  // namespace laconic::cli

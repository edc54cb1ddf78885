// The methods of sparse binary compression, and what formulas promise of them.
#include "cli/method.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "laconic/base/errors.h"

namespace laconic::cli {

// Sattler et al. (arXiv 1805.08768), table 1; the ratios are the abstract's.
const std::vector<Method>& sbc_methods() {
  static const std::vector<Method> list = {
      {{.name = "sbc1", .op = "sbc:0.001", .summary = ""}, 1, {}},
      {{.name = "sbc2", .op = "sbc:0.01", .summary = ""}, 10, 3531},
      {{.name = "sbc3", .op = "sbc:0.01", .summary = ""}, 100, 37208},
  };
  return list;
}

Method find_method(const std::string& name) {
  const auto at = std::ranges::find(sbc_methods(), name,
                                    [](const Method& method) { return method.recipe.name; });
  if (at != sbc_methods().end()) return *at;
  std::vector<std::string> names;
  for (const Method& method : sbc_methods()) names.push_back(method.recipe.name);
  for (const Recipe& recipe : recipes()) names.push_back(recipe.name);
  if (!name.ends_with(".json") && std::ranges::count(names, name) == 0)
    throw UsageError("no recipe '" + name + "'; known: " + join(names, " ") +
                     ", or a file FILE.json");
  return {find_recipe(name)};
}

std::optional<Ideal> ideal_of(const Operator& op, std::uint64_t delay) {
  const auto chain = split_chain(op.spec());
  if (chain.size() != 1 || (chain[0].name != "sbc" && chain[0].name != "stc")) return {};
  const StageInfo& stage = stage_named(chain[0].name);
  const double p = Args(stage.name, stage.parameters, chain[0].args).number("density");
  if (p >= 1) return {};
  Ideal ideal{.density = p};
  const double best = std::log2(std::log(std::numbers::phi - 1) / std::log1p(-p));
  ideal.rice_bits = std::max(0, 1 + static_cast<int>(std::floor(best)));
  ideal.bits_per_position =
      ideal.rice_bits + 1 / (1 - std::pow(1 - p, std::ldexp(1.0, ideal.rice_bits)));
  const double sign = chain[0].name == "stc" ? 1 : 0;
  ideal.ratio = 32 / (p * (ideal.bits_per_position + sign)) * static_cast<double>(delay);
  return ideal;
}

}  // namespace laconic::cli

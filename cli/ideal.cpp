// Ideal and reported ratios.
#include "cli/ideal.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace laconic::cli {

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

// Sattler et al. (arXiv 1805.08768), the abstract.
std::optional<double> ratio_in_paper(const Recipe& recipe) {
  for (const auto& [name, ratio] : {std::pair{"sbc2", 3531.0}, std::pair{"sbc3", 37208.0}})
    if (recipe == find_recipe(name)) return ratio;
  return {};
}

}  // namespace laconic::cli

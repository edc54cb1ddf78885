// The best choice of what was tried.
#include "laconic/planner/adaptive.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "laconic/base/errors.h"
#include "laconic/planner/trials.h"

namespace laconic {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

using Layers = std::vector<std::vector<Way>>;

// What has a budget, and how much of it there is; the other one is to be small.
struct Target {
  bool of_bytes;
  double most;

  double limited(const Outcomes& outcomes) const {
    return of_bytes ? static_cast<double>(outcomes.bytes) : outcomes.error;
  }
  double cost(const Outcomes& outcomes) const {
    return of_bytes ? outcomes.error : static_cast<double>(outcomes.bytes);
  }
  bool keeps(const Outcomes& outcomes) const { return limited(outcomes) <= most; }
};

Layers layers_of(const Trials& trials, const Target& target) {
  Layers layers;
  for (const auto& of_tensor : trials.measured()) {
    auto& ways = layers.emplace_back();
    for (const Measured& m : of_tensor)
      ways.push_back(target.of_bytes ? Way{m.error, m.bytes} : Way{m.bytes, m.error});
  }
  return layers;
}

// Heads of frames and names of operators are in no tensor's bytes: what they take is taken off the
// budget until the whole keeps it.
std::optional<Outcomes> best_by_tensor(Trials& trials, const Layers& layers, const Target& target) {
  double room = target.most;
  for (int round = 0; round < 8 && room >= 0; ++round) {
    const auto chosen = choose_ways(layers, room);
    if (!chosen) break;
    const Outcomes found = trials.of_recipe(trials.recipe_of(*chosen));
    if (target.keeps(found)) return found;
    room -= target.limited(found) - target.most;
  }
  return std::nullopt;
}

// Of the choices that treat all tensors alike.
std::optional<Outcomes> best_alike(Trials& trials, const Layers& layers, const Target& target) {
  std::size_t most = 0;
  for (const auto& ways : layers) most = std::max(most, ways.size());
  std::vector<std::size_t> best, now(layers.size());
  double least = kNever;
  for (std::size_t variant = 0; variant < most; ++variant) {
    Way sum;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      now[i] = std::min(variant, layers[i].size() - 1);
      sum.cost += layers[i][now[i]].cost;
      sum.limited += layers[i][now[i]].limited;
    }
    if (sum.limited > target.most || !(sum.cost < least)) continue;
    least = sum.cost;
    best = now;
  }
  if (best.empty()) return std::nullopt;
  return trials.of_recipe(trials.recipe_of(best));
}

std::string refusal(const std::string& op, const Target& target, const Outcomes& own) {
  if (target.of_bytes)
    return "no choice for '" + op + "' fits in " +
           std::to_string(static_cast<std::uint64_t>(target.most)) + " bytes; as it is it takes " +
           std::to_string(own.bytes);
  return "no choice for '" + op + "' has an error of at most " + number_text(target.most) +
         "; as it is it has " + number_text(own.error);
}

}  // namespace

std::optional<std::vector<std::size_t>> choose_ways(const std::vector<std::vector<Way>>& layers,
                                                    double budget, std::size_t steps) {
  const auto places = steps + 1;
  const auto part = [&](const Way& way) -> std::size_t {
    if (way.limited <= 0) return 0;
    const double share = std::ceil(way.limited / budget * static_cast<double>(steps));
    return budget > 0 && share <= static_cast<double>(steps) ? static_cast<std::size_t>(share)
                                                             : places;
  };
  std::vector<double> least(places, 0), next(places);  // by what is taken of the budget, at most
  std::vector<std::uint16_t> taken(layers.size() * places);
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    std::ranges::fill(next, kNever);
    for (std::size_t way = 0; way < layers[layer].size(); ++way) {
      const std::size_t used = part(layers[layer][way]);
      for (std::size_t at = used; at < places; ++at) {
        const double cost = least[at - used] + layers[layer][way].cost;
        if (!(cost < next[at])) continue;
        next[at] = cost;
        taken[layer * places + at] = static_cast<std::uint16_t>(way);
      }
    }
    std::swap(least, next);
  }
  if (!(least[steps] < kNever)) return std::nullopt;
  std::vector<std::size_t> chosen(layers.size());
  for (std::size_t layer = layers.size(), at = steps; layer-- > 0;) {
    chosen[layer] = taken[layer * places + at];
    at -= part(layers[layer][chosen[layer]]);
  }
  return chosen;
}

Adaptive adapt(const std::string& op, const Budget& budget, const Situation& situation) {
  if (budget.bytes && budget.error)
    throw UsageError("a budget of bytes and one of error; allowed: one of them");
  if (budget.error && !(*budget.error >= 0 && *budget.error <= 1))
    throw UsageError("an error of " + number_text(*budget.error) + "; allowed: 0 to 1");
  const auto trials = is_of_ranks(op) ? try_ranks(op, situation) : try_operators(op, situation);
  Adaptive adaptive{.chosen = {}, .layer_wise = trials->of_recipe(trials->layer_wise())};
  if (const auto recipe = trials->entire_model())
    adaptive.entire_model = trials->of_recipe(*recipe);
  const Target target = budget.bytes
                            ? Target{true, static_cast<double>(*budget.bytes)}
                            : Target{false, budget.error.value_or(adaptive.layer_wise.error)};
  const Layers layers = layers_of(*trials, target);
  std::vector<Outcomes> able;
  const auto consider = [&](const std::optional<Outcomes>& outcomes) {
    if (outcomes && target.keeps(*outcomes)) able.push_back(*outcomes);
  };
  consider(best_by_tensor(*trials, layers, target));
  consider(adaptive.layer_wise);
  consider(adaptive.entire_model);
  consider(best_alike(*trials, layers, target));
  if (able.empty()) throw UsageError(refusal(op, target, adaptive.layer_wise));
  adaptive.chosen = *std::ranges::min_element(
      able, {}, [&](const Outcomes& outcomes) { return target.cost(outcomes); });
  check_recipe(adaptive.chosen.recipe);
  return adaptive;
}

}  // namespace laconic

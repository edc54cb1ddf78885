// Which way a recipe works.
#include "laconic/methods/method.h"

#include "laconic/base/errors.h"
#include "laconic/methods/kinds.h"

namespace laconic {

std::unique_ptr<Method> make_method(const Agreement& agreement, std::span<const float> start,
                                    Transport& transport) {
  const Recipe& recipe = agreement.recipe;
  if (!recipe.mixer.empty())
    return make_decentralised(agreement.model, make_mixer(agreement, transport));
  auto aggregator = make_aggregator(agreement, transport);
  // One local step whose change nobody treats further is a step on the mean gradient.
  if (recipe.delay == 1 && recipe.outer == "none")
    return make_synchronous(agreement.model, std::move(aggregator));
  return make_local_steps(agreement, std::move(aggregator), start);
}

void require_one_momentum(const Recipe& recipe, bool optimizer_has_momentum) {
  if (!optimizer_has_momentum || !recipe.mixer.empty() || !carries_momentum(recipe.memory)) return;
  throw UsageError("memory '" + recipe.memory +
                   "' carries the momentum itself; allowed: optimiser sgd with momentum 0");
}

std::vector<float> tensors_among(const std::string& role, const Model& model, const State& state) {
  State part;
  put_under(role + "/", take_under(role + "/", state), part);
  expect_state(part, {role}, model);
  return load_tensors(role, model, part);
}

}  // namespace laconic

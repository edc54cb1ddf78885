// Which way a recipe works.
#include "laconic/methods/method.h"

#include "laconic/base/errors.h"
#include "laconic/methods/methods.h"

namespace laconic {
namespace {

void require_no_second_momentum(const Recipe& recipe, const OptimizerOptions& optimizer) {
  if (optimizer.kind == "sgd" && optimizer.momentum == 0) return;
  if (!carries_momentum(recipe.memory)) return;
  throw UsageError("memory '" + recipe.memory +
                   "' carries the momentum itself; allowed: optimiser sgd with momentum 0");
}

}  // namespace

std::unique_ptr<Method> make_method(const Agreement& agreement, const OptimizerOptions& options,
                                    std::span<const float> start, Transport& transport) {
  const Recipe& recipe = agreement.recipe;
  auto optimizer = make_optimizer(options, agreement.model);
  if (!recipe.mixer.empty())
    return make_decentralised(agreement.model, std::move(optimizer),
                              make_mixer(agreement, transport));
  require_no_second_momentum(recipe, options);
  auto aggregator = make_aggregator(agreement, transport);
  // One local step whose change nobody treats further is a step on the mean gradient.
  if (recipe.delay == 1 && recipe.outer == "none")
    return make_synchronous(agreement.model, std::move(optimizer), std::move(aggregator));
  return make_local_steps(agreement, std::move(optimizer), std::move(aggregator), start);
}

std::vector<float> tensors_among(const std::string& role, const Model& model, const State& state) {
  State part;
  put_under(role + "/", take_under(role + "/", state), part);
  expect_state(part, {role}, model);
  return load_tensors(role, model, part);
}

}  // namespace laconic

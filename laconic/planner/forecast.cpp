// One recipe after the other.
#include "laconic/planner/forecast.h"

#include <algorithm>

#include "laconic/base/errors.h"
#include "laconic/methods/fragments.h"

namespace laconic {
namespace {

constexpr double kPacket = 1514, kPacketPayload = 1448;  // bytes

Link link_of(const Situation& situation) {
  Link link = situation.link;
  if (situation.packets) link.bits_per_second *= kPacketPayload / kPacket;
  return link;
}

Plan way_back_of(const Recipe& recipe, const Model& model) {
  Recipe back = recipe;
  back.op = recipe.down;
  return make_plan(back, model);
}

// What is handed over in one exchange, and the units that it makes.
using Exchanged = std::vector<UnitSlices>;

// A round of local steps hands over everything at once, after the backward pass, or fragments in
// turn: each is an exchange of its own.
std::vector<Exchanged> exchanges_of(const Recipe& recipe, const Model& model, const Plan& plan,
                                    std::size_t bucket_bytes) {
  if (!takes_local_steps(recipe)) return {units_of(model, plan, bucket_bytes)};
  const Places places(model);
  std::vector<Exchanged> rounds;
  for (const auto& tensors : fragments_of(recipe, model)) {
    UnitSlices unit;
    for (const std::size_t i : all_slices(plan))
      if (std::ranges::binary_search(tensors, places.tensor_at(plan.layout[i].offset)))
        unit.slices.push_back(i);
    rounds.push_back({unit});
  }
  return rounds;
}

double mean_degree(const Recipe& recipe, int workers) {
  if (recipe.topology == "ring") return std::min(2, workers - 1);
  if (recipe.topology == "pairs") return 1 - workers % 2 / static_cast<double>(workers);
  const Graph graph = make_graph(recipe.topology);
  double sum = 0;
  const auto rounds = neighbours_by_round(graph, 0);
  for (const auto& neighbours : rounds) sum += static_cast<double>(neighbours.size());
  return sum / static_cast<double>(rounds.size());
}

// Models go to neighbours when all is computed; nothing overlaps.
void foresee_gossip(const Situation& situation, Forecast& forecast) {
  const GossipCosts costs = measure_gossip(forecast.recipe, situation.samples, situation.repeats);
  const Link link = link_of(situation);
  const double degree = mean_degree(forecast.recipe, situation.workers) / 2;
  const auto delay = static_cast<double>(forecast.recipe.delay);
  forecast.exact = count_of(situation.samples.model) <= kTimedEntries;
  forecast.bytes = costs.bytes * degree / delay;
  forecast.messages = costs.messages * degree / delay;
  forecast.kernel_seconds = (costs.encode + costs.decode * degree) / delay;
  forecast.link_seconds = 8 * forecast.bytes / link.bits_per_second;
  const Shares shares = shares_of(situation);
  forecast.exposed_seconds = (forecast.kernel_seconds + forecast.messages * shares.stack.message +
                              forecast.bytes * shares.stack.byte) /
                                 shares.one +
                             forecast.link_seconds + costs.rounds * link.latency_seconds / delay;
}

void foresee_average(const Situation& situation, Forecast& forecast) {
  const Recipe& recipe = forecast.recipe;
  const Model& model = situation.samples.model;
  const bool local = takes_local_steps(recipe);
  Rehearsal rehearsal(
      model, make_plan(recipe, model),
      recipe.down.empty() ? std::nullopt : std::optional(way_back_of(recipe, model)),
      situation.workers, situation.samples.gradients[0], !local, recipe.memory);
  const auto foresight = foresee(recipe.exchange, rehearsal);
  const double backward = local ? 0 : kBackwardShare * situation.compute_seconds;
  // A round that is under way for some steps has these to hide behind.
  const double hidden = backward + static_cast<double>(recipe.overlap) * situation.compute_seconds;
  const auto others = static_cast<double>(situation.workers) - 1;
  const Plan& plan = foresight->plan();
  const Rates rates = measure_rates(recipe, situation.samples, situation.repeats);
  for (const Exchanged& exchanged : exchanges_of(recipe, model, plan, situation.bucket_bytes)) {
    std::vector<TimedUnit> units;
    forecast.bytes += static_cast<double>(vote_bytes()) * others;
    forecast.messages += others;
    for (const UnitSlices& of_unit : exchanged) {
      units.push_back({.ready = backward * of_unit.ready,
                       .entries = static_cast<double>(entries_of(plan, of_unit.slices)),
                       .unit = foresight->unit(of_unit.slices)});
      for (const ForeseenLeg& leg : units.back().unit.legs) {
        forecast.bytes += static_cast<double>(leg.sent);
        forecast.messages += static_cast<double>(leg.messages);
      }
    }
    const StepTimes times = time_step(units, link_of(situation), rates, situation.workers,
                                      foresight->framed(), shares_of(situation));
    forecast.kernel_seconds += times.kernels;
    forecast.link_seconds += times.on_link;
    forecast.exposed_seconds += std::max(0.0, times.seconds - hidden);
  }
  for (double* whole : {&forecast.bytes, &forecast.messages, &forecast.kernel_seconds,
                        &forecast.link_seconds, &forecast.exposed_seconds})
    *whole /= static_cast<double>(recipe.delay);
  forecast.error = measure_error(recipe, situation.samples);
}

}  // namespace

Shares shares_of(const Situation& situation) {
  Shares shares = shares_of(situation.workers, situation.cores);
  if (!situation.computes) shares.two = shares.one;
  if (situation.cores > 0) shares.stack = situation.stack;
  return shares;
}

void require_sound(const Situation& situation) {
  if (situation.workers < 2 || situation.workers > kMostWorkers)
    throw UsageError(std::to_string(situation.workers) + " workers; allowed: 2 to " +
                     std::to_string(kMostWorkers));
  if (!(situation.compute_seconds >= 0 && situation.compute_seconds <= 1e6))
    throw UsageError("a batch that takes " + std::to_string(situation.compute_seconds) +
                     " seconds; allowed: 0 to 1000000");
  if (situation.cores > kMostCores)
    throw UsageError(std::to_string(situation.cores) + " cores; allowed: 1 to " +
                     std::to_string(kMostCores) + ", or 0 where each worker has cores of its own");
  if (situation.bucket_bytes == 0) throw UsageError("buckets of 0 bytes; allowed: 1 and more");
  if (situation.repeats == 0 || situation.repeats > 1000)
    throw UsageError(std::to_string(situation.repeats) + " repeats; allowed: 1 to 1000");
}

double estimated_compute(const Samples& samples, std::uint64_t batch) {
  return 6e-12 * static_cast<double>(count_of(samples.model)) * samples.uses *
         static_cast<double>(batch);
}

Recipe bf16_recipe() {
  return {.name = "bf16",
          .op = "half:bf16",
          .exchange = "sharded",
          .summary = "16-bit floats to owners of shards and back."};
}

Forecast forecast_of(const Recipe& recipe, const Situation& situation) {
  Forecast forecast{.recipe = recipe};
  try {
    check_recipe(recipe, situation.samples.model);
    if (recipe.mixer.empty())
      foresee_average(situation, forecast);
    else
      foresee_gossip(situation, forecast);
    forecast.step_seconds = situation.compute_seconds + forecast.exposed_seconds;
  } catch (const UsageError& error) {
    forecast = {.recipe = recipe, .obstacle = error.what()};
  }
  return forecast;
}

std::vector<Forecast> forecast_all(const std::vector<Recipe>& recipes, const Situation& situation,
                                   const std::function<void(const std::string&)>& tell) {
  require_sound(situation);
  std::vector<Recipe> all = recipes;
  const auto add = [&](const Recipe& recipe) {
    if (std::ranges::find(all, recipe.name, &Recipe::name) == all.end()) all.push_back(recipe);
  };
  add(find_recipe("dense"));
  add(bf16_recipe());
  std::vector<Forecast> forecasts;
  for (const Recipe& recipe : all) {
    if (tell) tell(recipe.name);
    forecasts.push_back(forecast_of(recipe, situation));
  }
  const auto seconds = [&](const char* name) {
    return std::ranges::find(forecasts, name, [](const Forecast& f) { return f.recipe.name; })
        ->step_seconds;
  };
  const double dense = seconds("dense"), bf16 = seconds("bf16");
  for (Forecast& forecast : forecasts) {
    if (!forecast.obstacle.empty()) continue;
    forecast.over_dense = forecast.step_seconds > 0 ? dense / forecast.step_seconds : 1;
    forecast.over_bf16 = forecast.step_seconds > 0 ? bf16 / forecast.step_seconds : 1;
  }
  std::ranges::stable_sort(forecasts, {}, [](const Forecast& forecast) {
    return std::pair(!forecast.obstacle.empty(), forecast.step_seconds);
  });
  return forecasts;
}

std::vector<UnitSlices> units_of(const Model& model, const Plan& plan, std::size_t bucket_bytes) {
  double weights = 0;
  for (const Tensor& tensor : model) weights += tensor.shape.size() > 1;
  // By tensor, from the last: the bucket it is in, and when that is complete.
  std::vector<std::size_t> bucket_of(model.size());
  std::vector<double> ready = {0};
  std::size_t bytes = 0;
  double done = 0;
  for (std::size_t i = model.size(); i-- > 0;) {
    if (bytes >= bucket_bytes) {
      bytes = 0;
      ready.push_back(0);
    }
    bytes += sizeof(float) * model[i].count();
    done += model[i].shape.size() > 1;
    bucket_of[i] = ready.size() - 1;
    ready.back() = weights > 0 ? done / weights : 1;
  }
  ready.back() = 1;
  // A slice is complete with its first tensor.
  std::vector<UnitSlices> units(ready.size());
  for (std::size_t i = 0; i < units.size(); ++i) units[i].ready = ready[i];
  std::size_t tensor = 0, end = model.empty() ? 0 : model[0].count();
  for (std::size_t i = 0; i < plan.layout.size(); ++i) {
    while (plan.layout[i].offset >= end && tensor + 1 < model.size())
      end += model[++tensor].count();
    units[bucket_of[tensor]].slices.push_back(i);
  }
  std::erase_if(units, [](const UnitSlices& unit) { return unit.slices.empty(); });
  return units;
}

std::uint64_t frame_bytes(const Plan& plan, const Situation& situation) {
  std::uint64_t bytes = 0;
  for (const std::vector<float>& gradient : situation.samples.gradients) {
    Rehearsal rehearsal(situation.samples.model, plan, std::nullopt, situation.workers, gradient);
    for (const UnitSlices& unit : units_of(situation.samples.model, plan, situation.bucket_bytes))
      bytes += rehearsal.frame(plan, unit.slices);
  }
  return bytes / situation.samples.gradients.size();
}

}  // namespace laconic

// Which way a recipe works.
#include "laconic/methods/method.h"

#include "laconic/base/errors.h"
#include "laconic/codecs/crc32c.h"
#include "laconic/methods/kinds.h"

namespace laconic {
namespace {

Agreement with_start(Agreement agreement, std::span<const float> start) {
  const std::size_t count = count_of(agreement.model);
  if (start.size() != count && (!start.empty() || takes_local_steps(agreement.recipe)))
    throw UsageError("recipe '" + agreement.recipe.name + "' starts from " +
                     std::to_string(start.size()) + " parameters of a model of " +
                     std::to_string(count));
  if (!start.empty())
    agreement.start_crc =
        crc32c({reinterpret_cast<const std::uint8_t*>(start.data()), start.size_bytes()});
  return agreement;
}

}  // namespace

std::unique_ptr<Method> make_method(const Agreement& given, std::span<const float> start,
                                    Transport& transport) {
  const Agreement agreement = with_start(given, start);
  const Recipe& recipe = agreement.recipe;
  if (!recipe.mixer.empty()) return make_decentralised(agreement, make_mixer(agreement, transport));
  auto aggregator = make_aggregator(agreement, transport);
  if (recipe.overlap > 0 && transport.blocks())
    throw UsageError("recipe '" + recipe.name + "' has rounds under way for " +
                     std::to_string(recipe.overlap) +
                     " steps over a transport that blocks; allowed: overlap 0, or a transport "
                     "whose messages are started and asked after");
  if (takes_local_steps(recipe)) return make_local_steps(agreement, std::move(aggregator), start);
  return make_synchronous(agreement.model, std::move(aggregator));
}

Outcome Method::regroup(const Agreement& agreement, std::span<float>, Transport&) {
  throw UsageError("recipe '" + agreement.recipe.name +
                   "' has no centre, and each rank its place in the topology; allowed: a recipe "
                   "without mixer");
}

Outcome go_on_among(const Agreement& agreement, Transport& among,
                    std::unique_ptr<Aggregator>& aggregator, const std::function<void()>& settled) {
  const Outcome outcome = aggregator->settle(among);
  auto fresh = make_aggregator(agreement, among);
  fresh->take_over(*aggregator);
  if (settled) settled();
  aggregator = std::move(fresh);
  return outcome;
}

StepStats sum_of(const StepStats& a, const StepStats& b) {
  StepStats sum = a;
  sum.payload_bytes += b.payload_bytes;
  sum.wire_bytes += b.wire_bytes;
  sum.traffic_bytes += b.traffic_bytes;
  sum.messages += b.messages;
  sum.rounds += b.rounds;
  sum.dense_bytes += b.dense_bytes;
  sum.up_bytes += b.up_bytes;
  sum.down_bytes += b.down_bytes;
  sum.vote_bytes += b.vote_bytes;
  sum.compress_seconds += b.compress_seconds;
  sum.exchange_seconds += b.exchange_seconds;
  sum.decompress_seconds += b.decompress_seconds;
  sum.exposed_seconds += b.exposed_seconds;
  sum.update_seconds += b.update_seconds;
  sum.flags |= b.flags;
  sum.finite &= b.finite;
  return sum;
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

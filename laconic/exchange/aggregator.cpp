// The table of exchanges.
#include "laconic/exchange/aggregator.h"

#include "laconic/base/registry.h"
#include "laconic/exchange/lanes.h"

namespace laconic {
namespace {

Registry<ExchangeInfo>& registry() {
  static Registry<ExchangeInfo> exchanges("exchange");
  return exchanges;
}

// A setting that an exchange would pass over in silence is a mistake.
void require_way_back(const ExchangeInfo& info, const Setup& setup) {
  if (info.has_way_back || (!setup.down && setup.down_memory == "none")) return;
  std::vector<std::string> able;
  for (const ExchangeInfo& other : exchanges())
    if (other.has_way_back) able.push_back(other.name);
  throw UsageError(
      "exchange '" + info.name +
      "' has no operator or memory for the way back; allowed with one: " + join(able, " "));
}

}  // namespace

const std::vector<ExchangeInfo>& exchanges() { return registry().all(); }

RegisterExchange::RegisterExchange(ExchangeInfo info) {
  RegisterRoles{info.roles};
  registry().add(std::move(info));
}

std::unique_ptr<Aggregator> make_aggregator(std::string_view spec, Setup setup) {
  const auto stages = split_chain(spec);
  if (stages.size() != 1)
    throw UsageError("an exchange is one word, not '" + std::string(spec) + "'");
  const ExchangeInfo& info = registry().at(stages[0].name);
  const Args args(info.name, info.parameters, stages[0].args);
  require_way_back(info, setup);
  auto exchange = info.make(setup, args);
  if (auto lanes = Lanes::make(setup, exchange)) exchange = std::move(lanes);
  return std::make_unique<Aggregator>(std::move(setup), std::move(exchange));
}

void require_count(std::span<const float> gradient, const Model& model) {
  if (gradient.size() != count_of(model))
    throw UsageError("a gradient of " + std::to_string(gradient.size()) +
                     " entries for a model of " + std::to_string(count_of(model)));
}

void require_identity(const Setup& setup, const std::string& exchange) {
  for (const Operator& op : setup.plan.operators)
    if (op.spec() != "identity")
      throw UsageError("exchange '" + exchange +
                       "' compresses in no way but its own; allowed: operator identity, not '" +
                       op.spec() + "'");
  if (setup.memory != "none")
    throw UsageError("exchange '" + exchange +
                     "' remembers what it needs itself; allowed: memory none, not '" +
                     setup.memory + "'");
}

}  // namespace laconic

// The table of mixers, and which operators go with them.
#include "laconic/exchange/gossip/mixer.h"

#include "laconic/base/registry.h"

namespace laconic {
namespace {

Registry<MixerInfo>& registry() {
  static Registry<MixerInfo> mixers("mixer");
  return mixers;
}

void require_identity(const MixerInfo& info, const Plan& plan) {
  for (const Operator& op : plan.operators)
    if (op.spec() != "identity")
      throw UsageError("mixer '" + info.name +
                       "' sends in a form of its own; allowed: operator identity, not '" +
                       op.spec() + "'");
}

// What is left out must shrink, or the hats and errors that remember it grow without end.
void require_contraction(const MixerInfo& info, const Plan& plan) {
  for (std::size_t i = 0; i < plan.layout.size(); ++i) {
    const auto delta = plan.op(i).traits(plan.layout[i].count).delta;
    if (plan.layout[i].count > 0 && !(delta && *delta > 0))
      throw UsageError("mixer '" + info.name + "' diverges with '" + plan.op(i).spec() +
                       "' on slice '" + plan.layout[i].name +
                       "', which is no contraction; allowed: operators with a delta above 0 "
                       "(see list), among them 'shrink+' and an unbiased one");
  }
}

// What is left out is lost: it must be nothing on average.
void require_unbiased(const MixerInfo& info, const Plan& plan) {
  for (std::size_t i = 0; i < plan.layout.size(); ++i)
    if (!plan.op(i).traits(plan.layout[i].count).unbiased)
      throw UsageError("mixer '" + info.name + "' loses what '" + plan.op(i).spec() +
                       "' leaves out, which has a bias; allowed: unbiased operators (see list), "
                       "among them natural, qsgd and randomk");
}

}  // namespace

const std::vector<MixerInfo>& mixers() { return registry().all(); }

RegisterMixer::RegisterMixer(MixerInfo info) { registry().add(std::move(info)); }

std::unique_ptr<Mixer> make_mixer(std::string_view spec, MixerSetup setup) {
  const auto stages = split_chain(spec);
  if (stages.size() != 1) throw UsageError("a mixer is one word, not '" + std::string(spec) + "'");
  const MixerInfo& info = registry().at(stages[0].name);
  const Args args(info.name, info.parameters, stages[0].args);
  if (setup.graph.size() != setup.transport.size())
    throw UsageError("a graph of " + std::to_string(setup.graph.size()) + " ranks for " +
                     std::to_string(setup.transport.size()) +
                     "; allowed: a topology of as many ranks as there are");
  if (info.wants_unbiased)
    require_unbiased(info, setup.plan);
  else if (info.takes_operator)
    require_contraction(info, setup.plan);
  else
    require_identity(info, setup.plan);
  return info.make(std::move(setup), args);
}

Parameter gamma_parameter(std::string fallback) {
  return {.name = "gamma",
          .fallback = std::move(fallback),
          .min = 0,
          .max = 16,
          .help = "step towards the neighbours, as a multiple of their weights"};
}

std::vector<std::vector<Neighbour>> neighbours_by_round(const Graph& graph, int rank) {
  std::vector<std::vector<Neighbour>> rounds;
  for (std::size_t round = 0; round < graph.period(); ++round)
    rounds.push_back(graph.neighbours(rank, round));
  return rounds;
}

}  // namespace laconic

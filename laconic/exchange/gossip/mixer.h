// Training without a centre: every rank has a model of its own, and a mixer moves it towards those
// of its neighbours. The sum of all models stays what it was, up to rounding; on average where what
// an operator loses is not remembered (`wants_unbiased`).
#pragma once

#include "laconic/exchange/aggregator.h"
#include "laconic/exchange/gossip/graph.h"

namespace laconic {

class Mixer {
 public:
  virtual ~Mixer() = default;

  // One round of gossip with the neighbours of round `info.step`, which must be the same on all
  // ranks. In: this rank's model; out: the mixed one. In the stats, payload, wire and dense bytes
  // are sums over the messages to all neighbours. A message that is not finite moves nothing along
  // its edge, on neither end, and stats.finite is false on both. When it throws, model and state
  // are as before.
  virtual StepStats mix(std::span<float> parameters, const StepInfo& info) = 0;

  // Whether the optimiser's update comes before mix, not after it.
  virtual bool gradient_first() const { return false; }

  // Length of what is still owed to the neighbours; 0 when nothing is remembered. A pass over it.
  virtual double residual_norm() const { return 0; }

  // How far neighbours certainly were from this rank in the last round, in the entry where it is
  // most, in parts of what the mixer needs them to stay within (moniqua's theta): above 1 a round
  // has gone wrong. 0 where there is no such bound.
  virtual double apart() const { return 0; }

  virtual State save() const = 0;
  // Throws DataError unless the state is one this mixer saved for this model, graph and rank.
  virtual void load(const State& state) = 0;
};

// What a mixer is made from. All but the transport must be the same on all ranks.
struct MixerSetup {
  Transport& transport;
  Model model;
  Graph graph;
  Plan plan;  // of what is sent; identity for mixers that take no operator
  std::uint64_t seed = 0;
  double timeout_seconds = 60;
  unsigned threads = 1;
};

struct MixerInfo {
  std::string name, summary, paper;
  std::vector<Parameter> parameters;
  std::vector<std::string> examples;  // what every test of all mixers runs
  bool takes_operator = false;        // any contraction; others send in a form of their own
  bool wants_unbiased = false;        // takes unbiased operators, contractions or not
  std::function<std::unique_ptr<Mixer>(MixerSetup, const Args&)> make;
};

const std::vector<MixerInfo>& mixers();

struct RegisterMixer {
  explicit RegisterMixer(MixerInfo info);
};

// Example: make_mixer("choco:0.4", {.transport = t, .model = m, .graph = make_graph("ring:8"),
// .plan = make_plan(m, "tensor", parse_operator("topk:0.01"))}).
std::unique_ptr<Mixer> make_mixer(std::string_view spec, MixerSetup setup);

// The step towards the neighbours, as a multiple of what W says.
Parameter gamma_parameter(std::string fallback = "1");

// By round of the graph's period: the neighbours of a rank.
std::vector<std::vector<Neighbour>> neighbours_by_round(const Graph& graph, int rank);

}  // namespace laconic

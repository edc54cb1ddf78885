// What the tests of mixers share: ranks as threads, models that start apart, and how far apart they
// are.
#pragma once

#include <mutex>

#include "laconic/exchange/gossip/mixer.h"
#include "laconic/exchange/gossip/spectrum.h"
#include "tests/ranks.h"

namespace laconic::testing {

using Models = std::vector<std::vector<float>>;  // by rank

struct GossipRun {
  std::string mixer = "dpsgd", topology = "ring:8", op = "identity";
  Model model = {{"w", {20, 15}}, {"b", {20}}, {"v", {7, 3, 2}}};
  std::uint64_t rounds = 5, first = 0;
  std::uint64_t seed = 9;
};

// With an operator that the mixer goes with and that loses something, if it takes any.
inline GossipRun run_of(const MixerInfo& info, const std::string& spec,
                        const std::string& topology = "ring:8") {
  const char* const op = info.wants_unbiased   ? "natural"
                         : info.takes_operator ? "topk:0.2"
                                               : "identity";
  return {.mixer = spec, .topology = topology, .op = op};
}

inline std::unique_ptr<Mixer> mixer_of(const GossipRun& run, Transport& transport,
                                       const Graph& graph) {
  return make_mixer(run.mixer, {.transport = transport,
                                .model = run.model,
                                .graph = graph,
                                .plan = make_plan(run.model, "tensor", parse_operator(run.op)),
                                .seed = run.seed,
                                .timeout_seconds = 120});
}

inline std::unique_ptr<Mixer> mixer_of(const GossipRun& run, Transport& transport) {
  return mixer_of(run, transport, make_graph(run.topology));
}

inline Models starts_of(const GossipRun& run) {
  Models models;
  const int ranks = make_graph(run.topology).size();
  for (int rank = 0; rank < ranks; ++rank)
    models.push_back(gaussian(count_of(run.model), 1, 100 + static_cast<std::uint64_t>(rank)));
  return models;
}

// Mixes in place. stats[rank][round]; `owed` gets what each rank still owes in the end.
inline std::vector<std::vector<StepStats>> mix(const GossipRun& run, Models& models,
                                               std::vector<double>* owed = nullptr) {
  const Graph graph = make_graph(run.topology);
  std::vector<std::vector<StepStats>> stats(models.size());
  expect_no_errors(on_ranks(static_cast<int>(models.size()), [&](Transport& transport) {
    const auto rank = static_cast<std::size_t>(transport.rank());
    const auto mixer = mixer_of(run, transport, graph);
    for (std::uint64_t round = 0; round < run.rounds; ++round)
      stats[rank].push_back(mixer->mix(models[rank], {.step = run.first + round}));
    if (owed) (*owed)[rank] = mixer->residual_norm();
  }));
  return stats;
}

inline std::vector<double> mean_of(const Models& models) {
  std::vector<double> mean(models[0].size());
  for (const auto& model : models)
    for (std::size_t i = 0; i < mean.size(); ++i)
      mean[i] += model[i] / static_cast<double>(models.size());
  return mean;
}

// The sum over ranks of |x - mean|^2.
inline double disagreement(const Models& models) {
  const auto mean = mean_of(models);
  double sum = 0;
  for (const auto& model : models)
    for (std::size_t i = 0; i < mean.size(); ++i) sum += std::pow(model[i] - mean[i], 2);
  return sum;
}

inline void expect_near(const Models& got, const Models& expected, double tolerance) {
  for (std::size_t rank = 0; rank < got.size(); ++rank)
    for (std::size_t i = 0; i < got[rank].size(); ++i)
      ASSERT_NEAR(got[rank][i], expected[rank][i], tolerance) << "rank " << rank << " entry " << i;
}

}  // namespace laconic::testing

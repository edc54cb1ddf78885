// Many ranks: every topology with 256 of them, and what a rank sends does not depend on how many
// there are.
#include <map>

#include "tests/exchange/gossip/support.h"

namespace laconic::testing {
namespace {

const std::map<std::string, std::string> kLarge = {
    {"chain", "chain:256"},       {"complete", "complete:256"},     {"hypercube", "hypercube:256"},
    {"matching", "matching:256"}, {"random", "random:256,0.1"},     {"ring", "ring:256"},
    {"pairs", "pairs:256"},       {"social", "social" /* of 32 */}, {"star", "star:256"},
    {"torus", "torus:16x16"},
};

TEST(GossipScale, EveryTopologyRunsWith256Ranks) {
  for (const TopologyInfo& info : topologies()) {
    ASSERT_TRUE(kLarge.contains(info.name)) << info.name << " has no example of 256 ranks here";
    const GossipRun run{.topology = kLarge.at(info.name), .model = {{"w", {3}}}, .rounds = 1};
    SCOPED_TRACE(run.topology);
    const Graph graph = make_graph(run.topology);
    Models models = starts_of(run);
    const auto mean = mean_of(models);
    const double apart = disagreement(models);
    const auto stats = mix(run, models);
    const auto after = mean_of(models);
    for (std::size_t i = 0; i < mean.size(); ++i) EXPECT_NEAR(after[i], mean[i], 1e-6);
    EXPECT_LT(disagreement(models), apart);
    for (int rank = 0; rank < graph.size(); ++rank)
      ASSERT_EQ(stats[static_cast<std::size_t>(rank)][0].payload_bytes,
                12U * static_cast<unsigned>(graph.degree(rank)));
  }
}

// The torus of 2 x 2 has two neighbours only: there is no way around a side of two.
TEST(GossipScale, PayloadPerRankDoesNotGrowWithRanks) {
  struct Case {
    const char* topology;
    unsigned neighbours;
  };
  for (const Case& c : {Case{"ring:4", 2},
                        {"ring:16", 2},
                        {"ring:64", 2},
                        {"ring:256", 2},
                        {"torus:2x2", 2},
                        {"torus:4x4", 4},
                        {"torus:8x8", 4},
                        {"torus:16x16", 4}})
    for (const auto& [mixer, bytes] :
         {std::pair{"dpsgd", 120U}, {"powergossip", 24U}, {"moniqua:16", 8U}}) {
      const GossipRun run{
          .mixer = mixer, .topology = c.topology, .model = {{"w", {6, 5}}}, .rounds = 1};
      Models models = starts_of(run);
      for (const auto& of_rank : mix(run, models))
        ASSERT_EQ(of_rank[0].payload_bytes, c.neighbours * bytes) << c.topology << " " << mixer;
    }
}

}  // namespace
}  // namespace laconic::testing

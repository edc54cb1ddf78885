// Graphs and their weights: every topology, the papers' spectra, and edges that are refused.
#include <set>

#include "laconic/exchange/gossip/spectrum.h"
#include "tests/support.h"

namespace laconic::testing {
namespace {

template <class Body>
void on_every_topology(Body body) {
  for (const TopologyInfo& info : topologies())
    for (const std::string& spec : info.examples) {
      SCOPED_TRACE(spec);
      body(make_graph(spec));
    }
}

std::size_t degree_count(const Graph& graph, int degree) {
  std::size_t count = 0;
  for (int rank = 0; rank < graph.size(); ++rank) count += graph.degree(rank) == degree ? 1 : 0;
  return count;
}

TEST(Topology, EveryMatrixIsSymmetricAndDoublyStochastic) {
  on_every_topology([](const Graph& graph) {
    const auto n = static_cast<std::size_t>(graph.size());
    for (std::size_t round = 0; round < graph.period(); ++round) {
      const auto matrix = mixing_matrix(graph, round);
      for (std::size_t i = 0; i < n; ++i) {
        double sum = 0;
        for (std::size_t j = 0; j < n; ++j) {
          EXPECT_EQ(matrix[i * n + j], matrix[j * n + i]);
          EXPECT_GE(matrix[i * n + j], -1e-15);
          sum += matrix[i * n + j];
        }
        EXPECT_NEAR(sum, 1, 1e-12);
      }
    }
  });
}

TEST(Topology, UniformWeightsAreRefusedWhereTheyWouldMoveTheMean) {
  for (const char* spec : {"ring:8", "torus:3x4", "complete:5", "hypercube:8", "matching:8"}) {
    const Graph graph = make_graph(spec).with(Weights::uniform);
    EXPECT_EQ(mixing_matrix(graph), mixing_matrix(make_graph(spec))) << spec;
    EXPECT_DOUBLE_EQ(graph.neighbours(0)[0].weight, 1.0 / (1 + graph.degree(0)));
  }
  for (const char* spec : {"chain:6", "star:6", "social", "random:9,0.4"})
    EXPECT_NE(message_of<UsageError>([&] {
                make_graph(spec).with(Weights::uniform);
              }).find("not doubly stochastic"),
              std::string::npos)
        << spec;
  EXPECT_EQ(message_of<UsageError>([] { make_graph("star:6").with(Weights::uniform); }),
            "uniform weights are not doubly stochastic here: rank 0 has 5 neighbours and rank 1 "
            "has 1; allowed: metropolis weights, or neighbours with as many neighbours");
  // Pieces of a round may differ: a triangle and a pair, joined in the round after.
  const std::vector<std::vector<Edge>> rounds = {{{0, 1}, {1, 2}, {2, 0}, {3, 4}}, {{2, 3}}};
  EXPECT_NO_THROW(Graph(5, rounds, Weights::uniform));
  EXPECT_EQ(weights_of("uniform"), Weights::uniform);
  EXPECT_EQ(message_of<UsageError>([] { weights_of("equal"); }),
            "weights 'equal'; allowed: metropolis, uniform");
}

TEST(Topology, NeighboursAreMutualAndWeighTheSame) {
  on_every_topology([](const Graph& graph) {
    for (std::size_t round = 0; round < graph.period(); ++round)
      for (int rank = 0; rank < graph.size(); ++rank) {
        const auto mine = graph.neighbours(rank, round);
        EXPECT_EQ(mine.size(), static_cast<std::size_t>(graph.degree(rank, round)));
        for (const Neighbour& neighbour : mine) {
          const auto theirs = graph.neighbours(neighbour.rank, round);
          const auto me = std::ranges::find(theirs, rank, &Neighbour::rank);
          ASSERT_NE(me, theirs.end());
          EXPECT_EQ(me->weight, neighbour.weight);
        }
      }
  });
}

TEST(Topology, EveryTopologyMixes) {
  on_every_topology([](const Graph& graph) {
    const Spectrum spectrum = spectrum_of(graph);
    EXPECT_GT(spectrum.gap(), 1e-3);
    EXPECT_GT(spectrum.smallest, -1 + 1e-3);
    EXPECT_LE(spectrum.contraction(spectrum.best_gamma()), spectrum.contraction(1) + 1e-12);
  });
}

// The figures of Koloskova et al., table 2, and of PowerGossip's "optimal for 8-ring".
TEST(Topology, RingsHaveThePapersSpectra) {
  const Spectrum eight = spectrum_of(make_graph("ring:8"));
  EXPECT_NEAR(eight.second, 0.804738, 1e-6);
  EXPECT_NEAR(eight.smallest, -1.0 / 3, 1e-9);
  EXPECT_NEAR(eight.best_gamma(), 1.308391, 1e-6);
  EXPECT_NEAR(eight.contraction(eight.best_gamma()), 0.744521, 1e-6);
  EXPECT_NEAR(eight.contraction(1), 0.804738, 1e-6);
  EXPECT_NEAR(spectrum_of(make_graph("ring:4")).gap(), 0.6667, 1e-4);
  EXPECT_NEAR(spectrum_of(make_graph("ring:16")).gap(), 0.0507, 1e-4);
  EXPECT_NEAR(spectrum_of(make_graph("ring:36")).gap(), 0.0101, 1e-4);
}

TEST(Topology, ClosedFormsOfOtherSpectra) {
  for (const char* spec : {"complete:7", "complete:64", "complete:256"}) {
    const Spectrum complete = spectrum_of(make_graph(spec));
    EXPECT_NEAR(complete.second, 0, 1e-12) << spec;
    EXPECT_NEAR(complete.smallest, 0, 1e-12) << spec;
  }
  // A star of n: once 1, n - 2 times 1 - 1/n, once 0.
  const Spectrum star = spectrum_of(make_graph("star:128"));
  EXPECT_NEAR(star.second, 1 - 1.0 / 128, 1e-12);
  EXPECT_NEAR(star.smallest, 0, 1e-12);
  // Weights 1/(d+1) on a cube of d dimensions: eigenvalues (d + 1 - 2 k) / (d + 1).
  const Spectrum cube = spectrum_of(make_graph("hypercube:16"));
  EXPECT_NEAR(cube.second, 3.0 / 5, 1e-12);
  EXPECT_NEAR(cube.smallest, -3.0 / 5, 1e-12);
  EXPECT_NEAR(spectrum_of(make_graph("ring:2")).second, 0, 1e-12);
  EXPECT_NEAR(spectrum_of({2, 1, 1, 3}, 2).second, (5 - std::sqrt(5.0)) / 2, 1e-12);
}

TEST(Topology, TheSocialGraphIsTheOnePublished) {
  const Graph social = make_graph("social");
  EXPECT_EQ(social.size(), 32);
  EXPECT_EQ(social.edges().size(), 89U);
  std::vector<int> women, events;
  for (int rank = 0; rank < 18; ++rank) women.push_back(social.degree(rank));
  for (int rank = 18; rank < 32; ++rank) events.push_back(social.degree(rank));
  EXPECT_EQ(women, (std::vector<int>{8, 7, 8, 7, 4, 4, 4, 3, 4, 4, 4, 6, 7, 8, 5, 2, 2, 2}));
  EXPECT_EQ(events, (std::vector<int>{3, 3, 6, 4, 8, 8, 10, 14, 12, 5, 4, 6, 3, 3}));
  for (const Edge& edge : social.edges()) EXPECT_TRUE(edge.a < 18 && edge.b >= 18);
}

TEST(Topology, DegreesAreWhatTheNamesSay) {
  EXPECT_EQ(degree_count(make_graph("ring:9"), 2), 9U);
  EXPECT_EQ(degree_count(make_graph("chain:9"), 1), 2U);
  EXPECT_EQ(make_graph("star:9").degree(0), 8);
  EXPECT_EQ(degree_count(make_graph("torus:4x8"), 4), 32U);
  EXPECT_EQ(degree_count(make_graph("torus:2x5"), 3), 10U);
  EXPECT_EQ(make_graph("torus:1x6"), make_graph("ring:6"));
  EXPECT_EQ(degree_count(make_graph("complete:9"), 8), 9U);
  EXPECT_EQ(degree_count(make_graph("hypercube:16"), 4), 16U);
}

TEST(Topology, MatchingsPairEveryRankOncePerRound) {
  const Graph graph = make_graph("matching:16");
  EXPECT_EQ(graph.period(), 4U);
  for (std::uint64_t round = 0; round < 9; ++round)
    for (int rank = 0; rank < 16; ++rank) {
      const auto found = graph.neighbours(rank, round);
      ASSERT_EQ(found.size(), 1U);
      EXPECT_EQ(found[0].rank, rank ^ (1 << (round % 4)));
      EXPECT_EQ(found[0].weight, 0.5);
    }
}

TEST(Topology, RandomGraphsFollowTheirSeed) {
  EXPECT_EQ(make_graph("random:12,0.3,7"), make_graph("random:12,0.3,7"));
  EXPECT_NE(make_graph("random:12,0.3,7"), make_graph("random:12,0.3,8"));
  EXPECT_EQ(make_graph("random:12,1"), make_graph("complete:12"));
}

TEST(Topology, EdgeListsAreRead) {
  const Graph graph = graph_from_edges("# a triangle and a tail\n0 1\n2\t0  # back\r\n1 2\n\n2 3");
  EXPECT_EQ(graph.size(), 4);
  EXPECT_EQ(graph.edges().size(), 4U);
  for (const char* text : {"0", "0 1 2", "0 -1", "a b", "0 1\n1 4096", "0 1.5"})
    EXPECT_NE(message_of<DataError>([&] { graph_from_edges(text); }).find("of the edge list"),
              std::string::npos);
  EXPECT_NE(message_of<UsageError>([] { graph_from_edges(""); }).find("0 ranks"),
            std::string::npos);
}

TEST(Topology, MistakesAreNamed) {
  const auto says = [](const char* spec) {
    return message_of<UsageError>([&] { make_graph(spec); });
  };
  EXPECT_NE(says("rong:8").find("no topology 'rong'; known: chain"), std::string::npos);
  EXPECT_NE(says("ring:1").find("'1' is not allowed"), std::string::npos);
  EXPECT_NE(says("hypercube:12").find("12 ranks; allowed: powers of two"), std::string::npos);
  EXPECT_NE(says("matching:6").find("powers of two"), std::string::npos);
  EXPECT_NE(says("torus:100x100").find("10000 ranks"), std::string::npos);
  EXPECT_NE(says("random:50,0").find("a larger p helps"), std::string::npos);
  EXPECT_EQ(message_of<UsageError>([] {
              Graph(4, {{{0, 1}, {2, 3}}});
            }),
            "the graph is in pieces: no path leads from rank 0 to rank 2");
  EXPECT_NE(message_of<UsageError>([] {
              Graph(4, {{{0, 4}}});
            }).find("edge 0-4 in a graph of 4"),
            std::string::npos);
}

}  // namespace
}  // namespace laconic::testing

// The topologies with a closed form.
#include <bit>

#include "laconic/base/errors.h"
#include "laconic/exchange/gossip/graph.h"

namespace laconic {
namespace {

using Edges = std::vector<Edge>;

int ranks_of(const Args& args) { return static_cast<int>(args.whole("ranks")); }

Graph chain_of(const Args& args) {
  Edges edges;
  for (int rank = 1; rank < ranks_of(args); ++rank) edges.push_back({rank - 1, rank});
  return {ranks_of(args), {std::move(edges)}};
}

Graph ring_of(const Args& args) {
  const int n = ranks_of(args);
  Edges edges;
  for (int rank = 0; rank < n; ++rank) edges.push_back({rank, (rank + 1) % n});
  return {n, {std::move(edges)}};
}

Graph star_of(const Args& args) {
  Edges edges;
  for (int rank = 1; rank < ranks_of(args); ++rank) edges.push_back({0, rank});
  return {ranks_of(args), {std::move(edges)}};
}

Graph complete_of(const Args& args) {
  Edges edges;
  for (int b = 1; b < ranks_of(args); ++b)
    for (int a = 0; a < b; ++a) edges.push_back({a, b});
  return {ranks_of(args), {std::move(edges)}};
}

// A side of one or two ranks has no edge around it that is not there already.
Graph torus_of(const Args& args) {
  const auto rows = static_cast<int>(args.whole("rows")),
             cols = static_cast<int>(args.whole("cols"));
  if (rows * cols < 2 || rows * cols > kMostNodes)
    throw UsageError("torus: " + std::to_string(rows * cols) + " ranks; allowed: 2 to " +
                     std::to_string(kMostNodes));
  Edges edges;
  for (int row = 0; row < rows; ++row)
    for (int col = 0; col < cols; ++col) {
      const int rank = row * cols + col;
      const int right = row * cols + (col + 1) % cols, below = (row + 1) % rows * cols + col;
      if (right != rank) edges.push_back({rank, right});
      if (below != rank) edges.push_back({rank, below});
    }
  return {rows * cols, {std::move(edges)}};
}

// Along dimension d every rank has one partner: the rank whose bit d differs.
std::vector<Edges> hypercube_matchings(const std::string& topology, int n) {
  if (!std::has_single_bit(static_cast<unsigned>(n)))
    throw UsageError(topology + ": " + std::to_string(n) + " ranks; allowed: powers of two");
  std::vector<Edges> matchings;
  for (int bit = 1; bit < n; bit *= 2) {
    matchings.emplace_back();
    for (int rank = 0; rank < n; ++rank)
      if ((rank & bit) == 0) matchings.back().push_back({rank, rank | bit});
  }
  return matchings;
}

Graph hypercube_of(const Args& args) {
  Edges edges;
  for (const Edges& matching : hypercube_matchings("hypercube", ranks_of(args)))
    edges.insert(edges.end(), matching.begin(), matching.end());
  return {ranks_of(args), {std::move(edges)}};
}

Graph matching_of(const Args& args) {
  return {ranks_of(args), hypercube_matchings("matching", ranks_of(args))};
}

Parameter side(std::string name) {
  return {.name = std::move(name), .min = 1, .max = kMostNodes, .whole = true};
}

const RegisterTopology ring{{
    .name = "ring",
    .summary = "Each rank with the one before and the one after it.",
    .paper = "Lian et al., D-PSGD (arXiv 1705.09056)",
    .parameters = {ranks_parameter()},
    .examples = {"ring:2", "ring:5", "ring:8"},
    .make = ring_of,
}};

const RegisterTopology chain{{
    .name = "chain",
    .summary = "A ring that was cut once.",
    .paper = "",
    .parameters = {ranks_parameter()},
    .examples = {"chain:6"},
    .make = chain_of,
}};

const RegisterTopology star{{
    .name = "star",
    .summary = "Rank 0 with all others.",
    .paper = "",
    .parameters = {ranks_parameter()},
    .examples = {"star:6"},
    .make = star_of,
}};

const RegisterTopology torus{{
    .name = "torus",
    .summary = "A grid whose edges are joined: four neighbours each.",
    .paper = "Koloskova et al., CHOCO-SGD (arXiv 1907.09356)",
    .parameters = {side("rows"), side("cols")},
    .examples = {"torus:3x4", "torus:4x4"},
    .make = torus_of,
}};

const RegisterTopology complete{{
    .name = "complete",
    .summary = "Each rank with every other.",
    .paper = "",
    .parameters = {ranks_parameter()},
    .examples = {"complete:5"},
    .make = complete_of,
}};

const RegisterTopology hypercube{{
    .name = "hypercube",
    .summary = "Ranks whose numbers differ in one bit; log2(ranks) neighbours each.",
    .paper = "",
    .parameters = {ranks_parameter()},
    .examples = {"hypercube:8"},
    .make = hypercube_of,
}};

const RegisterTopology matching{{
    .name = "matching",
    .summary = "One partner each: in round t the rank whose bit t mod log2(ranks) differs.",
    .paper = "Assran et al. (arXiv 1811.10792), with undirected pairs",
    .parameters = {ranks_parameter()},
    .examples = {"matching:4", "matching:8"},
    .make = matching_of,
}};

}  // namespace
}  // namespace laconic

// Who mixes with whom: an undirected graph over the ranks, which may change from round to round,
// and the weights of its edges.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "laconic/base/args.h"

namespace laconic {

// An undirected edge. A graph's edges have a < b.
struct Edge {
  int a, b;
  friend auto operator<=>(const Edge&, const Edge&) = default;
};

// W_ij, what rank i takes of its neighbour j. On a regular graph the two are the same.
enum class Weights {
  metropolis,  // 1 / (1 + the larger degree of the two)
  uniform,     // 1 / (1 + the degree of i)
};

// "metropolis" or "uniform"; throws UsageError for others.
Weights weights_of(std::string_view name);

struct Neighbour {
  int rank;
  double weight;  // W_ij
};

// A value. Round t has the edges of t modulo the period; a graph that stays has period 1.
class Graph {
 public:
  // Edges may come in any order, either way round and twice. Throws UsageError for an edge from a
  // rank to itself or out of range, when all rounds together leave the graph in pieces, and when
  // the weights are not doubly stochastic: gossip would not keep the mean of all models.
  Graph(int size, std::vector<std::vector<Edge>> rounds, Weights weights = Weights::metropolis);

  int size() const { return size_; }
  std::size_t period() const { return rounds_.size(); }
  std::span<const Edge> edges(std::uint64_t round = 0) const { return rounds_[at(round)]; }
  int degree(int rank, std::uint64_t round = 0) const {
    return degrees_[at(round)][static_cast<std::size_t>(rank)];
  }

  // The same edges with other weights.
  Graph with(Weights weights) const { return {size_, rounds_, weights}; }

  // Of both directions: W is symmetric, and every row sums to 1.
  double weight(const Edge& edge, std::uint64_t round = 0) const;

  // By rising rank.
  std::vector<Neighbour> neighbours(int rank, std::uint64_t round = 0) const;

  friend bool operator==(const Graph&, const Graph&) = default;

 private:
  double taken(int by, int from, std::uint64_t round) const;  // W_ij
  void require_doubly_stochastic(std::uint64_t round) const;
  std::size_t at(std::uint64_t round) const {
    return static_cast<std::size_t>(round % rounds_.size());
  }

  int size_;
  std::vector<std::vector<Edge>> rounds_;
  std::vector<std::vector<int>> degrees_;
  Weights weights_;
};

struct TopologyInfo {
  std::string name, summary, paper;
  std::vector<Parameter> parameters;
  std::vector<std::string> examples;  // what every test of all topologies runs
  std::function<Graph(const Args&)> make;
};

const std::vector<TopologyInfo>& topologies();

struct RegisterTopology {
  explicit RegisterTopology(TopologyInfo info);
};

// Example: make_graph("torus:4x8"). An 'x' between two digits means the same as a comma.
Graph make_graph(std::string_view spec);

// One edge per line, two ranks apart by spaces; '#' starts a comment. The highest rank decides the
// size. Throws DataError naming the line that is none.
Graph graph_from_edges(std::string_view text);

// How many ranks: the parameter nearly every topology has.
Parameter ranks_parameter();
inline constexpr int kMostNodes = 4096;

}  // namespace laconic

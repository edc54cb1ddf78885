// Graphs: their checks, their weights, and the table of topologies.
#include "laconic/exchange/gossip/graph.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <numeric>

#include "laconic/base/registry.h"

namespace laconic {
namespace {

Registry<TopologyInfo>& registry() {
  static Registry<TopologyInfo> topologies("topology");
  return topologies;
}

std::string text_of(const Edge& edge) {
  return std::to_string(edge.a) + "-" + std::to_string(edge.b);
}

// Each edge once, a < b, in order.
void tidy(std::vector<Edge>& edges, int size) {
  for (Edge& edge : edges) {
    if (edge.a > edge.b) std::swap(edge.a, edge.b);
    if (edge.a == edge.b || edge.a < 0 || edge.b >= size)
      throw UsageError("edge " + text_of(edge) + " in a graph of " + std::to_string(size) +
                       " ranks; allowed: two different ranks from 0 to " +
                       std::to_string(size - 1));
  }
  std::ranges::sort(edges);
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
}

std::vector<int> degrees_of(const std::vector<Edge>& edges, int size) {
  std::vector<int> degrees(static_cast<std::size_t>(size));
  for (const Edge& edge : edges) {
    ++degrees[static_cast<std::size_t>(edge.a)];
    ++degrees[static_cast<std::size_t>(edge.b)];
  }
  return degrees;
}

// The first rank that cannot be reached from rank 0 over the edges of any round; -1 when all can.
int unreached(const std::vector<std::vector<Edge>>& rounds, int size) {
  std::vector<int> leaders(static_cast<std::size_t>(size));  // disjoint sets
  std::iota(leaders.begin(), leaders.end(), 0);
  const auto leader = [&](int rank) -> int& { return leaders[static_cast<std::size_t>(rank)]; };
  const auto find = [&](int rank) {
    while (leader(rank) != rank) rank = leader(rank) = leader(leader(rank));
    return rank;
  };
  for (const auto& edges : rounds)
    for (const Edge& edge : edges) leader(find(edge.b)) = find(edge.a);
  for (int rank = 0; rank < size; ++rank)
    if (find(rank) != find(0)) return rank;
  return -1;
}

// The next whole number of a line, taken off its front.
bool take_rank(std::string_view& line, int& rank) {
  const auto first = std::min(line.find_first_not_of(" \t\r"), line.size());
  line.remove_prefix(first);
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), rank);
  line.remove_prefix(static_cast<std::size_t>(end - line.data()));
  return error == std::errc() && rank >= 0 && rank < kMostNodes;
}

// "4x8" as "4,8".
std::string with_commas_for_x(std::string_view args) {
  std::string text(args);
  const auto digit = [&](std::size_t i) {
    return i < text.size() && std::isdigit(static_cast<unsigned char>(text[i])) != 0;
  };
  for (std::size_t i = 1; i < text.size(); ++i)
    if (text[i] == 'x' && digit(i - 1) && digit(i + 1)) text[i] = ',';
  return text;
}

}  // namespace

Weights weights_of(std::string_view name) {
  if (name == "metropolis") return Weights::metropolis;
  if (name == "uniform") return Weights::uniform;
  throw UsageError("weights '" + std::string(name) + "'; allowed: metropolis, uniform");
}

Graph::Graph(int size, std::vector<std::vector<Edge>> rounds, Weights weights)
    : size_(size), rounds_(std::move(rounds)), weights_(weights) {
  if (size < 2 || size > kMostNodes)
    throw UsageError("a graph of " + std::to_string(size) + " ranks; allowed: 2 to " +
                     std::to_string(kMostNodes));
  if (rounds_.empty()) throw UsageError("a graph of no rounds; allowed: at least one");
  for (auto& edges : rounds_) {
    tidy(edges, size);
    degrees_.push_back(degrees_of(edges, size));
  }
  if (const int rank = unreached(rounds_, size); rank >= 0)
    throw UsageError("the graph is in pieces: no path leads from rank 0 to rank " +
                     std::to_string(rank));
  for (std::size_t round = 0; round < rounds_.size(); ++round) require_doubly_stochastic(round);
}

double Graph::taken(int by, int from, std::uint64_t round) const {
  const int larger = std::max(degree(by, round), degree(from, round));
  return 1.0 / (1 + (weights_ == Weights::uniform ? degree(by, round) : larger));
}

// Rows sum to 1 by what ranks keep of their own; columns do where every edge weighs the same both
// ways: what is taken of a rank is then what it takes.
void Graph::require_doubly_stochastic(std::uint64_t round) const {
  for (const Edge& edge : edges(round))
    if (taken(edge.a, edge.b, round) != taken(edge.b, edge.a, round))
      throw UsageError("uniform weights are not doubly stochastic here: rank " +
                       std::to_string(edge.a) + " has " + std::to_string(degree(edge.a, round)) +
                       " neighbours and rank " + std::to_string(edge.b) + " has " +
                       std::to_string(degree(edge.b, round)) +
                       "; allowed: metropolis weights, or neighbours with as many neighbours");
}

double Graph::weight(const Edge& edge, std::uint64_t round) const {
  return taken(edge.a, edge.b, round);
}

std::vector<Neighbour> Graph::neighbours(int rank, std::uint64_t round) const {
  std::vector<Neighbour> found;
  for (const Edge& edge : edges(round)) {
    if (edge.a == rank) found.push_back({edge.b, weight(edge, round)});
    if (edge.b == rank) found.push_back({edge.a, weight(edge, round)});
  }
  std::ranges::sort(found, {}, &Neighbour::rank);
  return found;
}

const std::vector<TopologyInfo>& topologies() { return registry().all(); }

RegisterTopology::RegisterTopology(TopologyInfo info) { registry().add(std::move(info)); }

Graph make_graph(std::string_view spec) {
  const auto stages = split_chain(spec);
  if (stages.size() != 1)
    throw UsageError("a topology is one word, not '" + std::string(spec) + "'");
  const TopologyInfo& info = registry().at(stages[0].name);
  return info.make(Args(info.name, info.parameters, with_commas_for_x(stages[0].args)));
}

Graph graph_from_edges(std::string_view text) {
  std::vector<Edge> edges;
  int size = 0;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const auto end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    line = line.substr(0, line.find('#'));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    Edge edge{};
    if (!take_rank(line, edge.a) || !take_rank(line, edge.b) ||
        line.find_first_not_of(" \t\r") != std::string_view::npos)
      throw DataError("line " + std::to_string(number) +
                      " of the edge list is not two ranks from 0 to " +
                      std::to_string(kMostNodes - 1));
    edges.push_back(edge);
    size = std::max({size, edge.a + 1, edge.b + 1});
  }
  return {size, {std::move(edges)}};
}

Parameter ranks_parameter() {
  return {.name = "ranks", .min = 2, .max = kMostNodes, .whole = true, .help = "how many ranks"};
}

}  // namespace laconic

// random: each pair of ranks is joined with the same probability.
#include "laconic/base/errors.h"
#include "laconic/base/key.h"
#include "laconic/exchange/gossip/graph.h"

namespace laconic {
namespace {

constexpr int kMostTries = 1000;

std::vector<Edge> draw(int n, double p, Key key) {
  std::vector<Edge> edges;
  std::uint64_t pair = 0;
  for (int b = 1; b < n; ++b)
    for (int a = 0; a < b; ++a)
      if (static_cast<double>(key.bits(pair++) >> 11) * 0x1p-53 < p) edges.push_back({a, b});
  return edges;
}

// Drawn again until it is connected: a graph in pieces never agrees.
Graph random_of(const Args& args) {
  const auto n = static_cast<int>(args.whole("ranks"));
  for (std::uint64_t attempt = 0; attempt < kMostTries; ++attempt) {
    try {
      return {n, {draw(n, args.number("p"), Key(args.whole("seed")).fork(attempt))}};
    } catch (const UsageError&) {  // in pieces
    }
  }
  throw UsageError("random: none of " + std::to_string(kMostTries) + " graphs of " +
                   std::to_string(n) + " ranks with p = " + args.text("p") +
                   " is connected; a larger p helps");
}

const RegisterTopology random_graph{{
    .name = "random",
    .summary = "Each pair of ranks joined with probability p; drawn again until connected.",
    .paper = "Erdos and Renyi, On random graphs I",
    .parameters = {ranks_parameter(),
                   {.name = "p", .fallback = "0.5", .min = 0, .max = 1},
                   {.name = "seed", .fallback = "0", .min = 0, .max = 0x1p53, .whole = true}},
    .examples = {"random:9,0.4", "random:7,p=0.5,seed=3"},
    .make = random_of,
}};

}  // namespace
}  // namespace laconic

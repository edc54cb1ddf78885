// pairs: ranks meet two by two, drawn anew in every round.
#include <numeric>

#include "laconic/base/errors.h"
#include "laconic/base/key.h"
#include "laconic/exchange/gossip/graph.h"

namespace laconic {
namespace {

constexpr std::uint64_t kMostTries = 1000;

// Ranks in an order drawn by Fisher and Yates: neighbours in it are a pair; of an odd number the
// last one rests.
std::vector<Edge> draw_pairs(int n, Key key) {
  std::vector<int> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t i = order.size() - 1; i > 0; --i)
    std::swap(order[i], order[key.bits(i) % (i + 1)]);
  std::vector<Edge> edges;
  for (std::size_t i = 0; i + 1 < order.size(); i += 2) edges.push_back({order[i], order[i + 1]});
  return edges;
}

// All rounds of the period together must join all ranks: drawn again until they do.
Graph pairs_of(const Args& args) {
  const auto n = static_cast<int>(args.whole("ranks"));
  for (std::uint64_t attempt = 0; attempt < kMostTries; ++attempt) {
    std::vector<std::vector<Edge>> rounds;
    const Key key = Key(args.whole("seed")).fork(attempt);
    for (std::uint64_t t = 0; t < args.whole("rounds"); ++t)
      rounds.push_back(draw_pairs(n, key.fork(t)));
    try {
      return {n, std::move(rounds)};
    } catch (const UsageError&) {  // in pieces
    }
  }
  throw UsageError("pairs: " + args.text("rounds") + " rounds of pairs leave " + std::to_string(n) +
                   " ranks in pieces; more rounds help");
}

const RegisterTopology pairs{{
    .name = "pairs",
    .summary = "One partner each, drawn at random in every round of a period; one rank of an odd "
               "number rests.",
    .paper = "Kolehmainen et al., NoLoCo (arXiv 2506.10911)",
    .parameters = {ranks_parameter(),
                   {.name = "rounds", .fallback = "64", .min = 1, .max = 65536, .whole = true},
                   {.name = "seed", .fallback = "0", .min = 0, .max = 0x1p53, .whole = true}},
    .examples = {"pairs:5,3", "pairs:6,4", "pairs:4,3,seed=5"},
    .make = pairs_of,
}};

}  // namespace
}  // namespace laconic

// social: who met where in a town of the 1930s. Ranks 0 to 17 are women, 18 to 31 the events they
// went to.
#include <iterator>

#include "laconic/exchange/gossip/graph.h"

namespace laconic {
namespace {

constexpr int kWomen = 18, kEvents = 14;

// A row per woman, a letter per event, 'a' for the first.
constexpr std::string_view kAttended[kWomen] = {
    "abcdefhi", "abcefgh",  "bcdefghi", "acdefgh", "cdeg", "cefh",    // Evelyn ... Frances
    "efgh",     "fhi",      "eghi",     "ghil",    "hijl", "hijlmn",  // Eleanor ... Katherine
    "ghijlmn",  "fgijklmn", "ghjkl",    "hi",      "ik",   "ik",      // Sylvia ... Flora
};

Graph social_of(const Args&) {
  std::vector<Edge> edges;
  for (int woman = 0; woman < kWomen; ++woman)
    for (const char event : kAttended[woman]) edges.push_back({woman, kWomen + (event - 'a')});
  return {kWomen + kEvents, {std::move(edges)}};
}

const RegisterTopology social{{
    .name = "social",
    .summary = "The Davis southern women graph: 18 women, 14 events, 89 edges; 32 ranks.",
    .paper = "Davis, Gardner and Gardner, Deep South (1941); used by CHOCO-SGD and PowerGossip",
    .parameters = {},
    .examples = {"social"},
    .make = social_of,
}};

}  // namespace
}  // namespace laconic

// sharded: a compressed reduce-scatter and all-gather. Each rank adds up one shard of the model and
// sends its sum to all, so what a rank sends does not grow with their number.
#include "laconic/exchange/two_way.h"

namespace laconic {
namespace {

// The same feedback without masking: owners have no momentum of their own.
std::string unmasked(const std::string& feedback) {
  std::string kept;
  const std::size_t colon = feedback.find(':');
  std::string_view rest =
      colon == std::string::npos ? "" : std::string_view(feedback).substr(colon + 1);
  while (!rest.empty()) {
    const std::string_view word = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), word.size() + 1));
    if (word == "on" || word == "off" || word.starts_with("masking=")) continue;
    kept += (kept.empty() ? ":" : ",") + std::string(word);
  }
  return "feedback" + kept;
}

// Owners of shards repair what the second compression drops, when that is how ranks repair the
// first. Feedback does so for every memory: what ranks send, whatever it is, arrives as a whole.
std::string memory_of_owners(const std::string& memory) {
  const std::string name = memory.substr(0, memory.find(':'));
  for (const MemoryInfo& info : memories())
    if (info.name == name && info.wants_contraction)
      return name == "feedback" ? unmasked(memory) : "feedback";
  return "none";
}

const RegisterExchange sharded{{
    .name = "sharded",
    .summary = "Each rank adds up one shard and sends the compressed sum to all; sends "
               "2 (ranks - 1) / ranks frames.",
    .paper = "compressed reduce-scatter and all-gather, with compression in both directions as in "
             "Horvath et al., Natural Compression (arXiv 1905.10988)",
    .parameters = {},
    .follows_warmup = true,
    .make = [](const Setup& setup, const Args&) -> std::unique_ptr<Exchange> {
      return make_two_way(setup, even_shards(setup.plan.layout, setup.transport.size()),
                          memory_of_owners(setup.memory));
    },
}};

const RegisterForesight foresight{{
    .name = "sharded",
    .make = [](Rehearsal& rehearsal, const Args&) -> std::unique_ptr<Foresight> {
      return foresee_two_way(rehearsal, even_shards(rehearsal.plan.layout, rehearsal.ranks));
    },
}};

}  // namespace
}  // namespace laconic

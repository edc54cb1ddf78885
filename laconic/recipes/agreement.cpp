// Ranks compare notes before the first step.
#include <nlohmann/json.hpp>

#include "laconic/base/errors.h"
#include "laconic/exchange/conversation.h"
#include "laconic/frame/frame.h"
#include "laconic/recipes/recipe.h"
#include "laconic/version.h"

namespace laconic {
namespace {

using nlohmann::json;

// Everything ranks must have in common, field by field.
json notes_of(const Agreement& agreement) {
  json model = json::array();
  for (const Tensor& tensor : agreement.model) model.push_back({tensor.name, tensor.shape});
  return {{"version", LACONIC_VERSION},
          {"data version", kDataVersion},
          {"recipe", json::parse(write_recipe(agreement.recipe))},
          {"model", model},
          {"seed", agreement.seed}};
}

std::string shortened(const json& value) {
  const std::string text = value.dump();
  return text.size() <= 120 ? text : text.substr(0, 117) + "...";
}

// Of two recipes, the members in which they differ say more than the whole.
std::string difference(const std::string& key, const json& a, const json& b, std::size_t rank) {
  if (a.is_object() && b.is_object())
    for (const auto& [member, value] : a.items())
      if (const json other = b.value(member, json()); value != other)
        return difference(key + "'s " + member, value, other, rank);
  return "ranks disagree on the " + key + ": rank 0 has " + shortened(a) + ", rank " +
         std::to_string(rank) + " has " + shortened(b);
}

}  // namespace

void agree(const Agreement& agreement, Transport& transport) {
  const json mine = notes_of(agreement);
  std::vector<Buffer> all;
  constexpr std::uint64_t kMost = std::uint64_t{64}
                                  << 20;  // the names and shapes of a hundred thousand tensors
  Conversation(transport, Deadline::in(agreement.timeout_seconds, "agreement of ranks"))
      .all_gather(as_bytes(mine.dump()), all, kMost);
  const json first = json::parse(as_text(all[0].view()), nullptr, false);
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    const json other = json::parse(as_text(all[rank].view()), nullptr, false);
    if (first == other) continue;
    for (const auto& [key, value] : mine.items()) {
      const json a = first.is_object() ? first.value(key, json()) : json();
      const json b = other.is_object() ? other.value(key, json()) : json();
      if (a != b) throw UsageError(difference(key, a, b, rank));
    }
    throw UsageError("ranks disagree: rank " + std::to_string(rank) + " runs another version");
  }
}

}  // namespace laconic

// Ranks compare notes before the first step.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "laconic/base/errors.h"
#include "laconic/exchange/conversation.h"
#include "laconic/frame/frame.h"
#include "laconic/recipes/recipe.h"
#include "laconic/version.h"

namespace laconic {
namespace {

using nlohmann::json;

constexpr const char* kKeys[] = {"version",    "data version", "recipe",
                                 "model",      "seed",         "checksum of the start parameters",
                                 "unit bytes", "guard"};

// Far above what the notes of a hundred thousand tensors have; a peer's bytes cannot take more.
constexpr std::uint64_t kMostBytes = std::uint64_t{64} << 20;
constexpr std::size_t kMostValues = std::size_t{1} << 21;
constexpr int kDeepest = 16;  // comparing and printing recurse

// Notes a rank has sent, which may be any bytes.
json read_notes(ByteView bytes, std::size_t rank) {
  const auto refuse = [&](const char* why) {
    throw DataError("the notes of rank " + std::to_string(rank) + " cannot be read: " + why);
  };
  std::size_t values = 0;
  const auto bounded = [&](int depth, json::parse_event_t, const json&) {
    if (depth > kDeepest) refuse("they are nested too deep");
    if (++values > kMostValues) refuse("they hold too many values");
    return true;
  };
  json notes = json::parse(as_text(bytes), bounded, false);
  if (!notes.is_object()) refuse("they are not a JSON object");
  return notes;
}

std::string shortened(const std::string& text) {
  return text.size() <= 120 ? text : text.substr(0, 117) + "...";
}

// A name that came from elsewhere, without anything a terminal would act on.
std::string escaped(const std::string& name) {
  const std::string quoted = json(name).dump();
  return shortened(quoted.substr(1, quoted.size() - 2));
}

// Of two recipes, the members in which they differ say more than the whole.
std::string difference(const std::string& key, const json& a, const json& b, std::size_t rank) {
  if (a.is_object() && b.is_object())
    for (const auto& [member, value] : a.items())
      if (const json other = b.value(member, json()); value != other)
        return difference(key + "'s " + escaped(member), value, other, rank);
  return "ranks disagree on the " + key + ": rank 0 has " + shortened(a.dump()) + ", rank " +
         std::to_string(rank) + " has " + shortened(b.dump());
}

void compare(const json& first, const json& other, std::size_t rank) {
  for (const char* key : kKeys) {
    const json a = first.value(key, json()), b = other.value(key, json());
    if (a != b) throw UsageError(difference(key, a, b, rank), static_cast<int>(rank));
  }
  if (first != other)
    throw UsageError("ranks disagree: rank " + std::to_string(rank) + " runs another version",
                     static_cast<int>(rank));
}

}  // namespace

std::string write_notes(const Agreement& agreement) {
  json model = json::array();
  for (const Tensor& tensor : agreement.model) model.push_back({tensor.name, tensor.shape});
  const json notes = {{"version", LACONIC_VERSION},
                      {"data version", kDataVersion},
                      {"recipe", json::parse(write_recipe(agreement.recipe))},
                      {"model", model},
                      {"seed", agreement.seed},
                      {"checksum of the start parameters", agreement.start_crc},
                      {"unit bytes", agreement.unit_bytes},
                      {"guard", static_cast<int>(agreement.guard.mode)}};
  return notes.dump();
}

// Ranks that agree have sent the same bytes, so only notes that differ are read.
void compare_notes(std::span<const ByteView> notes) {
  for (std::size_t rank = 1; rank < notes.size(); ++rank)
    if (!std::ranges::equal(notes[0], notes[rank]))
      compare(read_notes(notes[0], 0), read_notes(notes[rank], rank), rank);
}

void agree(const Agreement& agreement, Transport& transport) {
  std::vector<Buffer> all;
  Conversation(transport, Deadline::in(agreement.timeout_seconds, "agreement of ranks"))
      .all_gather(as_bytes(write_notes(agreement)), all, kMostBytes);
  std::vector<ByteView> notes;
  for (const Buffer& bytes : all) notes.push_back(bytes.view());
  compare_notes(notes);
}

}  // namespace laconic

// Ranks tell each other what keeps them from starting.
#include "cli/trainer/obstacle.h"

#include <algorithm>
#include <vector>

#include "laconic/exchange/conversation.h"

namespace laconic::cli {
namespace {

constexpr std::size_t kMost = 4096;  // bytes of a sentence, and one for the status before it

}  // namespace

std::optional<Obstacle> first_obstacle(const std::optional<Obstacle>& mine, Transport& transport,
                                       double timeout_seconds) {
  std::string said;
  if (mine) said = static_cast<char>(mine->status) + mine->message.substr(0, kMost - 1);
  std::vector<Buffer> all;
  Conversation(transport, Deadline::in(timeout_seconds, "all_gather of obstacles"))
      .all_gather(as_bytes(said), all, kMost);
  const auto first = std::ranges::find_if(all, [](const Buffer& b) { return b.size() > 0; });
  if (first == all.end()) return {};
  const bool of_all = std::ranges::all_of(
      all, [&](const Buffer& b) { return std::ranges::equal(b.view(), first->view()); });
  const std::string message(as_text(first->view().subspan(1)));
  const std::string rank = "rank " + std::to_string(first - all.begin()) + ": ";
  return Obstacle{static_cast<Status>(first->view()[0]), of_all ? message : rank + message};
}

}  // namespace laconic::cli

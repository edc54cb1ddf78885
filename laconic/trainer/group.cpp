// Blocking talk over a transport.
#include "laconic/trainer/group.h"

#include <algorithm>

#include "laconic/exchange/conversation.h"

namespace laconic::trainer {
namespace {

constexpr std::uint64_t kMostState = std::uint64_t{1} << 36;  // bytes of one rank's

}  // namespace

void Group::gather_bytes(ByteView mine, std::vector<Buffer>& all, std::string_view operation) {
  Conversation(transport_, deadline(operation)).all_gather(mine, all, mine.size());
}

bool Group::any(bool mine, std::string_view operation) {
  const auto all = gather(std::array{static_cast<std::uint8_t>(mine)}, operation);
  return std::ranges::any_of(all, [](const auto& of_rank) { return of_rank[0] != 0; });
}

void Group::average(std::span<float> values, std::string_view operation) {
  Conversation(transport_, deadline(operation)).all_reduce(values);
  for (float& value : values) value /= static_cast<float>(size());
}

std::vector<std::vector<float>> Group::swap(std::span<const float> mine, std::span<const int> peers,
                                            std::string_view operation) {
  std::vector<std::vector<float>> theirs(peers.size(), std::vector<float>(mine.size()));
  std::vector<Send> sends;
  std::vector<Receive> receives;
  for (std::size_t i = 0; i < peers.size(); ++i) {
    sends.push_back(
        {peers[i], {reinterpret_cast<const std::uint8_t*>(mine.data()), mine.size_bytes()}});
    receives.push_back(Receive::exactly(
        peers[i], {reinterpret_cast<std::uint8_t*>(theirs[i].data()), mine.size_bytes()}));
  }
  Conversation(transport_, deadline(operation)).exchange(sends, receives);
  return theirs;
}

std::vector<State> Group::states_at_first(const State& mine) {
  const Buffer bytes = write_state(mine);
  std::vector<Buffer> all(rank() == 0 ? size() : 0);
  std::vector<Receive> receives;
  for (std::size_t rank = 1; rank < all.size(); ++rank)
    receives.push_back(Receive::sized(static_cast<int>(rank), all[rank], kMostState));
  const std::vector<Send> sends(rank() == 0 ? 0 : 1, Send{0, bytes.view()});
  Conversation(transport_, deadline("exchange of states")).exchange(sends, receives);
  std::vector<State> states;
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    states.push_back(rank == 0 ? mine : read_state(all[rank].view()));
  return states;
}

}  // namespace laconic::trainer

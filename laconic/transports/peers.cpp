// Whom to name.
#include "laconic/transports/peers.h"

#include <set>

namespace laconic {

using Clock = std::chrono::steady_clock;

void Peers::waits(int from, const std::optional<Tag>& tag, std::uint64_t whom) {
  Need& need = needs_[at(from)];
  if (whom >= needs_.size())
    need = {};
  else if (need.rank == kNobody || tag < need.tag)
    need = {static_cast<int>(whom), tag};
}

int Peers::behind(int peer, const Tag& tag) const {
  return lost_behind(peer, tag, rank_, static_cast<int>(needs_.size()),
                     [&](int of) { return needs_[at(of)]; });
}

void Peers::check_left(const Awaited& awaited, std::string_view operation) {
  for (const auto* ranks : {&awaited.senders, &awaited.receivers})
    for (const int peer : *ranks)
      if (has_left(peer)) {
        blames_ = behind(peer, awaited.tag);
        throw lost_error({.lost = blames_,
                          .left = has_left(blames_),
                          .peer = peer,
                          .rank = rank_,
                          .what = ranks == &awaited.senders ? "to send" : "to receive"},
                         operation);
      }
}

TransportError Peers::lost(const Awaited& awaited, const Deadline& deadline) {
  const std::vector<int>& ranks = awaited.first();
  const std::string what =
      (awaited.senders.empty() ? "to receive " : "to send ") + deadline.within();
  std::set<int> lost;
  for (const int rank : ranks) lost.insert(behind(rank, awaited.tag));
  blames_ = lost.empty() ? kNobody : *lost.begin();
  if (lost.size() == 1)
    return lost_error({.lost = blames_,
                       .left = has_left(blames_),
                       .peer = std::ranges::count(ranks, blames_) ? blames_ : ranks.front(),
                       .rank = rank_,
                       .what = what},
                      deadline.operation);
  std::vector<std::string> names;
  for (const int rank : lost) names.push_back("rank " + std::to_string(rank));
  return TransportError(join(names) + " do not answer: rank " + std::to_string(rank_) +
                            " waits for them " + what + " (" + std::string(deadline.operation) +
                            ")",
                        blames_);
}

Clock::time_point Peers::late_at(Clock::time_point began, Clock::time_point due) const {
  if (std::ranges::any_of(needs_, [](const Need& need) { return need.rank != kNobody; }))
    return began;
  return due - std::min<Clock::duration>(std::chrono::seconds(5), (due - began) / 2);
}

}  // namespace laconic

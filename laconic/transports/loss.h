// Who holds all up: sentences for ranks that have left or do not answer.
#pragma once

#include <optional>

#include "laconic/exchange/transport.h"

namespace laconic {

// For whom a rank waits, and for what of it: its first message that is missing. Who could not go on
// because of another needs it with no tag.
struct Need {
  int rank = kNobody;
  std::optional<Tag> tag = {};
};

// Whom rank `rank` of `size` really waits for when it waits for `peer` under a tag: the last of
// those who wait for each other. needs(r) is what rank r waits for. One that waits for something
// later than what is missing of it believes that it has sent that: the chain ends there, though
// others wait for each other in a circle. That may be this rank itself.
template <class Needs>
int lost_behind(int peer, Tag tag, int rank, int size, Needs needs) {
  for (int steps = 0; steps < size; ++steps) {
    const Need next = needs(peer);
    if (next.rank == rank && next.tag && *next.tag < tag) return rank;
    if (next.rank == kNobody || next.rank == rank || (next.tag && *next.tag > tag)) break;
    peer = next.rank;
    tag = next.tag.value_or(tag);
  }
  return peer;
}

// Why a rank cannot go on.
struct Loss {
  int lost;          // who holds all up
  bool left;         // it has left; else it does not answer
  int peer;          // for whom this rank waits: the same, or one that waits for it in the end
  int rank;          // this one
  std::string what;  // "to send within 2.5 s"
};

// "rank 2 does not answer: rank 0 waits for it to send within 2.5 s (all_reduce of gradients)"
TransportError lost_error(const Loss& loss, std::string_view operation);

}  // namespace laconic

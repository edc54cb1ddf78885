// Who holds all up: sentences for ranks that have left or do not answer.
#pragma once

#include "laconic/exchange/transport.h"

namespace laconic {

// Whom rank `rank` of `size` really waits for when it waits for `peer`: the last of those who wait
// for each other. needs(r) is the one that rank r waits for, kNobody if it waits for none.
template <class Needs>
int lost_behind(int peer, int rank, int size, Needs needs) {
  for (int steps = 0; steps < size; ++steps) {
    const int next = needs(peer);
    if (next == kNobody || next == rank) break;
    peer = next;
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

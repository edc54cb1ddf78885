// How long a step takes: units, legs, a link with two directions and one thread of the engine, by
// the rules of exchange/attempt.cpp, on a clock that costs nothing.
#pragma once

#include "laconic/exchange/foresight.h"
#include "laconic/planner/link.h"

namespace laconic {

// Seconds of one core for one entry.
struct Rates {
  double encode = 0;  // memory, operator and frame
  double add = 0;     // one more entry of a frame opened and added up
  double write = 0;   // an entry of the mean, the first frame's apart
  double sum = 0;     // a plain float added up
};

// A unit, and when its gradients are final, in seconds from the begin of the backward pass.
struct TimedUnit {
  double ready = 0;
  double entries = 0;
  ForeseenUnit unit = {};
};

// What a worker has of processors: what a thread gets of a core while one of each worker's runs,
// and while two of them do, one that computes and one of the engine; and what the system takes.
struct Shares {
  double one = 1, two = 1;
  Stack stack = {};
};

// Of workers that have so many cores in common; 0: each has cores of its own.
Shares shares_of(int workers, unsigned cores);

struct StepTimes {
  double seconds = 0;  // from the begin of the backward pass to the last mean and vote
  double kernels = 0;  // seconds of a core that the engine's thread computed, without the system's
  double on_link = 0;  // what the busier direction of the link was taken for
};

// All ranks are alike: they start a leg at the same time. Units are in the order in which they
// become ready while nothing disturbs the backward pass. With shares below 1 the engine disturbs
// it: what it works comes on top. Workers that have less than a core each take turns, and the step
// is that of the last: its pass takes as long as with a core of its own, and ends when all have.
StepTimes time_step(std::span<const TimedUnit> units, const Link& link, const Rates& rates,
                    int ranks, bool framed, const Shares& shares = {});

// Bytes of a ballot with its head, to one rank.
std::uint64_t vote_bytes();

}  // namespace laconic

// How long a step takes: units, legs, a link with two directions and one thread of the engine, by
// the rules of exchange/attempt.cpp, on a clock that costs nothing.
#pragma once

#include "laconic/exchange/foresight.h"
#include "laconic/transports/modelled.h"

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

struct StepTimes {
  double seconds = 0;  // from the begin of the backward pass to the last mean and vote
  double kernels = 0;  // of that, what the engine's thread computed
  double on_link = 0;  // what the busier direction of the link was taken for
};

// All ranks are alike: they start a leg at the same time. Units are in the order in which they
// become ready.
StepTimes time_step(std::span<const TimedUnit> units, const Link& link, const Rates& rates,
                    int ranks, bool framed);

// Bytes of a ballot with its head, to one rank.
std::uint64_t vote_bytes();

}  // namespace laconic

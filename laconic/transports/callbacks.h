// A transport whose exchange is somebody else's: torch.distributed, a test, any messaging layer the
// host program has.
#pragma once

#include <functional>
#include <memory>

#include "laconic/exchange/transport.h"

namespace laconic {

// What the host provides. `exchange` starts all sends and receives, then waits for all until the
// deadline; it throws (any std::exception) when it cannot. The collectives are optional: without
// them they are made from exchange.
struct Callbacks {
  int rank = 0, size = 1;
  std::function<void(std::span<const Send>, std::span<const Receive>, const Deadline&)> exchange;
  std::function<void(std::span<float>, const Deadline&)> all_reduce;
};

// Throws UsageError when rank and size do not fit or exchange is missing.
std::unique_ptr<Transport> make_callback_transport(Callbacks callbacks);

}  // namespace laconic

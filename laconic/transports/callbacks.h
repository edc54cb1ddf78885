// A transport whose messages are somebody else's affair: torch.distributed, a test, any messaging
// layer the host program has.
#pragma once

#include <functional>
#include <memory>

#include "laconic/exchange/transport.h"

namespace laconic {

// What the host provides. `exchange` starts all sends and receives, all of lengths both ends know,
// then waits for all until the deadline; messages between two ranks arrive in the order sent. It
// throws (any std::exception) when it cannot. all_reduce is optional: the sum over ranks.
struct Callbacks {
  int rank = 0, size = 1;
  std::function<void(std::span<const Send>, std::span<const Receive>, const Deadline&)> exchange;
  std::function<void(std::span<float>, const Deadline&)> all_reduce;
};

// A transport that blocks: transfers are made one after the other, in the order in which they were
// started, the first time one is tested. Each message is two of the host's, its head of 40 bytes
// and then its bytes. As it cannot interrupt an exchange of the host's, an abort or a poison is
// known on this rank only; others find out by their time-outs. A message of an attempt that was
// closed is dropped, so a step can be tried again if the host is still able to. Throws UsageError
// when rank and size do not fit or exchange is missing.
std::unique_ptr<Transport> make_callback_transport(Callbacks callbacks);

}  // namespace laconic

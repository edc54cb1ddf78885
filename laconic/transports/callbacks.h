// A transport whose messages are somebody else's affair: torch.distributed, a test, any messaging
// layer the host program has.
#pragma once

#include <functional>
#include <memory>

#include "laconic/exchange/transport.h"

namespace laconic {

// What the host provides: exchange, or start, test and cancel. They throw (any std::exception) when
// they cannot.
struct Callbacks {
  int rank = 0, size = 1;
  // Starts all sends and receives, all of lengths both ends know, then waits for all until the
  // deadline. Messages between two ranks arrive in the order sent.
  std::function<void(std::span<const Send>, std::span<const Receive>, const Deadline&)> exchange;
  // Optional, beside exchange: the sum over ranks.
  std::function<void(std::span<float>, const Deadline&)> all_reduce;
  // Starts sends or receives and returns at once what stands for them; nothing: they are done.
  // Those of different tags, 0 to 32767, never meet; those of one tag from one rank to another
  // arrive in the order started. Memory is the host's until they are done, failed or taken back.
  std::function<void*(int tag, std::span<const Send>, std::span<const Receive>)> start = {};
  // Whether all is done: then, and when it throws, it is no more.
  std::function<bool(void*)> test = {};
  std::function<void(void*)> cancel = {};  // takes back what is not done; it is no more
};

// With start, test and cancel: a transport that overlaps, and whose aborts reach all ranks. A rank
// whose messages fail has left.
//
// With exchange: a transport that blocks: transfers are made one after the other, in the order in
// which they were started, the first time one is tested. Each message is two of the host's, its
// head of 40 bytes and then its bytes. As it cannot interrupt an exchange of the host's, an abort
// or a poison is known on this rank only; others find out by their time-outs. A message of an
// attempt that was closed is dropped, so a step can be tried again if the host is still able to.
// Throws UsageError when rank and size do not fit, or functions are missing.
std::unique_ptr<Transport> make_callback_transport(Callbacks callbacks);

}  // namespace laconic

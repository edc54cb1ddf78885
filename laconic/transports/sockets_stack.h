// What the system's network stack takes of processors, measured here and now.
#pragma once

namespace laconic {

// Seconds of a core that the system takes for what a rank sends while it receives as much.
struct Stack {
  double message = 0, byte = 0;
};

// By two ranks of the transport sockets over this machine's loopback, in segments as long as an
// Ethernet frame takes and no faster than such a link, or 10 Mbit/s: where bytes leave slowly the
// system handles fewer at once. Throws SystemError where there is no loopback.
Stack measure_stack(double bits_per_second);

}  // namespace laconic

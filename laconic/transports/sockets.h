// Ranks as processes over connected stream sockets, TCP or UNIX: on one machine or many, without
// MPI.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "laconic/exchange/transport.h"

namespace laconic {

struct SocketsOptions {
  // Bytes of one rank's messages that wait here until they are asked for. Who sends more is an
  // error: allow a few times the longest message of a step.
  std::uint64_t held_bytes = std::uint64_t{4} << 30;
  // Another machine that answers sooner is on a local network. Everybody sends to everybody at
  // once, and where little is under way to each they get on more evenly: four hosts at 100 Mbit/s
  // make 11 % more steps with natural compression under sharded. Where round trips are longer much
  // must be under way, and the system decides. So it always does with 0.
  std::uint32_t near_microseconds = 300;
};

// This rank's end. descriptors[i] is a connected stream socket that leads to rank i, -1 at this
// rank's own place. They are taken over: closed with the transport, or left alone where this
// throws. The first bytes on each say which rank is there, so wires that were mixed up are noticed.
// No thread is started: messages move when a rank starts, tests or idles, and a few megabytes of
// each in the system's own buffers meanwhile. A send is done when the system has all its bytes. In
// a process that was forked from this one the transport refuses. Throws UsageError.
std::unique_ptr<Transport> make_sockets_transport(int rank, int size,
                                                  std::span<const int> descriptors,
                                                  const SocketsOptions& options = {});

// Where ranks meet: rank 0 listens at this address, which the others can reach.
struct Meeting {
  std::string host = "127.0.0.1";
  int port = 0;
  // What all ranks of a run share and others do not know, a job's number for example. It keeps
  // other runs and strangers out; it is no protection from who can read the network.
  std::string token = {};
  double timeout_seconds = 60;
};

// Connects all ranks with each other; all call it. Every rank listens at the address by which it
// reaches rank 0, only until all have come. Strangers are dropped. Throws TransportError that names
// the ranks which have not come in time, or says why rank 0 refuses this one.
std::unique_ptr<Transport> join_sockets(int rank, int size, const Meeting& meeting,
                                        const SocketsOptions& options = {});

}  // namespace laconic

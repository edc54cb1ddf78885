// How ranks reach each other. The base is declared here so that exchanges need not know any
// transport.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "laconic/base/args.h"
#include "laconic/base/buffer.h"

namespace laconic {

// When a wait ends in an error, and what was being done: "all_gather of frames".
struct Deadline {
  std::chrono::steady_clock::time_point at;
  double seconds;  // as asked for, for messages
  std::string_view operation;

  // Throws UsageError unless seconds is above 0 and at most 10^8.
  static Deadline in(double seconds, std::string_view operation);

  std::string within() const;  // "within 2.5 s", for messages
};

struct Send {
  int to;
  ByteView bytes;
};
struct Receive {
  int from;
  std::span<std::uint8_t> bytes;  // filled; both sides know the length
};
// A message whose length only its sender knows.
struct ReceiveSized {
  int from;
  Buffer* bytes;  // resized
};

// One rank's end. Used by one thread at a time. Every wait that fails throws TransportError naming
// rank and operation.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Starts all sends and receives, then waits for all of them: no order among ranks can deadlock
  // it. Messages between two ranks arrive in the order sent.
  void exchange(std::span<const Send> sends, std::span<const Receive> receives,
                const Deadline& deadline);

  // The same for messages whose lengths receivers do not know: eight bytes of length go before
  // each. A rank that claims more than `most` bytes is a DataError for itself and its receivers,
  // before memory is taken for them.
  void exchange_sized(std::span<const Send> sends, std::span<const ReceiveSized> receives,
                      std::uint64_t most, const Deadline& deadline);

  // Everybody's bytes, by rank; all[rank()] is a copy of `mine`. Lengths may differ, up to `most`.
  virtual void all_gather(ByteView mine, std::vector<Buffer>& all, std::uint64_t most,
                          const Deadline& deadline);

  // The sum over ranks, equal bit for bit on every rank: a ring, each part summed in rank order
  // from the part's owner.
  virtual void all_reduce(std::span<float> values, const Deadline& deadline);
  virtual void all_reduce(std::span<std::int64_t> values, const Deadline& deadline);

  // Bytes this rank has sent to others, and how often it has waited for others: what a link's
  // bandwidth and latency act on.
  std::uint64_t bytes_sent() const { return bytes_sent_; }
  std::uint64_t rounds() const { return rounds_; }

 protected:
  virtual void do_exchange(std::span<const Send> sends, std::span<const Receive> receives,
                           const Deadline& deadline) = 0;
  std::uint64_t bytes_sent_ = 0,
                rounds_ = 0;  // transports with collectives of their own add what those do
};

inline constexpr int kNobody = -1;

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
std::string lost_sentence(const Loss& loss, const Deadline& deadline);

struct TransportInfo {
  std::string name, summary, paper;
  std::vector<Parameter> parameters;
};

const std::vector<TransportInfo>& transports();

struct RegisterTransport {
  explicit RegisterTransport(TransportInfo info);
};

}  // namespace laconic

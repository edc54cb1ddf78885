// A transport that also tells how long a slower link would have taken, on a clock of its own.
#pragma once

#include <limits>
#include <memory>

#include "laconic/exchange/transport.h"

namespace laconic {

// What every rank sends through.
struct Link {
  double latency_seconds = 0;                                        // from 0
  double bits_per_second = std::numeric_limits<double>::infinity();  // above 0
  bool sleep = false;  // really wait that long, for demonstrations; otherwise only the clock does
};

// Passes everything to another transport, which all ranks must wrap alike, and keeps a clock. An
// exchange in which a rank sends b bytes in all takes latency + 8 b / bandwidth; all its messages
// arrive at the end of that time, and a rank goes on when it has sent and received everything. For
// this each message is followed by another of eight bytes, the sender's clock, which costs nothing
// on the clock and is not in bytes_sent(). Incoming bytes cost nothing on the receiver's side.
// Collectives are made of exchanges, also where the other transport has its own.
class ModelledTransport : public Transport {
 public:
  // Throws UsageError when the link is not one.
  ModelledTransport(std::unique_ptr<Transport> inner, const Link& link);

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }

  // Time this rank has spent sending and waiting; what it computes in between is not counted.
  double seconds() const { return seconds_; }

 protected:
  void do_exchange(std::span<const Send> sends, std::span<const Receive> receives,
                   const Deadline& deadline) override;

 private:
  double done_sending(std::span<const Send> sends) const;

  std::unique_ptr<Transport> inner_;
  Link link_;
  double seconds_ = 0;
};

}  // namespace laconic

// A transport that also tells how long a slower link would have taken, on a clock of its own, or
// really is that slow.
#pragma once

#include <limits>

#include "laconic/transports/wrapped.h"

namespace laconic {

// What every rank sends and receives through.
struct Link {
  double latency_seconds = 0;                                        // from 0
  double bits_per_second = std::numeric_limits<double>::infinity();  // above 0, each way
  bool sleep = false;  // really be that slow; otherwise only the clock is
};

// Passes everything to another transport, which all ranks must wrap alike. A message of b bytes,
// its head included, takes its sender's way out for 8 b / bandwidth and its receiver's way in for
// as long, which begins a latency later and may have to wait for other messages: those of one
// transfer come in as they left. For this each message is followed by a small one that says when it
// left, which costs nothing on the clock and is not in bytes_sent(). With `sleep` test is true only
// when all of it would be there, and several transfers share the link.
class ModelledTransport : public WrappedTransport {
 public:
  // Throws UsageError when the link is not one.
  ModelledTransport(std::unique_ptr<Transport> inner, const Link& link);
  ~ModelledTransport() override { cancel_all(); }

  // Time this rank has spent sending and waiting; what it computes in between is not counted.
  double seconds() const { return now_.model; }

  void idle(std::chrono::steady_clock::time_point until) override;
  TransportError lost(Transfer& transfer, const Deadline& deadline) override;

 protected:
  void do_start(Transfer& transfer) override;
  bool do_test(Transfer& transfer) override;
  void do_cancel(Transfer& transfer) noexcept override;

 private:
  // The same moment on the model's clock and on the system's.
  struct Times {
    double model = 0, real = 0;
  };
  struct Flight;

  double seconds_for(std::size_t bytes) const;
  void arrive(Flight& flight, const Transfer& transfer);

  Link link_;
  Times now_, out_free_, in_free_;
  std::chrono::steady_clock::time_point next_ = std::chrono::steady_clock::time_point::max();
};

}  // namespace laconic

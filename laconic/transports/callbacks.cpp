// callbacks: exchange handed to the host, or its messages under a messenger.
#include "laconic/transports/callbacks.h"

#include <algorithm>
#include <deque>

#include "laconic/transports/attempts.h"
#include "laconic/transports/head.h"
#include "laconic/transports/host_wire.h"

namespace laconic {
namespace {

using Clock = std::chrono::steady_clock;

Deadline until(Clock::time_point due, std::string_view operation) {
  const auto now = Clock::now();
  const double left = std::min(std::chrono::duration<double>(due - now).count(), kLongestTimeout);
  return {std::min(due, now + std::chrono::seconds(static_cast<long>(kLongestTimeout))),
          std::max(left, 0.0), operation};
}

struct Flight : Transfer::State {
  std::span<float> values;  // of a reduce
  bool reduces = false, over = false;
  std::exception_ptr error;
};

class CallbackTransport : public Transport {
 public:
  explicit CallbackTransport(Callbacks callbacks) : callbacks_(std::move(callbacks)) {}
  ~CallbackTransport() override { cancel_all(); }

  int rank() const override { return callbacks_.rank; }
  int size() const override { return callbacks_.size; }
  bool blocks() const override { return true; }
  bool reduces() const override { return callbacks_.all_reduce && size() > 1; }

  std::uint64_t open_attempt() override { return attempts_.open(); }

  void abort(std::uint64_t attempt, int culprit, std::string_view reason) override {
    attempts_.abort(attempt, {rank(), culprit, reason});
  }

  void poison(int culprit, std::string_view reason) override {
    attempts_.poison({rank(), culprit, reason});
  }

  void idle(Clock::time_point) override {}

  TransportError lost(Transfer&, const Deadline& deadline) override {
    return TransportError("rank " + std::to_string(rank()) + ": no answer " + deadline.within() +
                          " (" + std::string(deadline.operation) + ")");
  }

 protected:
  void do_start(Transfer& transfer) override {
    attempts_.require_open(transfer.tag().attempt);
    auto& flight = transfer.state<Flight>();
    flight.reduces = flight.over = false;
    flight.error = nullptr;
    started_.push_back(&transfer);
  }

  void do_start_reduce(std::span<float> values, Transfer& transfer) override {
    do_start(transfer);
    auto& flight = transfer.state<Flight>();
    flight.reduces = true;
    flight.values = values;
  }

  bool do_test(Transfer& transfer) override {
    auto& flight = transfer.state<Flight>();
    while (!flight.over) make_next();
    if (flight.error) std::rethrow_exception(flight.error);
    return true;
  }

  void do_cancel(Transfer& transfer) noexcept override { std::erase(started_, &transfer); }
  void do_close(std::uint64_t attempt) override { attempts_.close(attempt); }

 private:
  // What goes to and comes from one rank in a transfer, one after the other.
  struct Peer {
    int rank;
    std::vector<ByteView> out = {};
    std::vector<const Receive*> in = {};
    std::size_t sent = 0, received = 0;
    HeadBytes head_out = {}, head_in = {};
    Buffer unwanted = {};

    bool sends() const { return sent < out.size(); }
    bool receives() const { return received < in.size(); }
  };

  void make_next() {
    Transfer& transfer = *started_.front();
    started_.pop_front();
    auto& flight = transfer.state<Flight>();
    flight.over = true;
    try {
      attempts_.check(transfer.tag().attempt);
      flight.reduces ? reduce(transfer, flight.values) : make(transfer);
    } catch (...) {
      flight.error = std::current_exception();
    }
  }

  void reduce(const Transfer& transfer, std::span<float> values) {
    const Deadline deadline = until(transfer.due, transfer.operation);
    guarded(deadline, [&] { callbacks_.all_reduce(values, deadline); });
  }

  void make(const Transfer& transfer) {
    std::vector<Peer> peers;
    const auto at = [&](int rank) -> Peer& {
      for (Peer& peer : peers)
        if (peer.rank == rank) return peer;
      peers.push_back({.rank = rank});
      return peers.back();
    };
    for (const Send& send : transfer.sends) at(send.to).out.push_back(send.bytes);
    for (const Receive& receive : transfer.receives) at(receive.from).in.push_back(&receive);
    while (std::ranges::any_of(peers, [](auto& p) { return p.sends() || p.receives(); }))
      pass(transfer, peers);
  }

  // One message to and one from each: heads, then bytes. A message of an attempt that is over does
  // not count. One that is refused is received all the same, or its sender would wait.
  void pass(const Transfer& transfer, std::vector<Peer>& peers) {
    sends_.clear();
    receives_.clear();
    for (Peer& peer : peers) {
      if (peer.sends()) {
        peer.head_out = write_head({.tag = transfer.tag(), .length = peer.out[peer.sent].size()});
        sends_.push_back({peer.rank, peer.head_out});
      }
      if (peer.receives()) receives_.push_back(Receive::exactly(peer.rank, peer.head_in));
    }
    exchange(transfer);
    std::exception_ptr refused;
    for (Peer& peer : peers) {
      if (peer.sends()) sends_.push_back({peer.rank, peer.out[peer.sent++]});
      if (!peer.receives()) continue;
      const Head head = read_head(peer.head_in, peer.rank);
      receives_.push_back(Receive::exactly(peer.rank, room_for(head, peer, transfer, refused)));
    }
    std::erase_if(sends_, [](const Send& send) { return send.bytes.empty(); });
    std::erase_if(receives_, [](const Receive& receive) { return receive.bytes.empty(); });
    exchange(transfer);
    if (refused) std::rethrow_exception(refused);
  }

  std::span<std::uint8_t> room_for(const Head& head, Peer& peer, const Transfer& transfer,
                                   std::exception_ptr& refused) const {
    constexpr std::uint64_t kMostUnwanted = 64 << 20;
    try {
      if (head.tag == transfer.tag())
        return peer.in[peer.received++]->room_for(head.length, transfer.operation);
      if (!attempts_.is_closed(head.tag.attempt))
        throw DataError("rank " + std::to_string(peer.rank) +
                            " is at another transfer; all start them in the same order",
                        peer.rank);
    } catch (const DataError&) {
      refused = std::current_exception();
    }
    if (head.length > kMostUnwanted && refused) std::rethrow_exception(refused);
    return peer.unwanted.reset(static_cast<std::size_t>(std::min(head.length, kMostUnwanted)));
  }

  // What was collected.
  void exchange(const Transfer& transfer) {
    if (sends_.empty() && receives_.empty()) return;
    const Deadline deadline = until(transfer.due, transfer.operation);
    guarded(deadline, [&] { callbacks_.exchange(sends_, receives_, deadline); });
    sends_.clear();
    receives_.clear();
  }

  template <class Call>
  void guarded(const Deadline& deadline, Call call) const {
    try {
      call();
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      throw TransportError("rank " + std::to_string(rank()) + ": the host's transport failed (" +
                           std::string(deadline.operation) + "): " + error.what());
    }
  }

  Callbacks callbacks_;
  Attempts attempts_;
  std::deque<Transfer*> started_;
  std::vector<Send> sends_;
  std::vector<Receive> receives_;
};

const RegisterTransport callbacks{{
    .name = "callbacks",
    .summary = "Exchange by functions of the host program (C, C++ or Python).",
    .paper = "",
    .parameters = {},
}};

}  // namespace

std::unique_ptr<Transport> make_callback_transport(Callbacks callbacks) {
  if (callbacks.size < 1 || callbacks.rank < 0 || callbacks.rank >= callbacks.size)
    throw UsageError("rank " + std::to_string(callbacks.rank) + " of " +
                     std::to_string(callbacks.size) + "; allowed: 0 to size - 1, size at least 1");
  if (callbacks.start && callbacks.test && callbacks.cancel)
    return std::make_unique<Messenger<host::Wire>>(
        std::make_unique<host::Wire>(std::move(callbacks)));
  if (callbacks.start || callbacks.test || callbacks.cancel)
    throw UsageError("a callback transport needs all of 'start', 'test' and 'cancel', or none");
  if (!callbacks.exchange && callbacks.size > 1)
    throw UsageError("a callback transport needs 'exchange', or 'start', 'test' and 'cancel'");
  return std::make_unique<CallbackTransport>(std::move(callbacks));
}

}  // namespace laconic

// A transport over messages that are started and asked after: a head for each; short messages ride
// with it, the payloads of longer ones go straight from the sender's memory to the receiver's once
// the receiver knows where.
#pragma once

#include <algorithm>
#include <optional>
#include <utility>

#include "laconic/transports/attempts.h"
#include "laconic/transports/head.h"
#include "laconic/transports/patience.h"
#include "laconic/transports/peers.h"

namespace laconic {

struct Arrived {
  int from;
  Head head;
  ByteView rides;  // the bytes of a short message, until the next question
};

// What a wire (mpi_wire.h, host_wire.h) has of requests that fly, where nobody waits for them any
// more: what they read and write.
template <class Request>
struct Orphan {
  std::vector<Request> requests;
  std::vector<Buffer> buffers;
  std::shared_ptr<const void> owner;
};

template <class Wire>
class Messenger : public Transport {
  using Clock = std::chrono::steady_clock;

 public:
  explicit Messenger(std::unique_ptr<Wire> wire)
      : wire_(std::move(wire)),
        peers_(wire_->rank(), wire_->size()),
        held_of_(static_cast<std::size_t>(wire_->size())) {}

  ~Messenger() override {
    cancel_all();
    tell_all({.kind = Head::Kind::leave,
              .tag = {},
              .sequence = static_cast<std::uint64_t>(peers_.blames())});
    bury(std::move(wire_));
  }

  int rank() const override { return wire_->rank(); }
  int size() const override { return wire_->size(); }
  std::uint64_t open_attempt() override { return attempts_.open(); }

  void abort(std::uint64_t attempt, int culprit, std::string_view reason) override {
    if (attempts_.is_aborted(attempt)) return;
    attempts_.abort(attempt, {rank(), culprit, reason});
    tell_all({.kind = Head::Kind::abort, .tag = {.attempt = attempt}, .sequence = at(rank())},
             write_reason(culprit, reason).view());
  }

  void poison(int culprit, std::string_view reason) override {
    attempts_.poison({rank(), culprit, reason});
    tell_all({.kind = Head::Kind::poison, .tag = {}, .sequence = at(rank())},
             write_reason(culprit, reason).view());
  }

  void idle(Clock::time_point until) override { patience_.pause(until); }

  TransportError lost(Transfer& transfer, const Deadline& deadline) override {
    return peers_.lost(awaited(transfer), deadline);
  }

 protected:
  // Of one rank's messages nobody has asked for, their payloads not counted: those stay where they
  // are.
  static constexpr std::size_t kMostHeld = 4096;

  struct Flight : Transfer::State {
    struct Copy {
      ByteView of;
      Buffer bytes;
    };
    struct In {
      bool matched = false;
      std::span<std::uint8_t> to;  // where a payload that is staged belongs
      Buffer staged;
    };
    Transfer* transfer = nullptr;
    std::vector<In> ins;  // by receive
    std::size_t unmatched = 0;
    std::vector<typename Wire::Request> requests;  // of payloads
    std::vector<int> peers;                        // whose they are, senders as -1 - rank
    std::vector<Copy> copies;  // of what is sent, where the caller's memory may not be kept
    std::size_t copied = 0;
    std::vector<Buffer> orphans;  // room for what is needed after a cancel
    std::span<float> values;      // of a reduce
    Buffer reduced;
    std::exception_ptr error;
    bool reported = false;
    Clock::time_point began;
  };

  Flight& prepare(Transfer& transfer) {
    wire_->require_thread();
    attempts_.require_open(transfer.tag().attempt);
    auto& flight = transfer.template state<Flight>();
    flights_.reserve(flights_.size() + 1);
    flight.orphans.reserve(transfer.sends.size() + 2 * transfer.receives.size() + 1);
    flight.copied = 0;
    wire_->reserve_orphans(flights_.size() + 1);
    flight.transfer = &transfer;
    flight.requests.clear();
    flight.peers.clear();
    flight.values = {};
    flight.error = nullptr;
    flight.reported = false;
    peers_.blame(kNobody);
    flight.began = Clock::now();
    return flight;
  }

  void do_start(Transfer& transfer) override {
    auto& flight = prepare(transfer);
    flight.ins.resize(transfer.receives.size());
    for (auto& in : flight.ins) in.matched = false, in.to = {};
    flight.unmatched = transfer.receives.size();
    flights_.push_back(&flight);
    try {
      for (const Send& send : transfer.sends) this->send(send, transfer, flight);
      take_held(flight);
    } catch (...) {  // said by test, as all that happens to a flight
      flight.error = std::current_exception();
    }
  }

  bool do_test(Transfer& transfer) override {
    auto& flight = transfer.template state<Flight>();
    progress();
    if (flight.error) std::rethrow_exception(flight.error);
    if (finish_requests(flight, transfer) && flight.unmatched == 0) {
      deliver(flight);
      take_report_back(flight);
      std::erase(flights_, &flight);
      return true;
    }
    try {
      attempts_.check(transfer.tag().attempt);
      if (peers_.any_left()) peers_.check_left(awaited(transfer), transfer.operation);
    } catch (const TransportError& error) {
      peers_.blame(error.rank());
      throw;
    }
    if (!flight.reported && Clock::now() >= peers_.late_at(flight.began, transfer.due))
      report(transfer, flight);
    return false;
  }

  // What is still read or written is kept until that is done.
  void do_cancel(Transfer& transfer) noexcept override {
    auto& flight = transfer.template state<Flight>();
    std::erase(flights_, &flight);
    std::erase(flight.requests, Wire::kNoRequest);
    if (flight.requests.empty()) return;
    for (std::size_t i = 0; i < flight.copied; ++i)
      flight.orphans.push_back(std::move(flight.copies[i].bytes));
    for (std::size_t i = 0; i < flight.ins.size(); ++i) {
      flight.orphans.push_back(std::move(flight.ins[i].staged));
      Buffer* const into = transfer.receives[i].into;
      if (into && flight.ins[i].matched) flight.orphans.push_back(std::move(*into));
    }
    flight.orphans.push_back(std::move(flight.reduced));
    wire_->adopt({std::move(flight.requests), std::move(flight.orphans), transfer.keep_alive});
    flight.requests.clear();
    flight.orphans.clear();
  }

  void do_close(std::uint64_t attempt) override {
    attempts_.close(attempt);
    for (std::size_t i = held_.size(); i-- > 0;)
      if (held_[i].head.tag.attempt == attempt) wire_->waste_payload(held_[i].from, unhold(i).head);
  }

  std::unique_ptr<Wire> wire_;
  Attempts attempts_;
  std::vector<Flight*> flights_;

 private:
  // A message nobody has asked for yet.
  struct Held {
    int from;
    Head head;
    Buffer rides;
  };

  static std::size_t at(int rank) { return static_cast<std::size_t>(rank); }

  void send(const Send& send, const Transfer& transfer, Flight& flight) {
    Head head{.tag = transfer.tag(), .length = send.bytes.size()};
    if (head.length <= Wire::kRidesAlong) return wire_->send(send.to, head, send.bytes);
    head.sequence = wire_->next_sequence(send.to);
    const ByteView bytes = transfer.keep_alive ? send.bytes : copied(send.bytes, flight);
    wire_->send(send.to, head);
    wire_->send_payload(send.to, bytes, head, flight.requests);
    flight.peers.resize(flight.requests.size(), send.to);
  }

  // One copy of the same bytes, to however many ranks they go.
  static ByteView copied(ByteView bytes, Flight& flight) {
    for (std::size_t i = 0; i < flight.copied; ++i) {
      const auto& copy = flight.copies[i];
      if (copy.of.data() == bytes.data() && copy.of.size() == bytes.size())
        return copy.bytes.view();
    }
    if (flight.copied == flight.copies.size()) flight.copies.emplace_back();
    auto& copy = flight.copies[flight.copied];
    copy.of = bytes;
    copy.bytes.clear();
    copy.bytes.append(bytes);
    ++flight.copied;
    return copy.bytes.view();
  }

  void progress() {
    while (const auto arrived = wire_->receive()) {
      patience_ = {};
      hear(*arrived);
    }
    wire_->sweep();
  }

  void hear(const Arrived& arrived) {
    const auto& [from, head, rides] = arrived;
    if (head.kind != Head::Kind::report) peers_.heard_of(from);
    switch (head.kind) {
      case Head::Kind::message:
        return hear_message(arrived);
      case Head::Kind::abort:
        if (attempts_.abort(head.tag.attempt, read_verdict(from, size(), head, rides)))
          tell_all(head, rides);
        return;
      case Head::Kind::poison:
        if (attempts_.poison(read_verdict(from, size(), head, rides))) tell_all(head, rides);
        return;
      case Head::Kind::leave:
        peers_.leaves(from);
        return peers_.waits(from, std::nullopt, head.sequence);
      case Head::Kind::report:
        peers_.waits(from, head.tag, head.sequence);
    }
  }

  void hear_message(const Arrived& arrived) {
    const auto& [from, head, rides] = arrived;
    if (attempts_.is_closed(head.tag.attempt)) return wire_->waste_payload(from, head);
    for (Flight* flight : flights_) {
      if (flight->transfer->tag() != head.tag) continue;
      for (std::size_t i = 0; i < flight->ins.size(); ++i)
        if (!flight->ins[i].matched && flight->transfer->receives[i].from == from)
          return match(*flight, i, head, rides);
    }
    if (held_of_[at(from)] == kMostHeld) {
      wire_->waste_payload(from, head);
      throw DataError("rank " + std::to_string(from) + " sends more than " +
                          std::to_string(kMostHeld) + " messages nobody asks for",
                      from);
    }
    held_.push_back({from, head, {}});
    held_.back().rides.append(rides);
    ++held_of_[at(from)];
  }

  Held unhold(std::size_t i) {
    Held held = std::move(held_[i]);
    held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(i));
    --held_of_[at(held.from)];
    return held;
  }

  void take_held(Flight& flight) {
    for (std::size_t i = 0; i < flight.ins.size() && !held_.empty(); ++i)
      for (std::size_t k = 0; k < held_.size(); ++k)
        if (held_[k].from == flight.transfer->receives[i].from &&
            held_[k].head.tag == flight.transfer->tag()) {
          const Held held = unhold(k);
          match(flight, i, held.head, held.rides.view());
          break;
        }
  }

  // A message for the i-th receive. What is wrong with it is said when its own transfer is tested.
  void match(Flight& flight, std::size_t i, const Head& head, ByteView rides) {
    const Receive& receive = flight.transfer->receives[i];
    flight.ins[i].matched = true;
    --flight.unmatched;
    bool begun = false;
    try {
      const auto room = receive.room_for(head.length, flight.transfer->operation);
      if (head.length <= Wire::kRidesAlong) return take(receive.from, rides, room);
      const auto to = room_of(flight, i, room);
      begun = true;
      wire_->receive_payload(receive.from, to, head, flight.requests);
      flight.peers.resize(flight.requests.size(), -1 - receive.from);
    } catch (...) {
      if (!flight.error) flight.error = std::current_exception();
      if (!begun) wire_->waste_payload(receive.from, head);
    }
  }

  static void take(int from, ByteView rides, std::span<std::uint8_t> room) {
    if (rides.size() != room.size())
      throw DataError("rank " + std::to_string(from) + " sent a head without its message", from);
    std::ranges::copy(rides, room.begin());
  }

  // Memory that may be written as long as it takes: a Buffer can be taken away from the caller.
  static std::span<std::uint8_t> room_of(Flight& flight, std::size_t i,
                                         std::span<std::uint8_t> room) {
    if (flight.transfer->receives[i].into || flight.transfer->keep_alive) return room;
    flight.ins[i].to = room;
    return flight.ins[i].staged.reset(room.size());
  }

  // Whether all that was begun is done.
  bool finish_requests(Flight& flight, const Transfer& transfer) const {
    bool all = true;
    for (std::size_t i = 0; i < flight.requests.size(); ++i) {
      if (flight.requests[i] == Wire::kNoRequest) continue;
      const bool sends = flight.peers[i] >= 0;
      const int peer = sends ? flight.peers[i] : -1 - flight.peers[i];
      all &= wire_->done(flight.requests[i], peer, sends, transfer.operation);
    }
    return all;
  }

  static void deliver(Flight& flight) {
    for (const auto& in : flight.ins)
      if (!in.to.empty()) std::ranges::copy(in.staged.view(), in.to.begin());
    if (!flight.reduced.empty())
      std::memcpy(flight.values.data(), flight.reduced.data(), flight.reduced.size());
    flight.reduced.clear();
    flight.values = {};
  }

  static Awaited awaited(Transfer& transfer) {
    auto& flight = transfer.template state<Flight>();
    Awaited awaited{transfer.tag()};
    for (std::size_t i = 0; i < flight.ins.size(); ++i)
      if (!flight.ins[i].matched) awaited.senders.push_back(transfer.receives[i].from);
    for (std::size_t i = 0; i < flight.requests.size(); ++i) {
      if (flight.requests[i] == Wire::kNoRequest) continue;
      const int peer = flight.peers[i];
      peer < 0 ? awaited.senders.push_back(-1 - peer) : awaited.receivers.push_back(peer);
    }
    return awaited;
  }

  void report(Transfer& transfer, Flight& flight) {
    const Awaited ranks = awaited(transfer);
    if (ranks.none()) return;
    flight.reported = true;
    tell_all(
        {.kind = Head::Kind::report, .tag = transfer.tag(), .sequence = at(ranks.first().front())});
  }

  // This rank got on after all.
  void take_report_back(Flight& flight) {
    if (std::exchange(flight.reported, false))
      tell_all({.kind = Head::Kind::report, .tag = {}, .sequence = at(size())});
  }

  // Whom it does not reach does not hear it.
  void tell_all(Head head, ByteView rides = {}) noexcept {
    head.length = rides.size();
    for (int to = 0; to < size(); ++to) {
      if (to == rank()) continue;
      try {
        wire_->send(to, head, rides);
      } catch (...) {
      }
    }
  }

  Peers peers_;
  std::vector<Held> held_;
  std::vector<std::size_t> held_of_;  // by rank: how many
  Patience patience_;
};

}  // namespace laconic

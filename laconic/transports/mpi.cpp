// mpi: a head for each message; short messages ride with it, the payloads of longer ones go
// straight from the sender's memory to the receiver's once the receiver knows where.
#include "laconic/transports/mpi.h"

#include <algorithm>
#include <utility>

#include "laconic/transports/attempts.h"
#include "laconic/transports/mpi_wire.h"
#include "laconic/transports/peers.h"

namespace laconic {
namespace {

using mpi::Arrived;
using Clock = std::chrono::steady_clock;

// Of one rank's messages nobody has asked for, their payloads not counted: those stay where they
// are.
constexpr std::size_t kMostHeld = 4096;

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
  std::vector<MPI_Request> requests;  // of payloads
  std::vector<int> peers;             // whose they are, senders as -1 - rank
  std::vector<Copy> copies;           // of what is sent, where the caller's memory may not be kept
  std::size_t copied = 0;
  std::vector<Buffer> orphans;  // room for what MPI needs after a cancel
  std::span<float> values;      // of a reduce
  Buffer reduced;
  std::exception_ptr error;
  bool reported = false;
  Clock::time_point began;
};

class Mpi : public Transport {
 public:
  Mpi(MPI_Comm of, const MpiOptions& options)
      : options_(options),
        wire_(std::make_unique<mpi::Wire>(of, options.timeout_seconds)),
        peers_(rank(), size()),
        held_of_(static_cast<std::size_t>(size())),
        numbers_(held_of_.size()) {
    int level = MPI_THREAD_SINGLE;
    mpi::check(MPI_Query_thread(&level), "MPI_Query_thread");
    any_thread_ = level >= MPI_THREAD_SERIALIZED;
  }

  ~Mpi() override {
    cancel_all();
    tell_all({.kind = Head::Kind::leave,
              .tag = {},
              .sequence = static_cast<std::uint64_t>(peers_.blames())});
    mpi::bury(std::move(wire_));
  }

  int rank() const override { return wire_->rank(); }
  int size() const override { return wire_->size(); }
  bool reduces() const override { return options_.own_reduce && size() > 1; }

  std::uint64_t open_attempt() override { return attempts_.open(); }

  void abort(std::uint64_t attempt, int culprit, std::string_view reason) override {
    if (attempts_.is_aborted(attempt)) return;
    attempts_.abort(attempt, {rank(), culprit, reason});
    tell_all({.kind = Head::Kind::abort, .tag = {.attempt = attempt}},
             write_reason(culprit, reason).view());
  }

  void poison(int culprit, std::string_view reason) override {
    attempts_.poison({rank(), culprit, reason});
    tell_all({.kind = Head::Kind::poison, .tag = {}}, write_reason(culprit, reason).view());
  }

  void idle(Clock::time_point until) override { patience_.pause(until); }

  TransportError lost(Transfer& transfer, const Deadline& deadline) override {
    return peers_.lost(awaited(transfer), deadline);
  }

 protected:
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

  void do_start_reduce(std::span<float> values, Transfer& transfer) override {
    auto& flight = prepare(transfer);
    flight.ins.clear();
    flight.unmatched = 0;
    flights_.push_back(&flight);
    try {
      if (reduce_lost_)
        throw TransportError("an all-reduce was ended before, and MPI cannot take it back");
      reduce(values, transfer, flight);
    } catch (...) {
      flight.error = std::current_exception();
    }
  }

  bool do_test(Transfer& transfer) override {
    auto& flight = transfer.state<Flight>();
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

  // What MPI still reads or writes is kept until it has done so.
  void do_cancel(Transfer& transfer) noexcept override {
    auto& flight = transfer.state<Flight>();
    std::erase(flights_, &flight);
    std::erase(flight.requests, MPI_REQUEST_NULL);
    if (!flight.values.empty()) reduce_lost_ = true;
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
    if (attempts_.is_aborted(attempt)) reduce_lost_ = true;
    attempts_.close(attempt);
    for (std::size_t i = held_.size(); i-- > 0;)
      if (held_[i].head.tag.attempt == attempt) wire_->waste_payload(held_[i].from, unhold(i).head);
  }

 private:
  // A message nobody has asked for yet.
  struct Held {
    int from;
    Head head;
    Buffer rides;
  };

  static std::size_t at(int rank) { return static_cast<std::size_t>(rank); }

  Flight& prepare(Transfer& transfer) {
    int is_main = 1;
    if (!any_thread_) MPI_Is_thread_main(&is_main);
    if (!is_main)
      throw UsageError(
          "the host has started MPI for its main thread alone: start it with "
          "MPI_THREAD_SERIALIZED");
    attempts_.require_open(transfer.tag().attempt);
    auto& flight = transfer.state<Flight>();
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

  void send(const Send& send, const Transfer& transfer, Flight& flight) {
    Head head{.tag = transfer.tag(), .length = send.bytes.size()};
    if (head.length <= mpi::kRidesAlong) return wire_->send(send.to, head, send.bytes);
    head.sequence =
        mpi::sequence_of(numbers_[at(send.to)]++, static_cast<std::uint32_t>(options_.piece_bytes));
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

  void reduce(std::span<float> values, const Transfer& transfer, Flight& flight) {
    constexpr std::size_t kMost = 1 << 30;  // MPI counts in int
    flight.values = values;
    std::span<float> sums = values;
    if (!transfer.keep_alive) {
      flight.reduced.reset(values.size_bytes());
      sums = {reinterpret_cast<float*>(flight.reduced.data()), values.size()};
      std::ranges::copy(values, sums.begin());
    }
    flight.requests.reserve(values.size() / kMost + 1);
    for (std::size_t from = 0; from < sums.size(); from += kMost) {
      MPI_Request request;
      mpi::check(MPI_Iallreduce(MPI_IN_PLACE, sums.data() + from,
                                static_cast<int>(std::min(kMost, sums.size() - from)), MPI_FLOAT,
                                MPI_SUM, wire_->comm(), &request),
                 "MPI_Iallreduce");
      flight.requests.push_back(request);
    }
    flight.peers.resize(flight.requests.size(), rank());
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
    peers_.heard_of(from);
    switch (head.kind) {
      case Head::Kind::message:
        return hear_message(arrived);
      case Head::Kind::abort:
        return attempts_.abort(head.tag.attempt, verdict(arrived));
      case Head::Kind::poison:
        return attempts_.poison(verdict(arrived));
      case Head::Kind::leave:
        peers_.leaves(from);
        [[fallthrough]];
      case Head::Kind::report:
        peers_.waits(from, head.sequence);
    }
  }

  static Verdict verdict(const Arrived& arrived) {
    const Reason reason = read_reason(arrived.rides, arrived.from);
    return {arrived.from, reason.culprit, reason.text};
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
      if (head.length <= mpi::kRidesAlong) return take(receive.from, rides, room);
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

  // Memory that MPI may write as long as it likes: a Buffer can be taken away from the caller.
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
      if (flight.requests[i] == MPI_REQUEST_NULL) continue;
      int done = 0;
      const int peer = flight.peers[i] < 0 ? -1 - flight.peers[i] : flight.peers[i];
      const int code = MPI_Test(&flight.requests[i], &done, MPI_STATUS_IGNORE);
      if (code != MPI_SUCCESS)
        mpi::check(code,
                   (flight.peers[i] < 0 ? "receiving from rank " : "sending to rank ") +
                       std::to_string(peer) + " (" + std::string(transfer.operation) + ")",
                   peer);
      all = all && done;
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
    auto& flight = transfer.state<Flight>();
    Awaited awaited;
    for (std::size_t i = 0; i < flight.ins.size(); ++i)
      if (!flight.ins[i].matched) awaited.senders.push_back(transfer.receives[i].from);
    for (std::size_t i = 0; i < flight.requests.size(); ++i) {
      if (flight.requests[i] == MPI_REQUEST_NULL) continue;
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

  MpiOptions options_;
  std::unique_ptr<mpi::Wire> wire_;
  Peers peers_;
  bool any_thread_ = true;
  Attempts attempts_;
  std::vector<Flight*> flights_;
  std::vector<Held> held_;
  std::vector<std::size_t> held_of_;    // by rank: how many
  std::vector<std::uint32_t> numbers_;  // by rank: of the next payload to it
  bool reduce_lost_ = false;
  mpi::Patience patience_;
};

std::unique_ptr<Transport> make(MPI_Comm comm, const MpiOptions& options) {
  if (options.piece_bytes < 1 || options.piece_bytes > 0x7fffffff)
    throw UsageError("pieces of " + std::to_string(options.piece_bytes) +
                     " bytes; allowed: 1 to 2147483647");
  return std::make_unique<Mpi>(comm, options);
}

void need_mpi() {
  int initialized = 0, finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  if (!initialized || finalized)
    throw UsageError("MPI is not started; an MpiSession or MPI_Init_thread does it");
}

const RegisterTransport mpi_transport{{
    .name = "mpi",
    .summary = "Ranks as processes that mpirun starts, on one machine or many.",
    .paper = "",
    .parameters = {},
}};

}  // namespace

bool has_mpi() { return true; }

std::unique_ptr<Transport> make_mpi_transport(int communicator, const MpiOptions& options) {
  need_mpi();
  return make(MPI_Comm_f2c(communicator), options);
}

std::unique_ptr<Transport> make_mpi_transport(const MpiOptions& options) {
  need_mpi();
  return make(MPI_COMM_WORLD, options);
}

}  // namespace laconic

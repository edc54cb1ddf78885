// sockets: messages between processes over one stream socket for each pair of ranks.
#include "laconic/transports/sockets.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <utility>

#include "laconic/transports/peers.h"
#include "laconic/transports/sockets_mail.h"

namespace laconic {
namespace {

using sockets::Flight;
using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kProtocol = 0x31534c;       // of the hello, "LS1"
constexpr std::chrono::milliseconds kTelling(200);  // for others to take in why an attempt ends
constexpr std::chrono::milliseconds kLeaving(1000);

std::string name_of(int rank) { return "rank " + std::to_string(rank); }

class Sockets : public Transport, private sockets::Listener {
 public:
  Sockets(int rank, std::span<const int> descriptors, const SocketsOptions& options)
      : rank_(rank),
        peers_(rank, static_cast<int>(descriptors.size())),
        lines_(descriptors, *this),
        mail_(lines_, attempts_, options.held_bytes) {}

  // From here on they are this transport's. Says to each who is here.
  void take_over(std::span<const int> descriptors) noexcept {
    lines_.adopt(descriptors);
    lines_.tell_all({.kind = Head::Kind::report,
                     .tag = {.attempt = kProtocol,
                             .unit = static_cast<std::uint32_t>(rank_),
                             .leg = static_cast<std::uint32_t>(size())}});
  }

  // The others hear that this rank leaves, and read what it said before.
  ~Sockets() override {
    if (!is_here()) return;
    cancel_all();
    lines_.tell_all({.kind = Head::Kind::leave,
                     .tag = {},
                     .sequence = static_cast<std::uint64_t>(peers_.blames())});
    lines_.drain(Clock::now() + kLeaving);
  }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(lines_.size()); }
  bool joins_processes() const override { return true; }

  std::uint64_t open_attempt() override {
    require_here();
    return attempts_.open();
  }

  void abort(std::uint64_t attempt, int culprit, std::string_view reason) override {
    require_here();
    if (attempts_.is_aborted(attempt)) return;
    attempts_.abort(attempt, {rank(), culprit, reason});
    lines_.tell_all({.kind = Head::Kind::abort, .tag = {.attempt = attempt}, .sequence = own()},
                    write_reason(culprit, reason).view());
    lines_.flush(Clock::now() + kTelling);
  }

  void poison(int culprit, std::string_view reason) override {
    require_here();
    attempts_.poison({rank(), culprit, reason});
    lines_.tell_all({.kind = Head::Kind::poison, .tag = {}, .sequence = own()},
                    write_reason(culprit, reason).view());
    lines_.flush(Clock::now() + kTelling);
  }

  void idle(Clock::time_point until) override {
    require_here();
    until = std::min(until, std::exchange(report_at_, Clock::time_point::max()));
    while (!lines_.news && lines_.serve(until) && Clock::now() < until) {
    }
    lines_.news = false;
  }

  void wake() override { lines_.wake(); }

  TransportError lost(Transfer& transfer, const Deadline& deadline) override {
    return peers_.lost(awaited(transfer), deadline);
  }

 protected:
  void do_start(Transfer& transfer) override {
    require_here();
    attempts_.require_open(transfer.tag().attempt);
    auto& flight = transfer.state<Flight>();
    flight.transfer = &transfer;
    flight.outs.resize(transfer.sends.size());
    flight.ins.assign(transfer.receives.size(), Flight::In::awaited);
    flight.rooms.assign(transfer.receives.size(), {});
    flight.error = nullptr;
    flight.reported = false;
    flight.began = Clock::now();
    mail_.expect(flight);
    peers_.blame(kNobody);
    try {
      mail_.take_held(flight);
      for (std::size_t i = 0; i < transfer.sends.size(); ++i) {
        flight.outs[i].tag = transfer.tag();
        flight.outs[i].bytes = transfer.sends[i].bytes;
        lines_.send(transfer.sends[i].to, flight.outs[i]);
      }
    } catch (...) {  // said by test, as all that happens to a flight
      flight.error = std::current_exception();
    }
  }

  // An attempt that has ended is over, even for what is whole. One that is whole is not lost by
  // what is said later of all attempts.
  bool do_test(Transfer& transfer) override {
    auto& flight = transfer.state<Flight>();
    require_here();
    if (!flight.complete()) lines_.serve(Clock::time_point::min());
    if (flight.error) std::rethrow_exception(flight.error);
    const bool complete = flight.complete();
    try {
      if (!complete || attempts_.is_aborted(transfer.tag().attempt))
        attempts_.check(transfer.tag().attempt);
      if (!complete) check_peers(transfer);
    } catch (const Error& error) {
      peers_.blame(error.rank());
      throw;
    }
    if (!complete) {
      report_late(transfer, flight);
      return false;
    }
    if (std::exchange(flight.reported, false)) report(transfer, size());  // it got on after all
    mail_.forget(flight);
    return true;
  }

  void do_cancel(Transfer& transfer) noexcept override {
    auto& flight = transfer.state<Flight>();
    mail_.forget(flight);
    if (!is_here()) return;
    for (std::size_t i = 0; i < flight.outs.size(); ++i) {
      sockets::Link& link = lines_.link(transfer.sends[i].to);
      link.withdraw(flight.outs[i]);
      if (!link.open()) peers_.leaves(transfer.sends[i].to);
    }
    mail_.drop(flight);
  }

  void do_close(std::uint64_t attempt) override {
    attempts_.close(attempt);
    mail_.close(attempt);
  }

 private:
  std::uint64_t own() const { return static_cast<std::uint64_t>(rank_); }
  bool is_here() const { return process_ == ::getpid(); }
  void require_here() const {
    if (!is_here())
      throw UsageError("the transport is of process " + std::to_string(process_) +
                       ", which has forked this one; allowed: transports made here");
  }

  // ---- what comes in

  void hear_hello(int from, const Head& head) override {
    if (head.kind != Head::Kind::report || head.tag.attempt != kProtocol || head.length != 0)
      throw DataError(name_of(from) + " speaks another version of this protocol", from);
    if (head.tag.unit != static_cast<std::uint32_t>(from) || head.tag.leg != lines_.size())
      throw DataError("where rank " + std::to_string(from) + " of " +
                          std::to_string(lines_.size()) + " should be is rank " +
                          std::to_string(head.tag.unit) + " of " + std::to_string(head.tag.leg),
                      from);
  }

  std::span<std::uint8_t> room_for(int from, const Head& head, std::size_t piece) override {
    if (head.sequence == 0) peers_.heard_of(from);
    return mail_.room_for(from, head, piece);
  }
  void hear_message(int from) override { mail_.hear_message(from); }
  void hear_cut(int from) override { mail_.hear_cut(from); }

  void hear_end(int from) override {
    mail_.hear_end(from);
    peers_.leaves(from);
  }

  void hear_told(int from, const Head& head, ByteView rides) override {
    if (head.kind != Head::Kind::report) peers_.heard_of(from);
    lines_.news = true;
    switch (head.kind) {
      case Head::Kind::abort:
        if (attempts_.abort(head.tag.attempt, read_verdict(from, size(), head, rides)))
          lines_.tell_all(head, rides);
        return;
      case Head::Kind::poison:
        if (attempts_.poison(read_verdict(from, size(), head, rides))) lines_.tell_all(head, rides);
        return;
      case Head::Kind::leave:
        peers_.leaves(from);
        return peers_.waits(from, std::nullopt, head.sequence);
      default:
        peers_.waits(from, head.tag, head.sequence);
    }
  }

  // ---- whom a transfer waits for

  static Awaited awaited(Transfer& transfer) {
    const auto& flight = transfer.state<Flight>();
    Awaited awaited{transfer.tag()};
    for (std::size_t i = 0; i < flight.ins.size(); ++i)
      if (flight.ins[i] != Flight::In::there) awaited.senders.push_back(transfer.receives[i].from);
    for (std::size_t i = 0; i < flight.outs.size(); ++i)
      if (!flight.outs[i].done) awaited.receivers.push_back(transfer.sends[i].to);
    return awaited;
  }

  void check_peers(Transfer& transfer) {
    if (!peers_.any_left()) return;
    const Awaited ranks = awaited(transfer);
    for (const auto* of : {&ranks.senders, &ranks.receivers})
      for (const int rank : *of)
        if (!lines_.broken(rank).empty()) throw DataError(lines_.broken(rank), rank);
    peers_.check_left(ranks, transfer.operation);
  }

  void report_late(Transfer& transfer, Flight& flight) {
    if (flight.reported) return;
    if (const auto late = peers_.late_at(flight.began, transfer.due); Clock::now() < late) {
      report_at_ = std::min(report_at_, late);
      return;
    }
    flight.reported = true;
    report(transfer, awaited(transfer).first().front());
  }

  void report(const Transfer& transfer, int whom) {
    lines_.tell_all({.kind = Head::Kind::report,
                     .tag = transfer.tag(),
                     .sequence = static_cast<std::uint64_t>(whom)});
  }

  int rank_;
  pid_t process_ = ::getpid();
  Peers peers_;
  Attempts attempts_;
  sockets::Lines lines_;
  sockets::Mail mail_;
  Clock::time_point report_at_ = Clock::time_point::max();
};

void require_connected(int descriptor, int rank) {
  int type = 0;
  socklen_t length = sizeof type;
  sockaddr_storage address;
  socklen_t address_length = sizeof address;
  const bool stream =
      ::getsockopt(descriptor, SOL_SOCKET, SO_TYPE, &type, &length) == 0 && type == SOCK_STREAM;
  if (!stream ||
      ::getpeername(descriptor, reinterpret_cast<sockaddr*>(&address), &address_length) != 0)
    throw UsageError("descriptor " + std::to_string(descriptor) + " for rank " +
                     std::to_string(rank) + "; allowed: a connected stream socket");
}

// Small messages leave at once, programs that are started do not inherit it, and a machine that is
// gone is noticed some day.
void prepare(int descriptor) {
  const int on = 1;
  ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);  // UNIX has none
  ::setsockopt(descriptor, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  ::fcntl(descriptor, F_SETFD, FD_CLOEXEC);
}

// The address alone, without the port; empty for what is no internet address.
template <typename Ask>
std::string address_of(Ask ask, int descriptor) {
  sockaddr_storage address;
  socklen_t length = sizeof address;
  if (ask(descriptor, reinterpret_cast<sockaddr*>(&address), &length) != 0) return {};
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* bytes = nullptr;
  if (address.ss_family == AF_INET) bytes = &reinterpret_cast<sockaddr_in&>(address).sin_addr;
  if (address.ss_family == AF_INET6) bytes = &reinterpret_cast<sockaddr_in6&>(address).sin6_addr;
  if (!bytes || !::inet_ntop(address.ss_family, bytes, text.data(), text.size())) return {};
  return text.data();
}

// See SocketsOptions::near_microseconds. Who cannot be asked is left to the system.
void bound(int descriptor, std::uint32_t near_microseconds) {
  constexpr int kNearBytes = 1 << 16;
  const auto there = address_of(::getpeername, descriptor);
  if (there.empty() || there == address_of(::getsockname, descriptor)) return;  // this machine
  tcp_info told{};
  socklen_t length = sizeof told;
  if (::getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &told, &length) == 0 &&
      told.tcpi_rtt < near_microseconds)
    ::setsockopt(descriptor, SOL_SOCKET, SO_SNDBUF, &kNearBytes, sizeof kNearBytes);
}

const RegisterTransport sockets_transport{{
    .name = "sockets",
    .summary = "Ranks as processes over TCP or UNIX sockets, on one machine or many; no MPI.",
    .paper = "",
    .parameters = {},
}};

}  // namespace

std::unique_ptr<Transport> make_sockets_transport(int rank, int size,
                                                  std::span<const int> descriptors,
                                                  const SocketsOptions& options) {
  if (size < 1 || rank < 0 || rank >= size || descriptors.size() != static_cast<std::size_t>(size))
    throw UsageError(name_of(rank) + " of " + std::to_string(size) + " with " +
                     std::to_string(descriptors.size()) +
                     " descriptors; allowed: rank 0 to size - 1, one descriptor for each rank");
  for (int peer = 0; peer < size; ++peer) {
    const int descriptor = descriptors[static_cast<std::size_t>(peer)];
    if (peer == rank && descriptor != -1)
      throw UsageError("descriptor " + std::to_string(descriptor) + " for rank " +
                       std::to_string(rank) + " itself; allowed: -1");
    if (peer == rank) continue;
    require_connected(descriptor, peer);
    if (std::ranges::count(descriptors, descriptor) > 1)
      throw UsageError("descriptor " + std::to_string(descriptor) +
                       " for several ranks; allowed: one for each");
  }
  auto end = std::make_unique<Sockets>(rank, descriptors, options);
  for (const int descriptor : descriptors)
    if (descriptor >= 0) {
      prepare(descriptor);
      bound(descriptor, options.near_microseconds);
    }
  end->take_over(descriptors);
  return end;
}

}  // namespace laconic

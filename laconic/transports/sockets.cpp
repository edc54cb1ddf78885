// sockets: messages between processes over one stream socket for each pair of ranks.
#include "laconic/transports/sockets.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/sockios.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "laconic/transports/attempts.h"
#include "laconic/transports/peers.h"
#include "laconic/transports/sockets_link.h"

namespace laconic {
namespace {

using sockets::Descriptor;
using sockets::Link;
using sockets::Outgoing;
using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kProtocol = 0x31534c;       // of the hello, "LS1"
constexpr std::size_t kMostHeld = 65536;            // messages of one rank nobody has asked for
constexpr std::chrono::milliseconds kTelling(200);  // for others to take in why an attempt ends
constexpr std::chrono::milliseconds kLeaving(1000);

std::string name_of(int rank) { return "rank " + std::to_string(rank); }

struct Flight : Transfer::State {
  enum class In { awaited, arriving, there };
  Transfer* transfer = nullptr;
  std::vector<Outgoing> outs;  // by send
  std::vector<In> ins;         // by receive
  std::vector<std::span<std::uint8_t>> rooms;
  std::exception_ptr error;
  bool reported = false;
  Clock::time_point began;

  bool complete() const {
    return std::ranges::all_of(ins, [](In in) { return in == In::there; }) &&
           std::ranges::all_of(outs, [](const Outgoing& out) { return out.done; });
  }
};

// A message nobody has asked for yet. Memory grows as its bytes come.
struct Held {
  int from;
  Head head;
  Buffer bytes;
};

class Sockets : public Transport, private sockets::Listener {
 public:
  Sockets(int rank, std::span<const int> descriptors, const SocketsOptions& options)
      : options_(options),
        rank_(rank),
        peers_(rank, static_cast<int>(descriptors.size())),
        epoll_(::epoll_create1(EPOLL_CLOEXEC)),
        waker_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        events_(descriptors.size() + 1) {
    if (!epoll_ || !waker_) throw SystemError(sockets::system_words("cannot watch sockets", errno));
    for (std::size_t peer = 0; peer < descriptors.size(); ++peer) {
      lines_.push_back(std::make_unique<Line>(static_cast<int>(peer)));
      if (at(rank) != peer)
        watch(EPOLL_CTL_ADD, descriptors[peer], static_cast<int>(peer), EPOLLIN);
    }
    watch(EPOLL_CTL_ADD, waker_.get(), size(), EPOLLIN);
  }

  // From here on they are this transport's. Says to each who is here.
  void take_over(std::span<const int> descriptors) noexcept {
    for (std::size_t peer = 0; peer < descriptors.size(); ++peer)
      lines_[peer]->link.adopt(descriptors[peer]);
    tell_all({.kind = Head::Kind::report,
              .tag = {.attempt = kProtocol,
                      .unit = static_cast<std::uint32_t>(rank_),
                      .leg = static_cast<std::uint32_t>(size())}});
  }

  // The others hear that this rank leaves, and read what it said before. Bytes nobody reads are
  // taken in first: a socket closed over them would take back what has not arrived yet.
  ~Sockets() override {
    if (!is_here()) return;
    cancel_all();
    tell_all({.kind = Head::Kind::leave,
              .tag = {},
              .sequence = static_cast<std::uint64_t>(peers_.blames())});
    const auto until = Clock::now() + kLeaving;
    flush(until);
    while (any([](const Line& line) { return line.unheard(); }) && Clock::now() < until)
      serve(std::min(until, Clock::now() + std::chrono::milliseconds(1)));
  }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(lines_.size()); }

  std::uint64_t open_attempt() override {
    require_here();
    return attempts_.open();
  }

  void abort(std::uint64_t attempt, int culprit, std::string_view reason) override {
    require_here();
    if (attempts_.is_aborted(attempt)) return;
    attempts_.abort(attempt, {rank(), culprit, reason});
    tell_all({.kind = Head::Kind::abort, .tag = {.attempt = attempt}},
             write_reason(culprit, reason).view());
    flush(Clock::now() + kTelling);
  }

  void poison(int culprit, std::string_view reason) override {
    require_here();
    attempts_.poison({rank(), culprit, reason});
    tell_all({.kind = Head::Kind::poison, .tag = {}}, write_reason(culprit, reason).view());
    flush(Clock::now() + kTelling);
  }

  void idle(Clock::time_point until) override {
    require_here();
    until = std::min(until, std::exchange(report_at_, Clock::time_point::max()));
    while (!news_ && serve(until) && Clock::now() < until) {
    }
    news_ = false;
  }

  void wake() override {
    const std::uint64_t one = 1;
    if (::write(waker_.get(), &one, sizeof one) < 0) return;  // it is awake already
  }

  TransportError lost(Transfer& transfer, const Deadline& deadline) override {
    return peers_.lost(awaited(transfer), deadline);
  }

 protected:
  void do_start(Transfer& transfer) override {
    require_here();
    attempts_.require_open(transfer.tag().attempt);
    auto& flight = transfer.state<Flight>();
    flights_.reserve(flights_.size() + 1);
    flight.transfer = &transfer;
    flight.outs.resize(transfer.sends.size());
    flight.ins.assign(transfer.receives.size(), Flight::In::awaited);
    flight.rooms.assign(transfer.receives.size(), {});
    flight.error = nullptr;
    flight.reported = false;
    flight.began = Clock::now();
    peers_.blame(kNobody);
    flights_.push_back(&flight);
    try {
      take_held(flight);
      for (std::size_t i = 0; i < transfer.sends.size(); ++i)
        send(flight.outs[i], transfer.sends[i], transfer.tag());
    } catch (...) {  // said by test, as all that happens to a flight
      flight.error = std::current_exception();
    }
  }

  // An attempt that has ended is over, even for what is whole. One that is whole is not lost by
  // what is said later of all attempts.
  bool do_test(Transfer& transfer) override {
    auto& flight = transfer.state<Flight>();
    require_here();
    if (!flight.complete()) serve(Clock::time_point::min());
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
    std::erase(flights_, &flight);
    return true;
  }

  void do_cancel(Transfer& transfer) noexcept override {
    auto& flight = transfer.state<Flight>();
    std::erase(flights_, &flight);
    if (!is_here()) return;
    for (std::size_t i = 0; i < flight.outs.size(); ++i) {
      Line& line = *lines_[at(transfer.sends[i].to)];
      line.link.withdraw(flight.outs[i]);
      if (!line.link.open()) peers_.leaves(transfer.sends[i].to);
    }
    for (auto& line : lines_)
      if (line->flight == &flight) line->drop();
  }

  void do_close(std::uint64_t attempt) override {
    attempts_.close(attempt);
    for (std::size_t i = held_.size(); i-- > 0;)
      if (held_[i]->head.tag.attempt == attempt) unhold(i);
  }

 private:
  // What leads to another rank, and where the message that comes from there belongs: to a receive
  // of a flight, to those held, or nowhere.
  struct Line {
    explicit Line(int peer) : link(peer), peer(peer) {}

    void drop() {
      link.redirect({});
      flight = nullptr;
      held = nullptr;
    }
    // Whether the other machine has not taken all bytes yet. With UNIX sockets there is none.
    bool unheard() const {
      int domain = AF_UNIX, count = 0;
      socklen_t length = sizeof domain;
      if (!link.open()) return false;
      ::getsockopt(link.descriptor(), SOL_SOCKET, SO_DOMAIN, &domain, &length);
      return domain != AF_UNIX && ::ioctl(link.descriptor(), SIOCOUTQ, &count) == 0 && count > 0;
    }

    Link link;
    int peer;
    bool watched_out = false;
    Flight* flight = nullptr;
    std::size_t receive = 0;
    Held* held = nullptr;
    std::uint64_t held_bytes = 0;
    std::size_t held_count = 0;
    std::string broken;  // why nothing from there can be understood any more
  };

  static std::size_t at(int rank) { return static_cast<std::size_t>(rank); }

  bool is_here() const { return process_ == ::getpid(); }
  void require_here() const {
    if (!is_here())
      throw UsageError("the transport is of process " + std::to_string(process_) +
                       ", which has forked this one; allowed: transports made here");
  }

  template <class Holds>
  bool any(Holds holds) const {
    return std::ranges::any_of(lines_, [&](const auto& line) { return holds(*line); });
  }

  // ---- the sockets

  void watch(int operation, int descriptor, int number, std::uint32_t what) const {
    epoll_event event{};
    event.events = what;
    event.data.u32 = static_cast<std::uint32_t>(number);
    if (::epoll_ctl(epoll_.get(), operation, descriptor, &event) != 0)
      throw SystemError(sockets::system_words("cannot watch a socket", errno));
  }

  void send(Outgoing& out, const Send& send, const Tag& tag) {
    Line& line = *lines_[at(send.to)];
    out.tag = tag;
    out.bytes = send.bytes;
    line.link.send(out);
    write(line);
  }

  void write(Line& line) {
    if (!line.link.open()) return;
    news_ |= line.link.write();
    if (line.watched_out == line.link.has_more()) return;
    line.watched_out = !line.watched_out;
    watch(EPOLL_CTL_MOD, line.link.descriptor(), line.peer,
          line.watched_out ? EPOLLIN | EPOLLOUT : EPOLLIN);
  }

  void read(Line& line) {
    try {
      if (!line.link.open() || line.link.read(*this)) return;
    } catch (const std::exception& error) {  // where its next message begins is not known any more
      line.broken = error.what();
    }
    lose(line);
  }

  // Its rank is not heard of again.
  void lose(Line& line) {
    if (line.flight) line.flight->ins[line.receive] = Flight::In::awaited;
    line.drop();
    line.link.close();
    peers_.leaves(line.peer);
    news_ = true;
  }

  // Waits for sockets until then, and moves what can be moved. False: nothing came, or wake.
  bool serve(Clock::time_point until) {
    const int count = ::epoll_wait(epoll_.get(), events_.data(), static_cast<int>(events_.size()),
                                   milliseconds_until(until));
    bool woken = count == 0 || (count < 0 && errno != EINTR);
    for (int i = 0; i < count; ++i) {
      const auto& event = events_[static_cast<std::size_t>(i)];
      if (event.data.u32 == lines_.size()) {
        std::uint64_t times;
        woken = ::read(waker_.get(), &times, sizeof times) > 0;
        continue;
      }
      Line& line = *lines_[event.data.u32];
      if (event.events & EPOLLOUT) write(line);
      if (event.events & ~static_cast<std::uint32_t>(EPOLLOUT)) read(line);
    }
    if (woken && count > 0) news_ = true;
    return !woken;
  }

  static int milliseconds_until(Clock::time_point until) {
    if (until == Clock::time_point::min()) return 0;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
    return static_cast<int>(std::clamp<std::int64_t>(left, 0, 1 << 30));
  }

  // Until all that was told has gone, or then.
  void flush(Clock::time_point until) noexcept {
    try {
      while (any([](const Line& line) { return line.link.open() && line.link.has_told(); }) &&
             Clock::now() < until)
        serve(until);
    } catch (...) {
    }
  }

  // Whom it does not reach does not hear it.
  void tell_all(Head head, ByteView rides = {}) noexcept {
    head.length = rides.size();
    for (auto& line : lines_) {
      if (!line->link.open()) continue;
      try {
        line->link.tell(head, rides);
        write(*line);
      } catch (...) {
      }
    }
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
    Line& line = *lines_[at(from)];
    if (head.sequence == 0) find_place(line, head);
    if (line.flight)
      return line.flight->rooms[line.receive].subspan(static_cast<std::size_t>(head.sequence),
                                                      piece);
    if (!line.held) return {};
    line.held_bytes += piece;
    if (line.held_bytes > options_.held_bytes || line.held_count > kMostHeld)
      throw DataError(name_of(from) + " sends more than " + std::to_string(options_.held_bytes) +
                          " bytes or " + std::to_string(kMostHeld) + " messages nobody asks for",
                      from);
    return {line.held->bytes.grow(piece), piece};
  }

  // Where a message that begins belongs.
  void find_place(Line& line, const Head& head) {
    peers_.heard_of(line.peer);
    if (attempts_.is_closed(head.tag.attempt)) return;
    for (Flight* flight : flights_) {
      if (flight->transfer->tag() != head.tag) continue;
      for (std::size_t i = 0; i < flight->ins.size(); ++i)
        if (flight->ins[i] == Flight::In::awaited &&
            flight->transfer->receives[i].from == line.peer)
          return give(line, *flight, i, head);
    }
    hold(line, head);
  }

  void give(Line& line, Flight& flight, std::size_t i, const Head& head) {
    if (!make_room(flight, i, head)) return;
    line.flight = &flight;
    line.receive = i;
  }

  // For a message to the i-th receive. What is wrong with it is said when its own transfer is
  // tested.
  bool make_room(Flight& flight, std::size_t i, const Head& head) {
    flight.ins[i] = Flight::In::arriving;
    try {
      flight.rooms[i] =
          flight.transfer->receives[i].room_for(head.length, flight.transfer->operation);
      return true;
    } catch (...) {
      if (!flight.error) flight.error = std::current_exception();
      news_ = true;
      return false;
    }
  }

  void hear_message(int from) override {
    Line& line = *lines_[at(from)];
    if (line.flight) line.flight->ins[line.receive] = Flight::In::there;
    news_ |= line.flight != nullptr;
    line.flight = nullptr;
    line.held = nullptr;
  }

  void hear_cut(int from) override {
    Line& line = *lines_[at(from)];
    if (line.flight) line.flight->ins[line.receive] = Flight::In::awaited;
    if (Held* const held = line.held)
      unhold(static_cast<std::size_t>(std::ranges::find(held_, held, &HeldPointer::get) -
                                      held_.begin()));
    line.drop();
  }

  void hear_told(int from, const Head& head, ByteView rides) override {
    if (head.kind != Head::Kind::report) peers_.heard_of(from);
    news_ = true;
    switch (head.kind) {
      case Head::Kind::abort:
        return attempts_.abort(head.tag.attempt, verdict(from, rides));
      case Head::Kind::poison:
        return attempts_.poison(verdict(from, rides));
      case Head::Kind::leave:
        peers_.leaves(from);
        return peers_.waits(from, std::nullopt, head.sequence);
      default:
        peers_.waits(from, head.tag, head.sequence);
    }
  }

  Verdict verdict(int from, ByteView rides) const {
    const Reason reason = read_reason(rides, from);
    if (reason.culprit < kNobody || reason.culprit >= size())
      throw DataError(name_of(from) + " blames a rank that is none", from);
    return {from, reason.culprit, reason.text};
  }

  // ---- messages that wait

  using HeldPointer = std::unique_ptr<Held>;

  void hold(Line& line, const Head& head) {
    if (spare_.empty()) spare_.push_back(std::make_unique<Held>());
    held_.push_back(std::move(spare_.back()));
    spare_.pop_back();
    line.held = held_.back().get();
    *line.held = {line.peer, head, std::move(line.held->bytes)};
    line.held->bytes.clear();
    ++line.held_count;
  }

  // The i-th is held no longer; if it is still coming in, the rest is dropped.
  void unhold(std::size_t i) {
    Line& line = *lines_[at(held_[i]->from)];
    if (line.held == held_[i].get()) line.drop();
    line.held_bytes -= held_[i]->bytes.size();
    --line.held_count;
    spare_.push_back(std::move(held_[i]));
    held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(i));
    if (spare_.size() > kMostSpare) spare_.erase(spare_.begin());
  }

  void take_held(Flight& flight) {
    for (std::size_t i = 0; i < flight.ins.size() && !held_.empty(); ++i)
      for (std::size_t k = 0; k < held_.size(); ++k)
        if (held_[k]->from == flight.transfer->receives[i].from &&
            held_[k]->head.tag == flight.transfer->tag()) {
          take_held(flight, i, k);
          break;
        }
  }

  // What is there of it; the rest goes straight to its place.
  void take_held(Flight& flight, std::size_t i, std::size_t k) {
    const Held& held = *held_[k];
    Line& line = *lines_[at(held.from)];
    const bool under_way = line.held == &held;
    const std::size_t rest = under_way ? line.link.rest_of_piece() : 0;
    const std::size_t there = held.bytes.size() - rest;
    if (make_room(flight, i, held.head)) {
      std::ranges::copy(held.bytes.view().first(there), flight.rooms[i].begin());
      if (under_way) {
        line.held = nullptr;
        line.flight = &flight;
        line.receive = i;
        line.link.redirect(flight.rooms[i].subspan(there, rest));
      } else {
        flight.ins[i] = Flight::In::there;
      }
    }
    unhold(k);
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
        if (const Line& line = *lines_[at(rank)]; !line.broken.empty())
          throw DataError(line.broken, rank);
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
    tell_all({.kind = Head::Kind::report,
              .tag = transfer.tag(),
              .sequence = static_cast<std::uint64_t>(whom)});
  }

  static constexpr std::size_t kMostSpare = 64;

  SocketsOptions options_;
  int rank_;
  pid_t process_ = ::getpid();
  Peers peers_;
  Descriptor epoll_, waker_;
  std::vector<epoll_event> events_;
  std::vector<std::unique_ptr<Line>> lines_;  // by rank
  Attempts attempts_;
  std::vector<Flight*> flights_;
  std::vector<HeldPointer> held_, spare_;
  bool news_ = false;  // something has happened since the last idle
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
    if (descriptor >= 0) prepare(descriptor);
  end->take_over(descriptors);
  return end;
}

}  // namespace laconic

// threads: a message is a pointer to the sender's bytes, posted at the receiver's place; the
// receiver copies them when it tests, and tells the sender. Short messages are copied when they are
// posted: they arrive even if their sender leaves, and nobody waits for them to be taken.
#include "laconic/transports/threads.h"

#include <array>
#include <atomic>
#include <condition_variable>
#include <mutex>

#include "laconic/transports/attempts.h"
#include "laconic/transports/loss.h"
#include "laconic/transports/posted.h"

namespace laconic {
namespace {

constexpr int kAnybody = -2;
constexpr std::size_t kShort = 256;  // bytes of a message that is copied at once
constexpr int kCopiesAtFirst = 64;   // of a rank; more are made when more are needed

// A message that lies at its receiver's place.
struct Copied : Message {
  std::array<std::uint8_t, kShort> data;
};

// Without whom a rank cannot go on: read by those it holds up, whatever else they have locked.
class Needed {
 public:
  void set(const Need& need) {
    const std::lock_guard lock(mutex_);
    need_ = need;
  }
  Need get() const {
    const std::lock_guard lock(mutex_);
    return need_;
  }

 private:
  mutable std::mutex mutex_;
  Need need_;
};

// Where a rank is reached and waits. All but the last two are guarded by its mutex.
struct Place {
  std::mutex mutex;
  std::condition_variable changed;
  Posted posted;  // for this rank, not yet taken
  std::vector<std::unique_ptr<Copied>> copies;
  std::vector<Copied*> unused;  // of them

  void add_copy() {
    copies.push_back(std::make_unique<Copied>());
    unused.reserve(copies.size());
    unused.push_back(copies.back().get());
  }

  Attempts attempts;
  bool news = false;               // something has happened since the last idle
  int awaited = kAnybody;          // who alone can make news
  Needed needs;                    // or needed when it failed
  std::atomic<bool> left = false;  // will never answer again

  // Others' changes than the awaited one's wake nobody up: with 256 ranks that all talk to each
  // other, rounds took three times as long when they did.
  void tell(int by) {
    if (awaited == kAnybody || by == awaited) tell();
  }
  void tell() {
    news = true;
    changed.notify_one();
  }
};

struct Group {
  explicit Group(int size) : places(static_cast<std::size_t>(size)) {
    for (Place& place : places)
      for (int i = 0; i < std::min(4 * size, kCopiesAtFirst); ++i) place.add_copy();
  }
  std::vector<Place> places;
};

// What a rank notes about a transfer of its own.
struct Flight : Transfer::State {
  struct Taken {
    Message* message;
    std::size_t receive;
  };
  std::vector<Message> messages;  // by send
  std::size_t unsent = 0;         // guarded by the rank's place
  std::vector<bool> received;
  std::size_t unreceived = 0;
  std::vector<Taken> taken;
};

class Threads : public Transport {
 public:
  Threads(std::shared_ptr<Group> group, int rank) : group_(std::move(group)), rank_(rank) {}

  ~Threads() override {
    cancel_all();
    mine().needs.set(blames_);  // else it is itself who is lost
    mine().left = true;
    for (Place& place : group_->places) {
      const std::lock_guard lock(place.mutex);
      place.tell(rank_);
    }
    drop([](const Message&) { return true; }, false);
  }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(group_->places.size()); }

  std::uint64_t open_attempt() override {
    const std::lock_guard lock(mine().mutex);
    return mine().attempts.open();
  }

  void abort(std::uint64_t attempt, int culprit, std::string_view reason) override {
    tell_all([&](Place& place) { place.attempts.abort(attempt, {rank_, culprit, reason}); });
  }

  void poison(int culprit, std::string_view reason) override {
    tell_all([&](Place& place) { place.attempts.poison({rank_, culprit, reason}); });
  }

  void idle(std::chrono::steady_clock::time_point until) override {
    std::unique_lock lock(mine().mutex);
    if (tested_ > 0) mine().needs.set(waits_for_);
    mine().changed.wait_until(lock, until, [&] { return mine().news; });
    mine().news = false;
    tested_ = 0;
  }

  void wake() override {
    const std::lock_guard lock(mine().mutex);
    mine().tell();
  }

  TransportError lost(Transfer& transfer, const Deadline& deadline) override {
    std::unique_lock lock(mine().mutex);
    mine().attempts.check(transfer.tag().attempt);  // somebody may have said it meanwhile
    const Outstanding of = outstanding(transfer);
    lock.unlock();
    const TransportError error =
        failure(of, transfer.tag(), " " + deadline.within(), deadline.operation);
    blame({error.rank(), transfer.tag()});
    return error;
  }

 protected:
  void do_start(Transfer& transfer) override {
    {
      const std::lock_guard lock(mine().mutex);
      mine().attempts.require_open(transfer.tag().attempt);
    }
    blame({});
    auto& flight = transfer.state<Flight>();
    flight.received.assign(transfer.receives.size(), false);
    flight.unreceived = transfer.receives.size();
    flight.taken.reserve(transfer.receives.size());
    flight.messages.resize(transfer.sends.size());
    flight.unsent = transfer.sends.size();
    for (std::size_t i = 0; i < transfer.sends.size(); ++i)
      flight.messages[i] = {rank_, transfer.tag(), transfer.sends[i].bytes, &flight};
    try {
      for (std::size_t i = 0; i < transfer.sends.size(); ++i)
        post(flight.messages[i], transfer.sends[i].to);
    } catch (...) {
      do_cancel(transfer);
      throw;
    }
  }

  bool do_test(Transfer& transfer) override {
    auto& flight = transfer.state<Flight>();
    {
      const std::lock_guard lock(mine().mutex);
      mine().awaited = kAnybody;  // until it is known what is still missing
      find(transfer, flight);
    }
    copy(transfer, flight);
    const std::lock_guard lock(mine().mutex);
    if (flight.unreceived == 0 && flight.unsent == 0) {
      mine().needs.set({});
      tested_ = 0;  // what it waits for is found anew
      return true;
    }
    const Outstanding of = outstanding(transfer);
    try {
      mine().attempts.check(transfer.tag().attempt);
      // What it posted before it left counts: it may have come since `find` looked.
      if (at(of.peer).left && !(of.sends && mine().posted.has(of.peer, transfer.tag())))
        throw failure(of, transfer.tag(), "", transfer.operation);
    } catch (const TransportError& error) {
      blame({error.rank(), transfer.tag()});
      throw;
    }
    if (tested_ == 0 || transfer.tag() < *waits_for_.tag) waits_for_ = {of.peer, transfer.tag()};
    mine().awaited = tested_++ == 0 ? of.peer : kAnybody;
    return false;
  }

  // Takes back messages nobody took, and waits for those being copied.
  void do_cancel(Transfer& transfer) noexcept override {
    auto& flight = transfer.state<Flight>();
    for (std::size_t i = 0; i < transfer.sends.size(); ++i) {
      {
        Place& place = at(transfer.sends[i].to);
        const std::lock_guard lock(place.mutex);
        if (place.posted.remove(flight.messages[i])) continue;
      }
      std::unique_lock lock(mine().mutex);
      mine().awaited = kAnybody;
      mine().changed.wait(lock, [&] { return flight.messages[i].free; });
    }
  }

  void do_close(std::uint64_t attempt) override {
    {
      const std::lock_guard lock(mine().mutex);
      mine().attempts.close(attempt);
    }
    drop([&](const Message& message) { return message.tag.attempt == attempt; }, true);
  }

 private:
  Place& at(int rank) const { return group_->places[static_cast<std::size_t>(rank)]; }
  Place& mine() const { return at(rank_); }

  void post(Message& message, int to) {
    Place& place = at(to);
    std::unique_lock lock(place.mutex);
    if (place.left) return;  // test will say so
    const bool wanted = !place.attempts.is_closed(message.tag.attempt);
    const bool is_short = message.bytes.size() <= kShort;
    if (wanted) place.posted.add(is_short ? copy_at(place, message) : message);
    if (wanted && !is_short) message.free = false;
    if (wanted) place.tell(rank_);
    lock.unlock();
    if (!wanted || is_short) let_go(message, true);
  }

  // With the place's mutex held.
  static Message& copy_at(Place& place, const Message& message) {
    if (place.unused.empty()) place.add_copy();
    Copied& copy = *place.unused.back();
    place.unused.pop_back();
    static_cast<Message&>(copy) = message;
    copy.owner = nullptr;
    copy.bytes = {copy.data.data(), message.bytes.size()};
    if (!copy.bytes.empty()) std::memcpy(copy.data.data(), message.bytes.data(), copy.bytes.size());
    return copy;
  }

  // At once: a rank that hears of an end and leaves must not be taken for its cause by one that has
  // not heard of it yet.
  template <class Tell>
  void tell_all(Tell tell) const {
    std::vector<std::unique_lock<std::mutex>> locks;
    for (Place& place : group_->places) locks.emplace_back(place.mutex);
    for (Place& place : group_->places) {
      tell(place);
      place.tell();
    }
  }

  // Messages for this rank that it will not take.
  template <class Wanted>
  void drop(Wanted wanted, bool delivered) const {
    std::vector<Message*> late;
    {
      const std::lock_guard lock(mine().mutex);
      mine().posted.drain(wanted, [&](Message& message) { late.push_back(&message); });
    }
    for (Message* message : late) let_go(*message, delivered);
  }

  // The message's bytes are its sender's again.
  void let_go(Message& message, bool delivered) const {
    if (!message.owner) {
      const std::lock_guard lock(mine().mutex);
      mine().unused.push_back(static_cast<Copied*>(&message));
      return;
    }
    Place& sender = at(message.from);
    const std::lock_guard lock(sender.mutex);
    message.free = true;
    message.delivered = delivered;
    if (delivered) --static_cast<Flight*>(message.owner)->unsent;
    sender.tell(rank_);
  }

  // Takes the messages that are there for this transfer.
  void find(const Transfer& transfer, Flight& flight) const {
    flight.taken.clear();
    for (std::size_t i = 0; i < transfer.receives.size(); ++i)
      if (!flight.received[i])
        if (Message* message = mine().posted.take(transfer.receives[i].from, transfer.tag()))
          flight.taken.push_back({message, i});
  }

  // A message that cannot be received is taken all the same, as are those behind it.
  void copy(const Transfer& transfer, Flight& flight) const {
    std::exception_ptr error;
    for (const auto& [message, i] : flight.taken) {
      try {
        if (!error) copy(*message, transfer.receives[i], transfer.operation);
      } catch (...) {
        error = std::current_exception();
      }
      let_go(*message, true);
      flight.received[i] = true;
      --flight.unreceived;
    }
    if (error) std::rethrow_exception(error);
  }

  static void copy(const Message& message, const Receive& receive, std::string_view operation) {
    const std::size_t length = message.bytes.size();
    const auto room = receive.room_for(length, operation);
    if (length > 0) std::memcpy(room.data(), message.bytes.data(), length);
  }

  struct Outstanding {
    int peer;
    bool sends;  // it has not sent; else it has not received
  };

  // For whom the transfer waits: those who have not sent first.
  static Outstanding outstanding(Transfer& transfer) {
    const auto& flight = transfer.state<Flight>();
    for (std::size_t i = 0; i < transfer.receives.size(); ++i)
      if (!flight.received[i]) return {transfer.receives[i].from, true};
    for (std::size_t i = 0; i < transfer.sends.size(); ++i)
      if (!flight.messages[i].delivered) return {transfer.sends[i].to, false};
    // Others were faster than the question: none is better than another.
    return transfer.receives.empty() ? Outstanding{transfer.sends.front().to, false}
                                     : Outstanding{transfer.receives.front().from, true};
  }

  void blame(const Need& need) {
    blames_ = need;
    mine().needs.set(need);
  }

  TransportError failure(const Outstanding& of, const Tag& tag, const std::string& when,
                         std::string_view operation) const {
    const int lost =
        lost_behind(of.peer, tag, rank_, size(), [&](int rank) { return at(rank).needs.get(); });
    return lost_error({.lost = lost,
                       .left = at(lost).left,
                       .peer = of.peer,
                       .rank = rank_,
                       .what = (of.sends ? "to send" : "to receive") + when},
                      operation);
  }

  std::shared_ptr<Group> group_;
  int rank_;
  // What was tested since the last idle: how many transfers, and for whom the last of them waits.
  std::size_t tested_ = 0;
  Need waits_for_;
  Need blames_;  // whose fault the last error was; others need not blame this rank for it
};

const RegisterTransport threads{{
    .name = "threads",
    .summary = "Ranks as threads of one process; bytes are copied once.",
    .paper = "",
    .parameters = {},
}};

}  // namespace

std::vector<std::unique_ptr<Transport>> make_thread_transports(int size) {
  if (size < 1 || size > 65536)
    throw UsageError(std::to_string(size) + " ranks; allowed: 1 to 65536");
  const auto group = std::make_shared<Group>(size);
  std::vector<std::unique_ptr<Transport>> ends;
  for (int rank = 0; rank < size; ++rank) ends.push_back(std::make_unique<Threads>(group, rank));
  return ends;
}

}  // namespace laconic

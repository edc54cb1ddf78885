// threads: a message is a pointer to the sender's bytes; the receiver copies them and tells the
// sender, who waits.
#include "laconic/transports/threads.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>

#include "laconic/base/errors.h"

namespace laconic {
namespace {

// A sender's message. It is the sender's until it is done; who holds the sender's place may say
// that it is.
struct Message {
  ByteView bytes;
  bool done = false;
};

// Where a rank is reached and waits. All but the last is guarded by its mutex.
struct Place {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::deque<Message*>> from;  // by sender: messages not yet taken
  std::vector<bool> left;                  // by rank: will never answer again
  std::size_t awaited = 0;                 // whom the rank waits for, or did last
  // Without whom the rank cannot go on, or could not when it failed: read by those it holds up.
  std::atomic<int> needs = kNobody;

  // Rank `by` has changed something here. Others' changes wake nobody up: with 256 ranks that all
  // talk to each other, rounds took three times as long when they did.
  void tell(std::size_t by) {
    if (by == awaited) changed.notify_one();
  }
};

struct Group {
  explicit Group(int size) : places(static_cast<std::size_t>(size)) {
    for (Place& place : places) {
      place.from.resize(places.size());
      place.left.resize(places.size());
    }
  }
  std::vector<Place> places;
};

class Threads : public Transport {
 public:
  Threads(std::shared_ptr<Group> group, int rank) : group_(std::move(group)), rank_(rank) {}

  ~Threads() override {
    for (Place& place : group_->places) {
      const std::lock_guard lock(place.mutex);
      place.left[index()] = true;
      place.tell(index());
    }
  }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(group_->places.size()); }

 protected:
  void do_exchange(std::span<const Send> sends, std::span<const Receive> receives,
                   const Deadline& deadline) override {
    mine().needs = kNobody;
    std::vector<Message> messages(sends.size());
    Withdraw posted{*this, sends, messages};
    for (; posted.count < sends.size(); ++posted.count) {
      messages[posted.count].bytes = sends[posted.count].bytes;
      Place& place = at(sends[posted.count].to);
      const std::lock_guard lock(place.mutex);
      place.from[index()].push_back(&messages[posted.count]);
      place.tell(index());
    }
    for (const Receive& receive : receives) take(receive, deadline);
    for (std::size_t i = 0; i < sends.size(); ++i) await(messages[i], sends[i].to, deadline);
  }

 private:
  std::size_t index() const { return static_cast<std::size_t>(rank_); }
  Place& at(int rank) const { return group_->places[static_cast<std::size_t>(rank)]; }
  Place& mine() const { return at(rank_); }

  // Copies the next message of one rank.
  void take(const Receive& receive, const Deadline& deadline) {
    auto& queue = mine().from[static_cast<std::size_t>(receive.from)];
    Message* message = nullptr;
    {
      std::unique_lock lock(mine().mutex);
      wait(lock, receive.from, deadline, "to send", [&] { return !queue.empty(); });
      message = queue.front();
      queue.pop_front();
    }
    const std::size_t sent = message->bytes.size();
    if (sent == receive.bytes.size() && sent > 0)
      std::memcpy(receive.bytes.data(), message->bytes.data(), sent);
    {
      Place& sender = at(receive.from);
      const std::lock_guard lock(sender.mutex);
      message->done = true;
      sender.tell(index());
    }
    if (sent != receive.bytes.size())
      throw TransportError("rank " + std::to_string(receive.from) + " sent " +
                           std::to_string(sent) + " bytes where rank " + std::to_string(rank_) +
                           " expects " + std::to_string(receive.bytes.size()) + " (" +
                           std::string(deadline.operation) + ")");
  }

  void await(Message& message, int to, const Deadline& deadline) {
    std::unique_lock lock(mine().mutex);
    wait(lock, to, deadline, "to receive", [&] { return message.done; });
  }

  // Waits at this rank's place for `peer` to do something.
  template <class Done>
  void wait(std::unique_lock<std::mutex>& lock, int peer, const Deadline& deadline,
            const char* what, Done done) {
    mine().awaited = static_cast<std::size_t>(peer);
    mine().needs = peer;
    while (!done()) {
      if (has_left(peer)) fail(peer, what, "", deadline);
      if (mine().changed.wait_until(lock, deadline.at) == std::cv_status::timeout && !done())
        fail(peer, what, " " + deadline.within(), deadline);
    }
    mine().needs = kNobody;
  }

  bool has_left(int rank) const { return mine().left[static_cast<std::size_t>(rank)]; }

  [[noreturn]] void fail(int peer, const char* what, const std::string& when,
                         const Deadline& deadline) const {
    const int lost =
        lost_behind(peer, rank_, size(), [&](int rank) { return at(rank).needs.load(); });
    throw TransportError(lost_sentence(
        {.lost = lost, .left = has_left(lost), .peer = peer, .rank = rank_, .what = what + when},
        deadline));
  }

  // On the way out, takes back messages nobody took, and waits for those being copied: their bytes
  // are the caller's.
  struct Withdraw {
    Threads& self;
    std::span<const Send> sends;
    std::vector<Message>& messages;
    std::size_t count = 0;

    ~Withdraw() {
      for (std::size_t i = 0; i < count; ++i) {
        {
          Place& place = self.at(sends[i].to);
          const std::lock_guard lock(place.mutex);
          if (std::erase(place.from[self.index()], &messages[i]) > 0) continue;
        }
        std::unique_lock lock(self.mine().mutex);
        self.mine().awaited = static_cast<std::size_t>(sends[i].to);
        self.mine().changed.wait(lock, [&] { return messages[i].done; });
      }
    }
  };

  std::shared_ptr<Group> group_;
  int rank_;
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

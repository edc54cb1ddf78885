// How ranks reach each other: tagged messages that are started, asked after, and can be called
// off. The base is declared here so that exchanges need not know any transport.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "laconic/base/args.h"
#include "laconic/base/buffer.h"
#include "laconic/base/errors.h"

namespace laconic {

inline constexpr double kLongestTimeout = 1e8;  // seconds; clocks hold it

// When a wait ends in an error, and what was being done: "all_gather of frames".
struct Deadline {
  std::chrono::steady_clock::time_point at;
  double seconds;  // as asked for, for messages
  std::string_view operation;

  // Throws UsageError unless seconds is above 0 and at most kLongestTimeout.
  static Deadline in(double seconds, std::string_view operation);

  std::string within() const;  // "within 2.5 s", for messages
};

// What a message belongs to. Messages of different tags never meet; those of one tag from one rank
// to another arrive in the order in which they were started.
struct Tag {
  std::uint64_t attempt = 0;
  std::uint32_t unit = 0, leg = 0;
  friend auto operator<=>(const Tag&, const Tag&) = default;
};

// What a message costs beside its own bytes, on every transport: the size of the head that mpi
// really sends before it.
inline constexpr std::uint64_t kMessageHead = 40;

struct Send {
  int to;
  ByteView bytes;
};

// One message to be received: into a Buffer that takes its length, or into exactly these bytes.
struct Receive {
  int from;
  Buffer* into = nullptr;
  std::uint64_t most = 0;
  std::span<std::uint8_t> bytes = {};

  static Receive sized(int from, Buffer& into, std::uint64_t most) { return {from, &into, most}; }
  static Receive exactly(int from, std::span<std::uint8_t> bytes) {
    return {from, nullptr, bytes.size(), bytes};
  }

  // Where the bytes of a message of this length go. Throws DataError naming the sender when it is
  // not one that may come, before memory is taken for it.
  std::span<std::uint8_t> room_for(std::uint64_t length, std::string_view operation) const;
};

class Transport;

// What one rank sends and receives under one tag. Reused from step to step, so that in steady state
// nothing is allocated. Between start and the test that returns true or throws, or cancel, it
// flies: all memory named here is the transport's, and the lists are not to be touched.
class Transfer {
 public:
  Transfer() = default;
  ~Transfer();  // cancels
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  std::string_view operation = "a transfer";  // for messages; outlives the flight
  // When the caller will give up: for transports that block, and for those that tell others in time
  // for whom they wait.
  std::chrono::steady_clock::time_point due = std::chrono::steady_clock::time_point::max();
  // Owns the memory named below. Transports that cannot take back what they have begun (mpi) copy
  // long messages unless this is given. Where it is, and a flight was cancelled, they share it
  // until they are done: who finds it shared then (use_count) leaves that memory to them.
  std::shared_ptr<const void> keep_alive;
  std::vector<Send> sends;
  std::vector<Receive> receives;

  void clear();  // empties both lists
  bool flies() const { return transport_ != nullptr; }
  bool done() const { return done_; }  // its last flight came to its end

  // For transports: the tag it flies under, and what the transport notes about it, which stays from
  // flight to flight.
  struct State {
    virtual ~State() = default;
  };
  const Tag& tag() const { return tag_; }
  template <class S>
  S& state() {
    if (!dynamic_cast<S*>(state_.get())) state_ = std::make_unique<S>();
    return static_cast<S&>(*state_);
  }

 private:
  friend class Transport;
  Transport* transport_ = nullptr;
  Tag tag_;
  std::uint64_t rounds_ = 0;
  bool done_ = false;
  std::unique_ptr<State> state_;
};

// One rank's end. Used by one thread at a time, but for wake. An error of a flight is thrown by
// test and wait: DataError for a message that cannot be, TransportError for all else, with the rank
// at fault.
class Transport {
 public:
  virtual ~Transport();
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // The number of the next attempt. All ranks open in the same order, so all get the same; a number
  // is never used again. Several may be open. Messages of an attempt that is not open here yet are
  // held, those of one that was closed are dropped. What still flies is cancelled by closing.
  virtual std::uint64_t open_attempt() = 0;
  void close_attempt(std::uint64_t attempt);

  // Returns at once. UsageError: a peer that is none, an attempt that is not open, a transfer that
  // flies. Of transfers that fly at the same time no two have the same tag.
  void start(const Tag& tag, Transfer& transfer);
  // Makes progress; true: all was sent and received.
  bool test(Transfer& transfer);
  // Afterwards the memory is the caller's again (but see keep_alive; a Buffer may have lost its
  // memory). What was sent may still arrive.
  void cancel(Transfer& transfer) noexcept;
  // Tests and idles until it is done. Too late: cancels it and throws what `lost` says.
  void wait(Transfer& transfer, const Deadline& deadline);

  // Ends all flights of an attempt, here and on all other ranks, with a TransportError that has the
  // culprit's rank: "rank 1 cannot go on: <reason>", where rank 1 is the one that called. The first
  // abort of an attempt counts. Remembered where the attempt was not opened yet.
  virtual void abort(std::uint64_t attempt, int culprit, std::string_view reason) = 0;
  // The same for all attempts, for ever: start, test and open_attempt throw.
  virtual void poison(int culprit, std::string_view reason) = 0;

  // Returns when something may have changed for a transfer tested since the last idle, when wake
  // was called, or at this time.
  virtual void idle(std::chrono::steady_clock::time_point until) = 0;
  virtual void wake() {}  // from any thread

  // What to throw for a transfer that took too long. It names the rank at the end of the chain of
  // those who wait for each other.
  virtual TransportError lost(Transfer& transfer, const Deadline& deadline) = 0;

  // Whether test waits for others: then all ranks start all transfers in the same order, and need
  // the transfers of their peers to get on with their own.
  virtual bool blocks() const { return false; }

  // Whether other ranks are known to be other processes: what a step takes is then the link's and
  // the machines' to say, and the guard may be on unless somebody says otherwise.
  virtual bool joins_processes() const { return false; }

  // Whether the engine underneath sums floats over ranks itself, in an order of its own. These have
  // no tags: all ranks start them in the same order. The lists of the transfer are not looked at;
  // it is tested as others are.
  virtual bool reduces() const { return false; }
  void start_reduce(const Tag& tag, std::span<float> values, Transfer& transfer);

  // Bytes this rank has sent to others, a head for each message included, and how many transfers
  // have brought it something: what a link's bandwidth and latency act on. A reduce counts as the
  // ring it could be: 2 (n - 1) / n of its bytes, 2 (n - 1) transfers.
  std::uint64_t bytes_sent() const { return bytes_sent_; }
  std::uint64_t messages_sent() const { return messages_sent_; }
  std::uint64_t rounds() const { return rounds_; }

 protected:
  // What a transport does. A flight's error is thrown by do_test; do_start throws only UsageError
  // and what memory throws, and has then started nothing.
  virtual void do_close(std::uint64_t attempt) = 0;
  virtual void do_start(Transfer& transfer) = 0;
  virtual bool do_test(Transfer& transfer) = 0;
  virtual void do_cancel(Transfer& transfer) noexcept = 0;
  virtual void do_start_reduce(std::span<float> values, Transfer& transfer);

  void cancel_all() noexcept;  // for destructors of transports

 private:
  void launch(const Tag& tag, Transfer& transfer);
  void land(Transfer& transfer) noexcept;

  std::vector<Transfer*> flying_;
  std::uint64_t bytes_sent_ = 0, messages_sent_ = 0, rounds_ = 0;
};

struct TransportInfo {
  std::string name, summary, paper;
  std::vector<Parameter> parameters;
};

const std::vector<TransportInfo>& transports();

struct RegisterTransport {
  explicit RegisterTransport(TransportInfo info);
};

}  // namespace laconic

// A transport whose peers are a function of the test: what it sends goes nowhere, what it receives
// is made up.
#pragma once

#include <algorithm>
#include <functional>

#include "laconic/transports/attempts.h"

namespace laconic {

class ScriptedTransport : public Transport {
 public:
  // `sent` hears of what this rank sends; `answer` gives the bytes for a receive.
  using Sent = std::function<void(const Send&)>;
  using Answer = std::function<ByteView(const Receive&)>;
  ScriptedTransport(int rank, int size, Answer answer, Sent sent = {})
      : rank_(rank), size_(size), answer_(std::move(answer)), sent_(std::move(sent)) {}
  ~ScriptedTransport() override { cancel_all(); }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::uint64_t open_attempt() override { return attempts_.open(); }
  void abort(std::uint64_t attempt, int culprit, std::string_view reason) override {
    attempts_.abort(attempt, {rank_, culprit, reason});
  }
  void poison(int culprit, std::string_view reason) override {
    attempts_.poison({rank_, culprit, reason});
  }
  void idle(std::chrono::steady_clock::time_point) override {}
  TransportError lost(Transfer&, const Deadline& deadline) override {
    return TransportError("nobody answers " + deadline.within());
  }

 protected:
  void do_close(std::uint64_t attempt) override { attempts_.close(attempt); }
  void do_start(Transfer& transfer) override {
    attempts_.require_open(transfer.tag().attempt);
    for (const Send& send : transfer.sends)
      if (sent_) sent_(send);
  }
  bool do_test(Transfer& transfer) override {
    attempts_.check(transfer.tag().attempt);
    for (const Receive& receive : transfer.receives) {
      const ByteView bytes = answer_(receive);
      std::ranges::copy(bytes, receive.room_for(bytes.size(), transfer.operation).begin());
    }
    return true;
  }
  void do_cancel(Transfer&) noexcept override {}

 private:
  int rank_, size_;
  Answer answer_;
  Sent sent_;
  Attempts attempts_;
};

}  // namespace laconic

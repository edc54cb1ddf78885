// A transport around another one: everything is passed on unless it is overridden.
#pragma once

#include <memory>

#include "laconic/exchange/transport.h"

namespace laconic {

class WrappedTransport : public Transport {
 public:
  explicit WrappedTransport(std::unique_ptr<Transport> inner)
      : inner_(std::move(inner)), rank_(inner_->rank()), size_(inner_->size()) {}
  ~WrappedTransport() override { cancel_all(); }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  bool joins_processes() const override { return inner_ && inner_->joins_processes(); }
  std::uint64_t open_attempt() override { return inner().open_attempt(); }
  void abort(std::uint64_t attempt, int culprit, std::string_view reason) override {
    inner().abort(attempt, culprit, reason);
  }
  void poison(int culprit, std::string_view reason) override { inner().poison(culprit, reason); }
  void idle(std::chrono::steady_clock::time_point until) override { inner().idle(until); }
  void wake() override { inner().wake(); }
  TransportError lost(Transfer& transfer, const Deadline& deadline) override {
    return inner().lost(transfer.state<Inside>().transfer, deadline);
  }

 protected:
  struct Inside : Transfer::State {
    Transfer transfer;  // the other transport's
  };

  // Throws where the other transport is gone.
  virtual Transport& inner() { return *inner_; }

  void do_start(Transfer& transfer) override {
    auto& inside = transfer.state<Inside>().transfer;
    inside.operation = transfer.operation;
    inside.due = transfer.due;
    inside.sends = transfer.sends;
    inside.receives = transfer.receives;
    inner().start(transfer.tag(), inside);
  }
  bool do_test(Transfer& transfer) override {
    return inner().test(transfer.state<Inside>().transfer);
  }
  void do_cancel(Transfer& transfer) noexcept override {
    if (inner_) inner_->cancel(transfer.state<Inside>().transfer);
  }
  void do_close(std::uint64_t attempt) override {
    if (inner_) inner_->close_attempt(attempt);
  }

  std::unique_ptr<Transport> inner_;

 private:
  int rank_, size_;
};

}  // namespace laconic

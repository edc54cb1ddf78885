// callbacks: exchange handed to the host.
#include "laconic/transports/callbacks.h"

#include "laconic/base/errors.h"

namespace laconic {
namespace {

class CallbackTransport : public Transport {
 public:
  explicit CallbackTransport(Callbacks callbacks) : callbacks_(std::move(callbacks)) {}

  int rank() const override { return callbacks_.rank; }
  int size() const override { return callbacks_.size; }

  using Transport::all_reduce;
  void all_reduce(std::span<float> values, const Deadline& deadline) override {
    if (!callbacks_.all_reduce || size() == 1) return Transport::all_reduce(values, deadline);
    guarded(deadline, [&] { callbacks_.all_reduce(values, deadline); });
    // What a host's all-reduce sends is its own affair; a ring is the least it can be.
    rounds_ += 2 * static_cast<std::uint64_t>(size() - 1);
    bytes_sent_ += 2 * values.size_bytes() * static_cast<std::uint64_t>(size() - 1) /
                   static_cast<std::uint64_t>(size());
  }

 protected:
  void do_exchange(std::span<const Send> sends, std::span<const Receive> receives,
                   const Deadline& deadline) override {
    guarded(deadline, [&] { callbacks_.exchange(sends, receives, deadline); });
  }

 private:
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
  if (!callbacks.exchange && callbacks.size > 1)
    throw UsageError("a callback transport needs 'exchange'");
  return std::make_unique<CallbackTransport>(std::move(callbacks));
}

}  // namespace laconic

// faulty: changes what is sent, then lets the other transport send it.
#include "laconic/transports/faulty.h"

#include <bit>
#include <map>
#include <thread>
#include <utility>

#include "laconic/base/key.h"
#include "laconic/transports/wrapped.h"

namespace laconic {
namespace {

class Faulty : public WrappedTransport {
 public:
  Faulty(std::unique_ptr<Transport> inner, std::vector<Fault> faults)
      : WrappedTransport(std::move(inner)), faults_(std::move(faults)) {
    for (const Fault& fault : faults_) keeps_ |= fault.kind == Fault::Kind::stale;
  }
  ~Faulty() override { cancel_all(); }

  void abort(std::uint64_t attempt, int culprit, std::string_view reason) override {
    if (inner_ && !silent_ && !stalled()) inner().abort(attempt, culprit, reason);
  }
  void poison(int culprit, std::string_view reason) override {
    if (inner_ && !silent_ && !stalled()) inner().poison(culprit, reason);
  }

  void idle(std::chrono::steady_clock::time_point until) override {
    if (!stalled()) return inner().idle(until);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

 protected:
  struct Flight : Inside {
    std::vector<Buffer> changed;
    bool waits = false;  // it is to start when the stall is over
  };

  Transport& inner() override {
    if (!inner_)
      throw TransportError("rank " + std::to_string(rank()) + " was killed as planned", rank());
    return *inner_;
  }

  void do_start(Transfer& transfer) override {
    auto& flight = transfer.state<Flight>();
    Transfer& inside = flight.transfer;
    inside.operation = transfer.operation;
    inside.due = transfer.due;
    inside.clear();
    inside.receives = transfer.receives;
    flight.changed.clear();
    for (const Send& send : transfer.sends) {
      const ByteView bytes = changed(send.bytes, flight);
      if (!silent_) inside.sends.push_back({send.to, bytes});
    }
    flight.waits = stalled();
    if (inner_ && !flight.waits) inner_->start(transfer.tag(), inside);
  }

  bool do_test(Transfer& transfer) override {
    auto& flight = transfer.state<Flight>();
    Transport& other = inner();
    if (stalled()) return false;
    if (std::exchange(flight.waits, false)) other.start(transfer.tag(), flight.transfer);
    return other.test(flight.transfer);
  }

  TransportError lost(Transfer& transfer, const Deadline& deadline) override {
    if (stalled())
      return TransportError("rank " + std::to_string(rank()) + " was stalled as planned", rank());
    return WrappedTransport::lost(transfer, deadline);
  }

 private:
  bool stalled() const { return stall_ && !(stall_->released && *stall_->released); }

  // What is sent instead of these bytes.
  ByteView changed(ByteView bytes, Flight& flight) {
    for (const Fault& fault : faults_)
      if (fault.message == messages_ && fault.kind != Fault::Kind::stale)
        bytes = changed(bytes, fault, flight);
    if (keeps_) bytes = perhaps_stale(bytes, flight);
    ++messages_;
    return bytes;
  }

  ByteView changed(ByteView bytes, const Fault& fault, Flight& flight) {
    switch (fault.kind) {
      case Fault::Kind::drop:
        silent_ = true;
        break;
      case Fault::Kind::corrupt:
        return corrupted(bytes, flight.changed);
      case Fault::Kind::truncate:
        return bytes.first(bytes.size() - !bytes.empty());
      case Fault::Kind::stall:
        stall_ = &fault;
        break;
      case Fault::Kind::kill:
        inner_.reset();
        break;
      case Fault::Kind::stale:
        break;
    }
    return bytes;
  }

  // A copy with one bit turned over, anywhere but always the same in the same run.
  ByteView corrupted(ByteView bytes, std::vector<Buffer>& copies) const {
    if (bytes.empty()) return bytes;
    Buffer& copy = copies.emplace_back();
    copy.append(bytes);
    const std::uint64_t bit = Key(messages_).bits(0) % (8 * bytes.size());
    copy.data()[bit / 8] ^= static_cast<std::uint8_t>(1U << (bit % 8));
    return copy.view();
  }

  // Lengths are about the same when they have as many bits.
  ByteView perhaps_stale(ByteView bytes, Flight& flight) {
    const auto width = std::bit_width(bytes.size());
    const auto kept = kept_.find(width);
    bool due = false;
    if (kept != kept_.end())
      for (Fault& fault : faults_)
        if (fault.kind == Fault::Kind::stale && fault.message <= messages_ && !due) {
          due = true;
          fault.message = UINT64_MAX;
        }
    Buffer& copy = flight.changed.emplace_back();
    copy.append(due ? kept->second.view() : bytes);
    Buffer& keep = kept_[width];
    keep.clear();
    keep.append(bytes);
    return copy.view();
  }

  std::vector<Fault> faults_;
  std::uint64_t messages_ = 0;
  bool silent_ = false, keeps_ = false;
  const Fault* stall_ = nullptr;
  std::map<int, Buffer> kept_;  // the last message of each width, where one is to come again
};

const RegisterTransport faulty{{
    .name = "faulty",
    .summary = "Another transport with planned losses, stalls, damage and deaths, for tests.",
    .paper = "",
    .parameters = {},
}};

}  // namespace

std::unique_ptr<Transport> make_faulty_transport(std::unique_ptr<Transport> inner,
                                                 std::vector<Fault> faults) {
  return std::make_unique<Faulty>(std::move(inner), std::move(faults));
}

}  // namespace laconic

// faulty: changes what is sent, then lets the other transport send it.
#include "laconic/transports/faulty.h"

#include <thread>

#include "laconic/base/errors.h"
#include "laconic/base/key.h"

namespace laconic {
namespace {

class Faulty : public Transport {
 public:
  Faulty(std::unique_ptr<Transport> inner, std::vector<Fault> faults)
      : inner_(std::move(inner)),
        rank_(inner_->rank()),
        size_(inner_->size()),
        faults_(std::move(faults)) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }

 protected:
  void do_exchange(std::span<const Send> sends, std::span<const Receive> receives,
                   const Deadline& deadline) override {
    std::vector<Send> out(sends.begin(), sends.end());
    std::vector<Buffer> changed;
    for (const Fault& fault : faults_)
      if (fault.exchange == exchange_) apply(fault, out, changed);
    ++exchange_;
    if (!inner_)
      throw TransportError("rank " + std::to_string(rank_) + " was killed as planned (" +
                           std::string(deadline.operation) + ")");
    if (silent_) out.clear();
    inner_->exchange(out, receives, deadline);
  }

 private:
  void apply(const Fault& fault, std::vector<Send>& out, std::vector<Buffer>& changed) {
    switch (fault.kind) {
      case Fault::Kind::drop:
        silent_ = true;
        return;
      case Fault::Kind::delay:
        return std::this_thread::sleep_for(std::chrono::duration<double>(fault.seconds));
      case Fault::Kind::corrupt:
        for (Send& send : out) send.bytes = corrupted(send.bytes, changed);
        return;
      case Fault::Kind::truncate:
        for (Send& send : out)
          send.bytes = send.bytes.first(send.bytes.size() - !send.bytes.empty());
        return;
      case Fault::Kind::kill:
        inner_.reset();
    }
  }

  // A copy with one bit turned over, anywhere but always the same in the same run.
  ByteView corrupted(ByteView bytes, std::vector<Buffer>& changed) const {
    if (bytes.empty()) return bytes;
    Buffer& copy = changed.emplace_back();
    copy.append(bytes);
    const std::uint64_t bit = Key(exchange_).bits(changed.size()) % (8 * bytes.size());
    copy.data()[bit / 8] ^= static_cast<std::uint8_t>(1U << (bit % 8));
    return copy.view();
  }

  std::unique_ptr<Transport> inner_;
  int rank_, size_;
  std::vector<Fault> faults_;
  std::uint64_t exchange_ = 0;
  bool silent_ = false;
};

const RegisterTransport faulty{{
    .name = "faulty",
    .summary = "Another transport with planned losses, delays, damage and deaths, for tests.",
    .paper = "",
    .parameters = {},
}};

}  // namespace

std::unique_ptr<Transport> make_faulty_transport(std::unique_ptr<Transport> inner,
                                                 std::vector<Fault> faults) {
  return std::make_unique<Faulty>(std::move(inner), std::move(faults));
}

}  // namespace laconic

// What a neighbour sends in a round of gossip, through every mixer: it is taken, or refused with
// nothing changed.
// Input: u16 selects the mixer; u8, if odd, puts checksums right; then messages, each after a u16
// of its length.
#include "fuzz/gossip.h"

namespace laconic::fuzz {
namespace {

// Rank 0 of two. The other one sends the input's messages, one after the other, then empty ones.
class Script : public Transport {
 public:
  Script(Input in, bool mends) : in_(in), mends_(mends) {}

  ~Script() override { cancel_all(); }

  int rank() const override { return 0; }
  int size() const override { return 2; }
  std::uint64_t open_attempt() override { return ++attempts_; }
  void abort(std::uint64_t, int, std::string_view) override {}
  void poison(int, std::string_view) override {}
  void idle(std::chrono::steady_clock::time_point) override {}
  TransportError lost(Transfer&, const Deadline&) override { return TransportError("lost", 1); }

 protected:
  void do_close(std::uint64_t) override {}
  void do_start(Transfer&) override {}
  void do_cancel(Transfer&) noexcept override {}

  bool do_test(Transfer& transfer) override {
    for (const Receive& receive : transfer.receives) {
      if (receive.into)
        take_frame(receive, transfer.operation);
      else
        take_codes(receive.bytes);
    }
    return true;
  }

 private:
  void take_frame(const Receive& receive, std::string_view operation) {
    const ByteView bytes = in_.take(in_.take<std::uint16_t>());
    const auto message = mends_ ? mended(bytes) : std::vector(bytes.begin(), bytes.end());
    std::ranges::copy(message, receive.room_for(message.size(), operation).begin());
  }

  // A message whose length both ends know, with a checksum at its end.
  void take_codes(std::span<std::uint8_t> out) {
    const ByteView bytes = in_.take(in_.take<std::uint16_t>());
    std::ranges::fill(out, std::uint8_t{0});
    std::ranges::copy(bytes.first(std::min(bytes.size(), out.size())), out.begin());
    const std::size_t covered = out.size() - sizeof(std::uint32_t);
    if (mends_) store(out.data() + covered, crc32c(ByteView(out).first(covered)));
  }

  Input in_;
  bool mends_;
  std::uint64_t attempts_ = 0;
};

bool same(std::span<const float> a, std::span<const float> b) {
  return std::ranges::equal(std::as_bytes(a), std::as_bytes(b));
}

bool same(const State& a, const State& b) {
  return std::ranges::equal(a, b, [](const auto& x, const auto& y) {
    return x.first == y.first && same(x.second, y.second);
  });
}

void mix(const std::string& spec, Input in, bool mends) {
  Script transport(in, mends), again(in, mends);
  const auto mixer = gossip_mixer(spec, transport), twin = gossip_mixer(spec, again);
  auto model = gossip_start(0), other = model;
  const State before = mixer->save();
  const bool taken = accepts([&] { mixer->mix(model, {.step = 1}); });
  if (!taken) {
    require(same(model, gossip_start(0)), "a refused message leaves the model");
    require(same(mixer->save(), before), "a refused message leaves the state");
  }
  require(accepts([&] { twin->mix(other, {.step = 1}); }) == taken && same(model, other) &&
              same(mixer->save(), twin->save()),
          "the same message does the same");
}

}  // namespace
}  // namespace laconic::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace laconic::fuzz;
  Input in(data, size);
  const std::string& spec = gossip_spec_at(in.take<std::uint16_t>());
  const bool mends = in.take<std::uint8_t>() % 2 == 1;
  mix(spec, in, mends);
  return 0;
}

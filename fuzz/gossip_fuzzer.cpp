// What a neighbour sends in a round of gossip, through every mixer: it is taken, or refused with
// nothing changed.
// Input: u16 selects the mixer; u8, if odd, puts checksums right; then messages, each after a u16
// of its length.
#include "fuzz/gossip.h"
#include "laconic/transports/scripted.h"

namespace laconic::fuzz {
namespace {

// What rank 1 of two sends: the input's messages, one after the other, then empty ones.
class Script {
 public:
  Script(Input in, bool mends) : in_(in), mends_(mends) {}

  ByteView operator()(const Receive& receive) {
    const ByteView bytes = in_.take(in_.take<std::uint16_t>());
    if (!receive.into)
      take_codes(bytes, receive.bytes.size());
    else if (mends_)
      next_ = mended(bytes);
    else
      next_.assign(bytes.begin(), bytes.end());
    return next_;
  }

 private:
  // A message whose length both ends know, with a checksum at its end.
  void take_codes(ByteView bytes, std::size_t length) {
    next_.assign(length, 0);
    std::ranges::copy(bytes.first(std::min(bytes.size(), length)), next_.begin());
    const std::size_t covered = length - sizeof(std::uint32_t);
    if (mends_) store(next_.data() + covered, crc32c(ByteView(next_).first(covered)));
  }

  Input in_;
  bool mends_;
  std::vector<std::uint8_t> next_;
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
  ScriptedTransport transport(0, 2, Script(in, mends)), again(0, 2, Script(in, mends));
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

// Messages by the host.
#include "laconic/transports/host_wire.h"

namespace laconic::host {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kHeadTag = 0;
constexpr std::uint32_t kPayloadTags = 30000;
constexpr auto kLeaving = std::chrono::seconds(1);

int tag_of(const Head& head) {
  return 1 + static_cast<int>(static_cast<std::uint32_t>(head.sequence) % kPayloadTags);
}

// With a peer's rank: whatever the host says of a message is about its other end.
template <class Call>
auto guarded(int rank, int peer, bool sends, std::string_view operation, Call call) {
  try {
    return call();
  } catch (const std::exception& error) {
    throw TransportError("rank " + std::to_string(rank) + ": the host's transport failed " +
                             (sends ? "to send to rank " : "to receive from rank ") +
                             std::to_string(peer) + " (" + std::string(operation) +
                             "): " + error.what(),
                         peer);
  }
}

}  // namespace

Wire::Wire(Callbacks callbacks)
    : callbacks_(std::move(callbacks)),
      lines_(static_cast<std::size_t>(callbacks_.size)),
      numbers_(lines_.size()) {}

Wire::~Wire() {
  for (const auto& slot : busy_) take_back(slot->request);
  for (const Line& line : lines_) take_back(line.request);
  for (const Orphan& orphan : orphans_)
    for (const Request request : orphan.requests) take_back(request);
}

void Wire::take_back(Request request) const noexcept {
  try {
    if (request != kNoRequest) callbacks_.cancel(request);
  } catch (...) {  // it is the host's from here on
  }
}

void Wire::send(int to, const Head& head, ByteView rides) {
  sweep();
  busy_.reserve(busy_.size() + 1);
  auto slot = std::make_unique<Slot>();
  slot->head = write_head(head);
  slot->rides.append(rides);
  const Send sends[] = {{to, slot->head}, {to, slot->rides.view()}};
  slot->request = guarded(rank(), to, true, "a message", [&] {
    return callbacks_.start(kHeadTag, std::span(sends).first(rides.empty() ? 1 : 2), {});
  });
  busy_.push_back(std::move(slot));
}

std::optional<Arrived> Wire::receive() {
  for (int peer = 0; peer < size(); ++peer)
    if (peer != rank())
      if (auto arrived = receive_from(peer)) return arrived;
  return {};
}

std::optional<Arrived> Wire::receive_from(int peer) {
  Line& line = lines_[static_cast<std::size_t>(peer)];
  if (line.left) return {};
  try {
    if (!comes(line, peer, line.riding ? line.rides.span() : std::span(line.head))) return {};
  } catch (const TransportError&) {  // one that cannot be received from any more has left
    line.left = true;
    return Arrived{peer, {.kind = Head::Kind::leave, .tag = {}, .sequence = UINT64_MAX}, {}};
  }
  line.left = true;  // a head that is none is the last
  const Head head = read_head(line.head, peer);
  line.left = head.kind == Head::Kind::leave;
  if (!line.riding && head.length > 0 && head.length <= kRidesAlong) {
    line.riding = true;
    line.rides.reset(static_cast<std::size_t>(head.length));
    return receive_from(peer);
  }
  return Arrived{peer, head, std::exchange(line.riding, false) ? line.rides.view() : ByteView{}};
}

// Asks for it once, then after it.
bool Wire::comes(Line& line, int peer, std::span<std::uint8_t> bytes) {
  const auto receive = Receive::exactly(peer, bytes);
  if (!std::exchange(line.asked, true))
    line.request = guarded(rank(), peer, false, "a message", [&] {
      return callbacks_.start(kHeadTag, {}, {&receive, 1});
    });
  if (!done(line.request, peer, false, "a message")) return false;
  line.asked = false;
  return true;
}

void Wire::send_payload(int to, ByteView bytes, const Head& head, std::vector<Request>& requests) {
  requests.reserve(requests.size() + 1);
  const Send send{to, bytes};
  requests.push_back(guarded(rank(), to, true, "a message", [&] {
    return callbacks_.start(tag_of(head), {&send, 1}, {});
  }));
}

void Wire::receive_payload(int from, std::span<std::uint8_t> bytes, const Head& head,
                           std::vector<Request>& requests) {
  requests.reserve(requests.size() + 1);
  const auto receive = Receive::exactly(from, bytes);
  requests.push_back(guarded(rank(), from, false, "a message", [&] {
    return callbacks_.start(tag_of(head), {}, {&receive, 1});
  }));
}

bool Wire::done(Request& request, int peer, bool sends, std::string_view operation) const {
  if (request == kNoRequest) return true;
  const Request asked = std::exchange(request, kNoRequest);  // one that failed is the host's
  if (guarded(rank(), peer, sends, operation, [&] { return callbacks_.test(asked); })) return true;
  request = asked;
  return false;
}

void Wire::waste_payload(int from, const Head& head) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 32;
  if (head.length <= kRidesAlong) return;
  if (head.length > kMost)
    throw DataError("rank " + std::to_string(from) + " claims " + std::to_string(head.length) +
                        " bytes that nobody wants",
                    from);
  reserve_orphans(1);
  Orphan orphan;
  const auto room = orphan.buffers.emplace_back().reset(static_cast<std::size_t>(head.length));
  receive_payload(from, room, head, orphan.requests);
  adopt(std::move(orphan));
}

// What failed is as good as done: nobody asks for it.
bool Wire::is_done(Request& request) const noexcept {
  try {
    return done(request, kNobody, true, "");
  } catch (...) {
    return true;
  }
}

void Wire::sweep() noexcept {
  std::erase_if(busy_, [&](auto& slot) { return is_done(slot->request); });
  std::erase_if(orphans_, [&](Orphan& orphan) {
    std::erase_if(orphan.requests, [&](Request& request) { return is_done(request); });
    return orphan.requests.empty();
  });
}

void bury(std::unique_ptr<Wire> wire) noexcept {
  const auto until = Clock::now() + kLeaving;
  Patience patience;
  for (wire->sweep(); !wire->all_sent() && Clock::now() < until; wire->sweep())
    patience.pause(until);
}

}  // namespace laconic::host

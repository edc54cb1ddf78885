// Heads and payloads by functions of the host that start messages and are asked after them.
#pragma once

#include "laconic/transports/callbacks.h"
#include "laconic/transports/messenger.h"

namespace laconic::host {

// Under tag 0 heads, each followed by what rides along; under others payloads, one to a tag.
class Wire {
 public:
  using Request = void*;
  using Orphan = laconic::Orphan<Request>;
  static constexpr Request kNoRequest = nullptr;
  static constexpr std::uint64_t kRidesAlong = 4000 - kMessageHead;

  explicit Wire(Callbacks callbacks);
  ~Wire();  // takes back what flies

  int rank() const { return callbacks_.rank; }
  int size() const { return callbacks_.size; }

  void require_thread() const {}
  void send(int to, const Head& head, ByteView rides = {});
  std::optional<Arrived> receive();

  std::uint64_t next_sequence(int to) { return numbers_[static_cast<std::size_t>(to)]++; }
  void send_payload(int to, ByteView bytes, const Head& head, std::vector<Request>& requests);
  void receive_payload(int from, std::span<std::uint8_t> bytes, const Head& head,
                       std::vector<Request>& requests);
  bool done(Request& request, int peer, bool sends, std::string_view operation) const;
  void waste_payload(int from, const Head& head);

  void reserve_orphans(std::size_t count) { orphans_.reserve(orphans_.size() + count); }
  void adopt(Orphan orphan) noexcept { orphans_.push_back(std::move(orphan)); }
  void sweep() noexcept;
  bool all_sent() const { return busy_.empty(); }

 private:
  // A head on its way out, and what rides with it.
  struct Slot {
    HeadBytes head = {};
    Buffer rides;
    Request request = kNoRequest;
  };
  // What comes from one rank.
  struct Line {
    bool asked = false, riding = false, left = false;
    HeadBytes head = {};
    Buffer rides;
    Request request = kNoRequest;
  };

  std::optional<Arrived> receive_from(int peer);
  bool comes(Line& line, int peer, std::span<std::uint8_t> bytes);
  bool is_done(Request& request) const noexcept;
  void take_back(Request request) const noexcept;

  Callbacks callbacks_;
  std::vector<Line> lines_;             // by rank
  std::vector<std::uint32_t> numbers_;  // by rank: of the next payload to it
  std::vector<std::unique_ptr<Slot>> busy_;
  std::vector<Orphan> orphans_;
};

// The last words leave, for a while; then all that flies is taken back.
void bury(std::unique_ptr<Wire> wire) noexcept;

}  // namespace laconic::host

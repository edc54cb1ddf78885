// Where messages that come in belong: to a receive of a flight, to those held until somebody asks
// for them, or nowhere. Only files of the transport sockets include this.
#pragma once

#include "laconic/transports/attempts.h"
#include "laconic/transports/sockets_lines.h"

namespace laconic::sockets {

// A transfer under way.
struct Flight : Transfer::State {
  enum class In { awaited, arriving, there };
  Transfer* transfer = nullptr;
  std::vector<Outgoing> outs;  // by send
  std::vector<In> ins;         // by receive
  std::vector<std::span<std::uint8_t>> rooms;
  std::exception_ptr error;
  bool reported = false;
  std::chrono::steady_clock::time_point began;

  bool complete() const {
    return std::ranges::all_of(ins, [](In in) { return in == In::there; }) &&
           std::ranges::all_of(outs, [](const Outgoing& out) { return out.done; });
  }
};

class Mail {
 public:
  // Of one rank at most so many bytes are held.
  Mail(Lines& lines, const Attempts& attempts, std::uint64_t held_bytes)
      : lines_(lines), attempts_(attempts), held_bytes_(held_bytes), boxes_(lines.size()) {}

  // From here on messages are given to the flight, and then those that are held for it.
  void expect(Flight& flight) { flights_.push_back(&flight); }
  void take_held(Flight& flight);
  // Until here; and what is coming in for it is dropped.
  void forget(Flight& flight) noexcept { std::erase(flights_, &flight); }
  void drop(const Flight& flight) noexcept;
  // Nobody will ask for messages of this attempt any more.
  void close(std::uint64_t attempt);

  // What Listener's functions of these names do.
  std::span<std::uint8_t> room_for(int from, const Head& head, std::size_t piece);
  void hear_message(int from);
  void hear_cut(int from);
  void hear_end(int from);

 private:
  // A message nobody has asked for yet. Memory grows as its bytes come.
  struct Held {
    int from;
    Head head;
    Buffer bytes;
  };
  using HeldPointer = std::unique_ptr<Held>;

  // Of one sender: where the message that is coming in belongs, and what is held.
  struct Box {
    Flight* flight = nullptr;
    std::size_t receive = 0;
    Held* held = nullptr;
    std::uint64_t held_bytes = 0;
    std::size_t held_count = 0;
  };

  static constexpr std::size_t kMostSpare = 64;

  Box& box(int from) { return boxes_[static_cast<std::size_t>(from)]; }
  void drop(int from);
  void find_place(int from, const Head& head);
  bool make_room(Flight& flight, std::size_t i, const Head& head);
  void hold(int from, const Head& head);
  void unhold(std::size_t i);
  void take_held(Flight& flight, std::size_t i, std::size_t k);

  Lines& lines_;
  const Attempts& attempts_;
  std::uint64_t held_bytes_;
  std::vector<Box> boxes_;  // by rank
  std::vector<Flight*> flights_;
  std::vector<HeldPointer> held_, spare_;
};

}  // namespace laconic::sockets

// Messages on their way to whoever asks for them.
#include "laconic/transports/sockets_mail.h"

#include "laconic/base/errors.h"

namespace laconic::sockets {
namespace {

constexpr std::size_t kMostHeld = 65536;  // messages of one rank nobody has asked for

}  // namespace

void Mail::take_held(Flight& flight) {
  for (std::size_t i = 0; i < flight.ins.size() && !held_.empty(); ++i)
    for (std::size_t k = 0; k < held_.size(); ++k)
      if (held_[k]->from == flight.transfer->receives[i].from &&
          held_[k]->head.tag == flight.transfer->tag()) {
        take_held(flight, i, k);
        break;
      }
}

void Mail::drop(const Flight& flight) noexcept {
  for (std::size_t from = 0; from < boxes_.size(); ++from)
    if (boxes_[from].flight == &flight) drop(static_cast<int>(from));
}

void Mail::close(std::uint64_t attempt) {
  for (std::size_t i = held_.size(); i-- > 0;)
    if (held_[i]->head.tag.attempt == attempt) unhold(i);
}

// The rest of what is coming in from there.
void Mail::drop(int from) {
  lines_.link(from).redirect({});
  box(from).flight = nullptr;
  box(from).held = nullptr;
}

std::span<std::uint8_t> Mail::room_for(int from, const Head& head, std::size_t piece) {
  Box& at = box(from);
  if (head.sequence == 0) find_place(from, head);
  if (at.flight)
    return at.flight->rooms[at.receive].subspan(static_cast<std::size_t>(head.sequence), piece);
  if (!at.held) return {};
  at.held_bytes += piece;
  if (at.held_bytes > held_bytes_ || at.held_count > kMostHeld)
    throw DataError("rank " + std::to_string(from) + " sends more than " +
                        std::to_string(held_bytes_) + " bytes or " + std::to_string(kMostHeld) +
                        " messages nobody asks for",
                    from);
  return {at.held->bytes.grow(piece), piece};
}

// Where a message that begins belongs.
void Mail::find_place(int from, const Head& head) {
  if (attempts_.is_closed(head.tag.attempt)) return;
  for (Flight* flight : flights_) {
    if (flight->transfer->tag() != head.tag) continue;
    for (std::size_t i = 0; i < flight->ins.size(); ++i) {
      if (flight->ins[i] != Flight::In::awaited || flight->transfer->receives[i].from != from)
        continue;
      if (!make_room(*flight, i, head)) return;
      box(from).flight = flight;
      box(from).receive = i;
      return;
    }
  }
  hold(from, head);
}

// For a message to the i-th receive. What is wrong with it is said when its own transfer is tested.
bool Mail::make_room(Flight& flight, std::size_t i, const Head& head) {
  flight.ins[i] = Flight::In::arriving;
  try {
    flight.rooms[i] =
        flight.transfer->receives[i].room_for(head.length, flight.transfer->operation);
    return true;
  } catch (...) {
    if (!flight.error) flight.error = std::current_exception();
    lines_.news = true;
    return false;
  }
}

void Mail::hear_message(int from) {
  Box& at = box(from);
  if (at.flight) at.flight->ins[at.receive] = Flight::In::there;
  lines_.news |= at.flight != nullptr;
  at.flight = nullptr;
  at.held = nullptr;
}

void Mail::hear_cut(int from) {
  Box& at = box(from);
  if (at.flight) at.flight->ins[at.receive] = Flight::In::awaited;
  if (Held* const held = at.held)
    unhold(static_cast<std::size_t>(std::ranges::find(held_, held, &HeldPointer::get) -
                                    held_.begin()));
  drop(from);
}

void Mail::hear_end(int from) {
  Box& at = box(from);
  if (at.flight) at.flight->ins[at.receive] = Flight::In::awaited;
  drop(from);
}

void Mail::hold(int from, const Head& head) {
  if (spare_.empty()) spare_.push_back(std::make_unique<Held>());
  held_.push_back(std::move(spare_.back()));
  spare_.pop_back();
  Box& at = box(from);
  at.held = held_.back().get();
  *at.held = {from, head, std::move(at.held->bytes)};
  at.held->bytes.clear();
  ++at.held_count;
}

// The i-th is held no longer; if it is still coming in, the rest is dropped.
void Mail::unhold(std::size_t i) {
  Box& at = box(held_[i]->from);
  if (at.held == held_[i].get()) drop(held_[i]->from);
  at.held_bytes -= held_[i]->bytes.size();
  --at.held_count;
  spare_.push_back(std::move(held_[i]));
  held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(i));
  if (spare_.size() > kMostSpare) spare_.erase(spare_.begin());
}

// What is there of it; the rest goes straight to its place.
void Mail::take_held(Flight& flight, std::size_t i, std::size_t k) {
  const Held& held = *held_[k];
  Box& at = box(held.from);
  Link& link = lines_.link(held.from);
  const bool under_way = at.held == &held;
  const std::size_t rest = under_way ? link.rest_of_piece() : 0;
  const std::size_t there = held.bytes.size() - rest;
  if (make_room(flight, i, held.head)) {
    std::ranges::copy(held.bytes.view().first(there), flight.rooms[i].begin());
    if (under_way) {
      at.held = nullptr;
      at.flight = &flight;
      at.receive = i;
      link.redirect(flight.rooms[i].subspan(there, rest));
    } else {
      flight.ins[i] = Flight::In::there;
    }
  }
  unhold(k);
}

}  // namespace laconic::sockets

// Pieces out, heads and bodies in.
#include "laconic/transports/sockets_link.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

namespace laconic::sockets {
namespace {

// Of one call: a peer that never stops does not keep this rank from the others.
constexpr int kMostRounds = 32;

bool is_for_later(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == ENOBUFS; }

iovec part_of(const void* data, std::size_t size) { return {const_cast<void*>(data), size}; }

}  // namespace

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this == &other) return *this;
  close();
  number_ = other.release();
  return *this;
}

int Descriptor::release() { return std::exchange(number_, -1); }

void Descriptor::close() {
  if (const int number = release(); number >= 0) ::close(number);
}

std::string system_words(const std::string& what, int error) {
  return what + ": " + std::generic_category().message(error);
}

// ---- out

void Link::send(Outgoing& message) {
  message.sent = 0;
  message.done = false;
  message.next = nullptr;
  if (deaf_) return;
  (first_ ? last_->next : first_) = &message;
  last_ = &message;
}

void Link::tell(const Head& head, ByteView rides) {
  if (deaf_) return;
  told_.append(write_head(head));
  told_.append(rides);
}

bool Link::unlink(const Outgoing& message) noexcept {
  Outgoing* before = nullptr;
  for (Outgoing* at = first_; at; before = at, at = at->next) {
    if (at != &message) continue;
    (before ? before->next : first_) = at->next;
    if (last_ == at) last_ = before;
    return true;
  }
  return false;
}

void Link::withdraw(Outgoing& message) noexcept {
  const bool begun = first_ == &message && (inside_ || message.sent > 0);
  if (!unlink(message) || !begun) return;
  try {
    cut(message);
  } catch (...) {  // no memory for a piece: the other end cannot know where the next one begins
    close();
  }
}

// What has begun is ended from a copy, and the other end is told that no more will come.
void Link::cut(const Outgoing& message) {
  Buffer rest;
  if (std::exchange(inside_, false)) {
    rest.append(ByteView(head_out_).last(head_left_));
    rest.append(piece_left_);
  }
  if (message.sent < message.bytes.size())
    rest.append(write_head({.tag = message.tag, .length = message.bytes.size(), .sequence = kCut}));
  rest.append(told_.view(told_at_));  // none of it has gone if a piece had begun
  told_.swap(rest);
  told_at_ = 0;
}

bool Link::write() {
  for (int round = 0; round < kMostRounds && has_more(); ++round) {
    if (!inside_ && !has_told()) begin_piece();
    iovec parts[2] = {part_of(told_.data() + told_at_, told_.size() - told_at_), {}};
    if (inside_) {
      parts[0] = part_of(head_out_.data() + head_out_.size() - head_left_, head_left_);
      parts[1] = part_of(piece_left_.data(), piece_left_.size());
    }
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = inside_ ? 2 : 1;
    const ssize_t count = ::sendmsg(descriptor(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count >= 0)
      wrote(static_cast<std::size_t>(count));
    else if (is_for_later(errno))
      break;
    else if (errno != EINTR)
      go_deaf();
  }
  return std::exchange(ended_, false);
}

void Link::begin_piece() {
  Outgoing& message = *first_;
  const std::uint64_t length = message.bytes.size();
  head_out_ = write_head({.tag = message.tag, .length = length, .sequence = message.sent});
  head_left_ = head_out_.size();
  piece_left_ = message.bytes.subspan(message.sent, piece_at(message.sent, length));
  message.sent += piece_left_.size();
  inside_ = true;
}

void Link::wrote(std::size_t count) {
  if (!inside_) {
    told_at_ += count;
    if (has_told()) return;
    told_.clear();
    told_at_ = 0;
    return;
  }
  const std::size_t of_head = std::min(count, head_left_);
  head_left_ -= of_head;
  piece_left_ = piece_left_.subspan(count - of_head);
  if (head_left_ > 0 || !piece_left_.empty()) return;
  inside_ = false;
  Outgoing& message = *first_;
  if (message.sent < message.bytes.size()) return;
  first_ = message.next;
  message.done = ended_ = true;
}

// Nothing can be said any more; what the other end said before it went can still be heard.
void Link::go_deaf() {
  deaf_ = true;
  inside_ = false;
  first_ = last_ = nullptr;
  told_.clear();
  told_at_ = 0;
}

// ---- in

bool Link::read(Listener& listener) {
  for (int round = 0; round < kMostRounds; ++round) {
    std::copy(bytes_.begin() + static_cast<std::ptrdiff_t>(begin_),
              bytes_.begin() + static_cast<std::ptrdiff_t>(end_), bytes_.begin());
    end_ -= std::exchange(begin_, 0);
    const std::size_t direct = in_body_ ? room_.size() : 0;
    iovec parts[2] = {part_of(room_.data(), direct),
                      part_of(bytes_.data() + end_, bytes_.size() - end_)};
    msghdr message{};
    message.msg_iov = direct > 0 ? parts : parts + 1;
    message.msg_iovlen = direct > 0 ? 2 : 1;
    const ssize_t count = ::recvmsg(descriptor(), &message, MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return is_for_later(errno);
    if (count == 0) return false;
    const auto got = static_cast<std::size_t>(count);
    end_ += got - std::min(got, direct);
    if (direct > 0) advance_body(listener, std::min(got, direct));
    parse(listener);
    if (got < direct + parts[1].iov_len) return true;  // there was no more
  }
  return true;
}

void Link::parse(Listener& listener) {
  while (begin_ < end_)
    if (in_body_)
      take_body(listener);
    else if (!take_head(listener))
      return;
}

void Link::take_body(Listener& listener) {
  const std::size_t count = std::min(end_ - begin_, body_left_);
  if (!room_.empty()) std::memcpy(room_.data(), bytes_.data() + begin_, count);
  begin_ += count;
  advance_body(listener, count);
}

bool Link::take_head(Listener& listener) {
  if (end_ - begin_ < kMessageHead) return false;
  const Head head = read_head({bytes_.data() + begin_, kMessageHead}, peer_);
  begin_ += kMessageHead;
  if (std::exchange(greeted_, true))
    begin(listener, head);
  else
    listener.hear_hello(peer_, head);
  return true;
}

// All of a head is checked before memory is taken for what it announces.
void Link::begin(Listener& listener, const Head& head) {
  const auto refuse = [&](const char* what) {
    throw DataError("rank " + std::to_string(peer_) + " sent " + what, peer_);
  };
  head_ = head;
  if (head.kind != Head::Kind::message) {
    const bool has_reason = head.kind == Head::Kind::abort || head.kind == Head::Kind::poison;
    if (head.length > (has_reason ? 4 + kLongestReason : 0)) refuse("a reason that is none");
    body_left_ = static_cast<std::size_t>(head.length);
    room_ = rides_.reset(body_left_);
  } else {
    if (message_ && (message_->tag != head.tag || message_->length != head.length))
      refuse("a piece of another message");
    if (message_ && head.sequence == kCut) {
      message_.reset();
      return listener.hear_cut(peer_);
    }
    if (head.sequence != (message_ ? message_->sequence : 0)) refuse("a piece of no message");
    body_left_ = static_cast<std::size_t>(piece_at(head.sequence, head.length));
    message_ = head;
    message_->sequence += body_left_;
    room_ = listener.room_for(peer_, head, body_left_);
  }
  in_body_ = true;
  if (body_left_ == 0) advance_body(listener, 0);
}

void Link::advance_body(Listener& listener, std::size_t count) {
  body_left_ -= count;
  if (!room_.empty()) room_ = room_.subspan(count);
  if (body_left_ > 0) return;
  in_body_ = false;
  if (head_.kind != Head::Kind::message) return listener.hear_told(peer_, head_, rides_.view());
  const bool whole = message_->sequence == message_->length;
  if (whole) message_.reset();
  if (whole) listener.hear_message(peer_);
}

void Link::redirect(std::span<std::uint8_t> rest) {
  if (rest_of_piece() > 0) room_ = rest;
}

std::size_t Link::rest_of_piece() const {
  return in_body_ && head_.kind == Head::Kind::message ? body_left_ : 0;
}

}  // namespace laconic::sockets

// One connected stream socket: messages out, in pieces, and bytes in. Only files of the transport
// sockets include this.
#pragma once

#include <algorithm>
#include <optional>

#include "laconic/transports/head.h"

namespace laconic::sockets {

// A descriptor that is closed in the end.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor() { close(); }

  int get() const { return number_; }
  explicit operator bool() const { return number_ >= 0; }
  int release();
  void close();

 private:
  int number_ = -1;
};

// The sentence for what the system refuses: "what: Connection refused".
std::string system_words(const std::string& what, int error);

// Longer messages go in pieces of this, each behind a head whose sequence is where it begins. So
// what ends an attempt need not wait behind a long message, and a message can be cut off.
inline constexpr std::uint64_t kPiece = 256 << 10;
inline constexpr std::uint64_t kCut = ~std::uint64_t{0};  // instead of where the next one begins

inline std::uint64_t piece_at(std::uint64_t from, std::uint64_t length) {
  return std::min(kPiece, length - from);
}

// A message on its way out, in its transfer's state.
struct Outgoing {
  Tag tag;
  ByteView bytes;
  std::uint64_t sent = 0;  // bytes whose pieces were begun
  bool done = false;       // all of it is the system's
  Outgoing* next = nullptr;
};

// Who is told what comes in.
class Listener {
 public:
  virtual void hear_hello(int from, const Head& head) = 0;
  // A message begins or goes on: where its next piece belongs, nowhere if nobody wants it.
  virtual std::span<std::uint8_t> room_for(int from, const Head& head, std::size_t piece) = 0;
  virtual void hear_message(int from) = 0;  // the one under way is whole
  virtual void hear_cut(int from) = 0;      // it never will be
  virtual void hear_told(int from, const Head& head, ByteView rides) = 0;
  virtual void hear_end(int from) = 0;  // nothing will come from there any more

 protected:
  ~Listener() = default;
};

class Link {
 public:
  explicit Link(int peer) : peer_(peer) {}

  int descriptor() const { return descriptor_.get(); }
  bool open() const { return static_cast<bool>(descriptor_); }
  void adopt(int descriptor) noexcept { descriptor_ = Descriptor(descriptor); }
  void close() { descriptor_.close(); }

  void send(Outgoing& message);                 // when those before it are sent
  void withdraw(Outgoing& message) noexcept;    // its bytes are the caller's again
  void tell(const Head& head, ByteView rides);  // before all messages that have not begun

  bool has_more() const { return has_told() || first_; }
  bool has_told() const { return told_at_ < told_.size(); }

  // Both do what can be done at once. Whether a message has gone.
  bool write();
  // False: the other end is gone. Throws DataError where it speaks nonsense.
  bool read(Listener& listener);

  // Where the rest of the piece under way belongs from here on; nowhere: it is dropped.
  void redirect(std::span<std::uint8_t> rest);
  std::size_t rest_of_piece() const;

 private:
  bool unlink(const Outgoing& message) noexcept;
  void cut(const Outgoing& message);
  void begin_piece();
  void wrote(std::size_t count);
  void go_deaf();
  void parse(Listener& listener);
  bool take_head(Listener& listener);
  void begin(Listener& listener, const Head& head);
  void take_body(Listener& listener);
  void advance_body(Listener& listener, std::size_t count);

  Descriptor descriptor_;
  int peer_;
  // Out: what was told goes first, but not into the middle of a piece.
  Buffer told_;
  std::size_t told_at_ = 0;
  Outgoing *first_ = nullptr, *last_ = nullptr;
  HeadBytes head_out_ = {};
  std::size_t head_left_ = 0;
  ByteView piece_left_;
  bool inside_ = false;  // a piece has begun
  bool ended_ = false;   // a message has gone
  bool deaf_ = false;    // the other end hears nothing

  // In: bytes not looked at yet, and the message under way.
  std::array<std::uint8_t, 64 << 10> bytes_;
  std::size_t begin_ = 0, end_ = 0;
  Head head_;                    // of the piece under way
  std::optional<Head> message_;  // one that is not whole yet; its sequence: what there is of it
  std::size_t body_left_ = 0;    // of the piece, or of what rides with a head
  bool in_body_ = false, greeted_ = false;
  std::span<std::uint8_t> room_;  // for the rest of the piece
  Buffer rides_;
};

}  // namespace laconic::sockets

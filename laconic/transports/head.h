// What goes before a message where transports have to say themselves what it is.
#pragma once

#include <array>

#include "laconic/exchange/transport.h"

namespace laconic {

// 40 bytes, little-endian, in this order after a magic number of four bytes.
struct Head {
  enum class Kind : std::uint32_t { message = 1, abort, poison, report, leave };
  Kind kind = Kind::message;
  Tag tag;
  std::uint64_t length = 0;    // of the bytes that follow
  std::uint64_t sequence = 0;  // the transport's own
};

using HeadBytes = std::array<std::uint8_t, kMessageHead>;

HeadBytes write_head(const Head& head);

// Throws DataError naming the sender when it is none.
Head read_head(ByteView bytes, int from);

// What follows an abort or a poison: the culprit's rank and the reason.
Buffer write_reason(int culprit, std::string_view reason);
struct Reason {
  int culprit;
  std::string text;
};
Reason read_reason(ByteView bytes, int from);

// Reasons are cut to this.
inline constexpr std::size_t kLongestReason = 2000;

}  // namespace laconic

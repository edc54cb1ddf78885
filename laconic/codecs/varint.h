// Unsigned integers in 7-bit groups, least significant first, the top bit of a byte saying that
// another follows (LEB128). One number has one spelling: a last byte of zero after others is
// refused, as is anything above 64 bits.
#pragma once

#include <string_view>

#include "laconic/base/buffer.h"
#include "laconic/base/errors.h"

namespace laconic {

inline std::size_t varint_size(std::uint64_t value) {
  return value == 0 ? 1 : (static_cast<std::size_t>(std::bit_width(value)) + 6) / 7;
}

// Writes a varint and returns its end.
inline std::uint8_t* store_varint(std::uint64_t value, std::uint8_t* to) {
  for (; value >= 128; value >>= 7) *to++ = static_cast<std::uint8_t>(value | 128);
  *to++ = static_cast<std::uint8_t>(value);
  return to;
}

inline void put_varint(std::uint64_t value, Buffer& out) {
  store_varint(value, out.grow(varint_size(value)));
}

// Reads numbers and runs of bytes off the front of a view. Every read is checked; `what` names the
// field in the error.
class ByteReader {
 public:
  explicit ByteReader(ByteView bytes) : bytes_(bytes) {}

  std::size_t left() const { return bytes_.size(); }
  ByteView rest() const { return bytes_; }

  ByteView take(std::uint64_t count, std::string_view what) {
    if (count > bytes_.size())
      throw DataError(std::string(what) + " should have " + std::to_string(count) +
                      " bytes, but only " + std::to_string(bytes_.size()) + " are left");
    const ByteView front = bytes_.first(static_cast<std::size_t>(count));
    bytes_ = bytes_.subspan(front.size());
    return front;
  }

  template <class T>
  T number(std::string_view what) {
    return load<T>(take(sizeof(T), what).data());
  }

  std::uint64_t varint(std::string_view what) {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
      const std::uint8_t byte = take(1, what)[0];
      if ((shift == 63 && byte > 1) || (shift > 0 && byte == 0)) break;
      value |= static_cast<std::uint64_t>(byte & 127) << shift;
      if (byte < 128) return value;
    }
    throw DataError(std::string(what) + " is not a well-formed varint");
  }

 private:
  ByteView bytes_;
};

}  // namespace laconic

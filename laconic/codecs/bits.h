// A stream of bits: the first bit written is bit 0 (the lowest) of byte 0. Fields go in lowest bit
// first. Both ends work on 64-bit words.
#pragma once

#include <array>

#include "laconic/base/buffer.h"
#include "laconic/base/errors.h"

namespace laconic {

constexpr std::uint32_t reversed32(std::uint32_t value) {
  value = (value >> 1 & 0x55555555U) | (value & 0x55555555U) << 1;
  value = (value >> 2 & 0x33333333U) | (value & 0x33333333U) << 2;
  value = (value >> 4 & 0x0f0f0f0fU) | (value & 0x0f0f0f0fU) << 4;
  value = (value >> 8 & 0x00ff00ffU) | (value & 0x00ff00ffU) << 8;
  return value >> 16 | value << 16;
}

inline constexpr std::array<std::uint8_t, 256> kReversed = [] {
  std::array<std::uint8_t, 256> all{};
  for (std::uint32_t i = 0; i < 256; ++i) all[i] = static_cast<std::uint8_t>(reversed32(i) >> 24);
  return all;
}();

// The `width` (0..32) bits of value in the other order, for codes that are printed highest bit
// first; the bits above them must be 0. Few bits, the usual case, by table.
constexpr std::uint32_t reversed(std::uint32_t value, unsigned width) {
  if (width <= 8) return static_cast<std::uint32_t>(kReversed[value]) >> (8 - width);
  if (width <= 16)
    return static_cast<std::uint32_t>(kReversed[value & 255] << 8 | kReversed[value >> 8]) >>
           (16 - width);
  return reversed32(value) >> (32 - width);
}

// Nothing else may be appended to the buffer before finish. Every put stores a whole word where the
// stream ends, and no branch depends on how far it goes on.
class BitWriter {
 public:
  explicit BitWriter(Buffer& out) : out_(out), to_(out.data() + out.size()), end_(to_) {}

  // Appends the low `width` bits of value; width is 0..57 and the bits above it must be 0.
  void put(std::uint64_t value, unsigned width) {
    if (static_cast<std::size_t>(end_ - to_) < sizeof word_) take_room();
    word_ |= value << used_;
    used_ += width;
    store(to_, word_);
    to_ += used_ / 8;
    const unsigned half = used_ / 8 * 4;  // twice, as all 64 bits may be done
    word_ = word_ >> half >> half;
    used_ &= 7;
  }

  // Ends on a byte: the bits left over in it are 0. Must be called once, after the last put.
  void finish() { out_.truncate(static_cast<std::size_t>(to_ - out_.data()) + (used_ > 0)); }

 private:
  static constexpr std::size_t kRoom = 1024;  // bytes taken at a time

  void take_room() {
    const auto at = to_ - out_.data();
    out_.grow(kRoom);
    to_ = out_.data() + at;
    end_ = out_.data() + out_.size();
  }

  Buffer& out_;
  std::uint8_t *to_, *end_;  // the byte that the next bit goes to, and the end of the buffer
  std::uint64_t word_ = 0;
  unsigned used_ = 0;  // bits of it; below 8 between calls
};

class BitReader {
 public:
  explicit BitReader(ByteView bytes) : bytes_(bytes) {}

  std::uint64_t bits_left() const { return (bytes_.size() - at_) * 8ULL + used_; }

  // The next `width` (0..57) bits. Throws DataError when the stream has fewer.
  std::uint64_t get(unsigned width) {
    if (width > 56) {
      const std::uint64_t low = get(32);
      return low | get(width - 32) << 32;
    }
    if (used_ < width) refill();
    const std::uint64_t value = word_ & ((1ULL << width) - 1);
    skip(width);
    return value;
  }

  // The next bits without taking them, the first one lowest: at least 56, or all that are left and
  // then zeros.
  std::uint64_t peek() {
    refill();
    return word_;
  }

  // Takes `width` (0..56) bits that were peeked at. Throws DataError when the stream has fewer.
  void skip(unsigned width) {
    if (used_ < width) throw DataError("a bit stream ends early");
    word_ >>= width;
    used_ -= width;
  }

  // To be called after the last get where other bytes follow: what is left of the byte must be 0.
  // Returns the bytes after it.
  ByteView rest() {
    if (get(static_cast<unsigned>(bits_left() % 8)) != 0)
      throw DataError("the padding at the end of a bit stream is not zero");
    return bytes_.last(static_cast<std::size_t>(bits_left() / 8));
  }

  // To be called after the last get: what is left must be fewer than 8 bits, all 0.
  void expect_end() {
    if (bits_left() >= 8) throw DataError("a bit stream has bytes after its end");
    if (word_ != 0) throw DataError("the padding at the end of a bit stream is not zero");
  }

 private:
  // Makes `used_` 56 or more if the stream has as many bits. Eight bytes are ored in and as many
  // counted as fit whole. The bits above them are those of the bytes that come next, so that to or
  // them in again changes nothing.
  void refill() {
    if (bytes_.size() - at_ >= 8) {
      word_ |= load<std::uint64_t>(bytes_.data() + at_) << used_;
      at_ += (63 - used_) / 8;
      used_ |= 56;
    } else {
      for (; used_ < 56 && at_ < bytes_.size(); used_ += 8)
        word_ |= static_cast<std::uint64_t>(bytes_[at_++]) << used_;
    }
  }

  ByteView bytes_;
  std::size_t at_ = 0;
  std::uint64_t word_ = 0;
  unsigned used_ = 0;  // bits of word_ that are counted as read from bytes_: up to 63
};

}  // namespace laconic

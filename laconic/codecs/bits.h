// A stream of bits: the first bit written is bit 0 (the lowest) of byte 0. Fields go in lowest bit
// first. Both ends work on 64-bit words.
#pragma once

#include "laconic/base/buffer.h"
#include "laconic/base/errors.h"

namespace laconic {

class BitWriter {
 public:
  explicit BitWriter(Buffer& out) : out_(out) {}

  // Appends the low `width` bits of value; width is 0..57 and the bits above it must be 0.
  void put(std::uint64_t value, unsigned width) {
    if (width > 32) {  // up to 31 bits may be waiting, so more would not fit in the word
      put(value & 0xffffffffU, 32);
      value >>= 32;
      width -= 32;
    }
    word_ |= value << used_;
    used_ += width;
    if (used_ >= 32) {
      out_.append_number(static_cast<std::uint32_t>(word_));
      word_ >>= 32;
      used_ -= 32;
    }
  }

  // Ends on a byte: the bits left over in it are 0. Must be called once, after the last put.
  void finish() {
    for (; used_ > 0; used_ = used_ > 8 ? used_ - 8 : 0, word_ >>= 8)
      out_.append_number(static_cast<std::uint8_t>(word_));
  }

 private:
  Buffer& out_;
  std::uint64_t word_ = 0;
  unsigned used_ = 0;  // below 32 between calls
};

class BitReader {
 public:
  explicit BitReader(ByteView bytes) : bytes_(bytes) {}

  std::uint64_t bits_left() const { return (bytes_.size() - at_) * 8ULL + used_; }

  // The next `width` (0..57) bits. Throws DataError when the stream has fewer.
  std::uint64_t get(unsigned width) {
    if (used_ < width) fill(width);
    const std::uint64_t value = word_ & ((1ULL << width) - 1);
    word_ >>= width;
    used_ -= width;
    return value;
  }

  // To be called after the last get: what is left must be fewer than 8 bits, all 0.
  void expect_end() {
    if (bits_left() >= 8) throw DataError("a bit stream has bytes after its end");
    if (word_ != 0) throw DataError("the padding at the end of a bit stream is not zero");
  }

 private:
  void fill(unsigned width) {
    if (used_ <= 32 && bytes_.size() - at_ >= 4) {
      word_ |= static_cast<std::uint64_t>(load<std::uint32_t>(bytes_.data() + at_)) << used_;
      at_ += 4;
      used_ += 32;
      if (used_ >= width) return;
    }
    while (used_ <= 56 && at_ < bytes_.size()) {
      word_ |= static_cast<std::uint64_t>(bytes_[at_++]) << used_;
      used_ += 8;
    }
    if (used_ < width) throw DataError("a bit stream ends early");
  }

  ByteView bytes_;
  std::size_t at_ = 0;
  std::uint64_t word_ = 0;
  unsigned used_ = 0;
};

}  // namespace laconic

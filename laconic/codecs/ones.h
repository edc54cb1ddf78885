// Arrays of bits given by where their ones stand, 64 bits at a time. Bit i is bit i % 8 of byte
// i / 8, as in codecs/bits.h.
#pragma once

#include <string>

#include "laconic/base/buffer.h"
#include "laconic/base/errors.h"

namespace laconic {

// Appends an array of `bits` bits, filled with 0 to a byte.
class OnesWriter {
 public:
  OnesWriter(std::size_t bits, Buffer& out)
      : to_(out.grow((bits + 7) / 8)), left_((bits + 7) / 8) {}

  // Sets bit `at`, which is above the last one set and inside the array.
  void put(std::uint64_t at) {
    while (at - base_ >= 64) flush(8);
    word_ |= 1ULL << (at - base_);
  }

  // Must be called once, after the last put.
  void finish() {
    while (left_ > 0) flush(std::min<std::size_t>(8, left_));
  }

 private:
  void flush(std::size_t bytes) {
    std::memcpy(to_, &word_, bytes);
    word_ = 0;
    base_ += 64;
    to_ += bytes;
    left_ -= bytes;
  }

  std::uint8_t* to_;
  std::size_t left_;  // bytes not yet written
  std::uint64_t word_ = 0, base_ = 0;
};

// Calls visit(word, number of its first bit) for each 64 bits; the last are filled with 0.
template <class Visit>
void for_words(ByteView bits, Visit visit) {
  std::size_t i = 0;
  for (; i + 8 <= bits.size(); i += 8) visit(load<std::uint64_t>(bits.data() + i), i * 8ULL);
  if (i == bits.size()) return;
  std::uint64_t word = 0;
  std::memcpy(&word, bits.data() + i, bits.size() - i);
  visit(word, i * 8ULL);
}

// Throws DataError unless there are exactly `expected` ones. `what` names the array in the error.
inline void expect_ones(ByteView bits, std::size_t expected, std::string_view what) {
  std::size_t ones = 0;
  for_words(bits, [&](std::uint64_t word, std::uint64_t) {
    ones += static_cast<std::size_t>(std::popcount(word));
  });
  if (ones != expected)
    throw DataError(std::string(what) + " should have " + std::to_string(expected) +
                    " ones, but has " + std::to_string(ones));
}

// Calls visit(i) for each one, ascending. Throws DataError, before any call, unless there are
// exactly `expected`.
template <class Visit>
void for_ones(ByteView bits, std::size_t expected, std::string_view what, Visit visit) {
  expect_ones(bits, expected, what);
  for_words(bits, [&](std::uint64_t word, std::uint64_t base) {
    for (; word != 0; word &= word - 1) visit(base + static_cast<unsigned>(std::countr_zero(word)));
  });
}

}  // namespace laconic

// Rice codes (Golomb codes of a power of two): right for numbers that are geometrically
// distributed, such as the gaps between entries chosen with one probability.
// Sattler et al., Sparse binary compression, algorithm 2 (arXiv 1805.08768).
#pragma once

#include "laconic/codecs/bits.h"

namespace laconic {

// The best number of low bits for the gaps of `kept` among `count` (1 <= kept <= count): the
// paper's b = 1 + floor(log2(ln(phi - 1) / ln(1 - p))) for p = kept / count, at least 0 and at
// most 31. The same on every machine: it is found by integers.
unsigned rice_bits(std::size_t kept, std::size_t count);

// The code of numbers from 0 to `largest` with `bits` (0..31) low bits. For value v, in the order
// of the stream: v >> bits ones, a zero, and the low bits of v, highest first. From 24 ones on
// there is instead an escape: 24 ones and then v, lowest bit first, in as many bits as `largest`
// has (at least 1). So no code is longer than 56 bits, whatever the numbers are.
class Rice {
 public:
  static constexpr unsigned kEscape = 24;

  Rice(unsigned bits, std::uint32_t largest)
      : bits_(bits),
        wide_(std::max(1U, static_cast<unsigned>(std::bit_width(largest)))),
        largest_(largest) {}

  unsigned length(std::uint32_t value) const {
    const std::uint32_t ones = value >> bits_;
    return ones < kEscape ? ones + 1 + bits_ : kEscape + wide_;
  }

  // The code of a value, first bit lowest.
  struct Code {
    std::uint64_t bits;
    unsigned length;  // up to kLongest
  };
  static constexpr unsigned kLongest = kEscape + 32;
  Code code(std::uint32_t value) const {
    const std::uint32_t ones = value >> bits_;
    if (ones >= kEscape) return {std::uint64_t{value} << kEscape | kEscaped, kEscape + wide_};
    const std::uint64_t low = reversed(value & low_mask(), bits_);
    return {low << (ones + 1) | ((1U << ones) - 1), ones + 1 + bits_};
  }

  void put(std::uint32_t value, BitWriter& out) const {
    const Code code = this->code(value);
    out.put(code.bits, code.length);
  }

  // The code that a word of the stream begins with, if it is none longer than the word's bits: an
  // escape is told as longer than any word.
  struct Short {
    std::uint64_t value;
    unsigned length;
  };
  Short peek(std::uint64_t word) const {
    const auto ones = static_cast<unsigned>(std::countr_one(word));
    const auto low = static_cast<std::uint32_t>(word >> 1 >> (ones & 63)) & low_mask();
    return {std::uint64_t{ones} << bits_ | reversed(low, bits_),
            ones < kEscape ? ones + 1 + bits_ : 64 + kEscape};
  }

  // Throws DataError for anything that put does not write.
  std::uint32_t get(BitReader& in) const {
    const std::uint64_t code = in.peek();
    const auto ones = static_cast<unsigned>(std::countr_one(code));
    if (ones >= kEscape) return get_escaped(in);
    const auto low = static_cast<std::uint32_t>(code >> (ones + 1)) & low_mask();
    in.skip(ones + 1 + bits_);
    return checked(std::uint64_t{ones} << bits_ | reversed(low, bits_));
  }

 private:
  static constexpr std::uint32_t kEscaped = (1U << kEscape) - 1;

  std::uint32_t low_mask() const { return (1U << bits_) - 1; }

  std::uint32_t checked(std::uint64_t value) const {
    if (value > largest_)
      throw DataError("a Rice code is of " + std::to_string(value) +
                      ", but the largest number is " + std::to_string(largest_));
    return static_cast<std::uint32_t>(value);
  }

  std::uint32_t get_escaped(BitReader& in) const {
    in.skip(kEscape);
    const std::uint64_t value = in.get(wide_);
    if (value >> bits_ < kEscape)
      throw DataError("a Rice code escapes " + std::to_string(value) +
                      ", which has a shorter code");
    return checked(value);
  }

  unsigned bits_, wide_;
  std::uint32_t largest_;
};

}  // namespace laconic

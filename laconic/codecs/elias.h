// Elias omega codes of numbers from 1 to 2^32 - 1: short for small numbers, without a parameter.
// P. Elias, Universal codeword sets and representations of the integers (1975).
//
// The code of n, in the order of the stream: nothing for 1, else the code of (binary digits of n
// minus 1) without its last 0, then the digits of n, highest first; and a 0 at the end. So 1 is 0,
// 4 is 101000, and 16 is 10100100000.
#pragma once

#include <array>

#include "laconic/codecs/bits.h"

namespace laconic {
namespace omega {

// What stands before the digits of a number below its leading one: it depends on how many digits
// there are. First bit lowest. The leading one is included.
struct Prefix {
  std::uint16_t bits = 0;
  std::uint8_t length = 0;
};

constexpr std::array<Prefix, 33> prefixes() {
  std::array<Prefix, 33> all{};
  for (unsigned width = 2; width <= 32; ++width) {
    const auto below = static_cast<unsigned>(std::bit_width(width - 1));  // digits of width - 1
    const Prefix before = all[below];
    const unsigned digits = reversed((width - 1) & ~(1U << (below - 1)), below - 1);
    const unsigned length = before.length + below - 1;
    all[width].bits =
        static_cast<std::uint16_t>(before.bits | digits << before.length | 1U << length);
    all[width].length = static_cast<std::uint8_t>(length + 1);
  }
  return all;
}

inline constexpr std::array<Prefix, 33> kPrefixes = prefixes();

// Where the digits of a number probably stand, by the first 7 bits of its code: `tail` digits below
// the leading one, from bit `skip` on. It is so if the bit after them is 0.
struct Guess {
  std::uint8_t skip = 0, tail = 0;
};

constexpr Guess guess(unsigned bits) {
  if ((bits & 1) == 0) return {0, 0};
  if ((bits & 4) == 0) return {1, 1};
  const unsigned second = 2 + (bits >> 1 & 1);
  if ((bits >> (3 + second) & 1) == 0) return {3, static_cast<std::uint8_t>(second)};
  const unsigned third = 1U << second | reversed(bits >> 3 & ((1U << second) - 1), second);
  return {static_cast<std::uint8_t>(4 + second), static_cast<std::uint8_t>(third)};
}

constexpr std::array<Guess, 128> guesses() {
  std::array<Guess, 128> all{};
  for (unsigned bits = 0; bits < 128; ++bits) all[bits] = guess(bits);
  return all;
}

inline constexpr std::array<Guess, 128> kGuesses = guesses();

struct Code {
  std::uint64_t bits = 0;  // first bit lowest
  unsigned length = 0;
};

constexpr Code code(std::uint32_t number) {
  const auto width = static_cast<unsigned>(std::bit_width(number));
  const Prefix prefix = kPrefixes[width];
  const std::uint64_t digits = reversed(number, width) >> 1;  // without the leading one
  return {prefix.bits | digits << prefix.length, prefix.length + width};
}

inline constexpr std::array<Code, 256> kSmall = [] {
  std::array<Code, 256> all{};
  for (std::uint32_t number = 1; number < 256; ++number) all[number] = code(number);
  return all;
}();

}  // namespace omega

// The bits that put_omega appends: 1 to 43.
constexpr unsigned omega_length(std::uint32_t number) {
  const auto width = static_cast<unsigned>(std::bit_width(number));
  return omega::kPrefixes[width].length + width;  // width - 1 digits, and the 0 at the end
}

// number is at least 1.
inline void put_omega(std::uint32_t number, BitWriter& out) {
  const omega::Code code =
      number < omega::kSmall.size() ? omega::kSmall[number] : omega::code(number);
  out.put(code.bits, code.length);
}

// Throws DataError when the stream ends early or the number is above 2^32 - 1.
inline std::uint32_t get_omega(BitReader& in) {
  const std::uint64_t code = in.peek();  // 43 bits are enough
  const omega::Guess guess = omega::kGuesses[code & 127];
  unsigned skip = guess.skip, tail = guess.tail;
  for (;;) {
    const std::uint64_t from = code >> skip;
    const std::uint32_t number =
        1U << tail | reversed(static_cast<std::uint32_t>(from & ((1ULL << tail) - 1)), tail);
    skip += tail;
    if ((from >> tail & 1) == 0) {
      in.skip(skip + 1);
      return number;
    }
    if (number > 31) throw DataError("an Elias omega code is of a number above 2^32 - 1");
    ++skip;
    tail = number;
  }
}

}  // namespace laconic

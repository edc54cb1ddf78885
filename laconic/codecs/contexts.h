// Symbols of 3 bits in contexts that both ends know beforehand: a range variant of asymmetric
// numeral systems (Duda, arXiv 1311.2540, section 3), four states side by side. A symbol takes
// what its probability in its context is worth, down to a ten-thousandth of a bit; Huffman codes,
// at one bit at least, cannot.
//
// The coded form of n symbols, in order: four states of 32 bits and then words of 16 bits.
// Symbol i belongs to state i % 4. A reader takes it off state x: slot = x mod 2^14 lies in the
// symbol's share of 0..2^14 in its context, x becomes share * (x >> 14) + slot - the share's
// begin, and if that is below 2^15, x << 16 | the next word. After the last symbol all states are
// 2^15 and no word is left.
#pragma once

#include <span>
#include <vector>

#include "laconic/base/bytes.h"

namespace laconic {

inline constexpr unsigned kShareBits = 14;
inline constexpr std::uint32_t kShares = 1U << kShareBits;
inline constexpr std::size_t kContextSymbols = 8;

// Where the share of each symbol in 0..kShares begins, ascending from 0, and where the last ends.
struct ContextShares {
  alignas(32) std::uint16_t begin[kContextSymbols + 1];

  std::uint32_t share(std::size_t symbol) const {
    return static_cast<std::uint32_t>(begin[symbol + 1] - begin[symbol]);
  }
};

// What encoding needs of shares, so that it need not divide.
class ContextEncoder {
 public:
  // Shares of the context with this number, below 256. Only symbols that have some are encoded.
  void set(std::size_t context, const ContextShares& shares);

  // Bytes that encode may write while it works.
  static constexpr std::size_t room(std::size_t count) { return 2 * count + 16; }

  // Writes `symbols`, context * kContextSymbols + symbol each, at the end of `room`, and returns
  // where.
  ByteView encode(std::span<const std::uint16_t> symbols, std::span<std::uint8_t> room) const;

 private:
  struct Symbol {
    std::uint32_t most;     // states below take it without giving off a word
    std::uint32_t inverse;  // x / share = x * inverse >> 32 >> shift for x < 2^31
    std::uint32_t begin;
    std::uint16_t others;  // kShares - share
    std::uint16_t shift;
  };
  Symbol symbols_[256 * kContextSymbols];
};

// Reads symbols stretch by stretch, each of a multiple of four entries but for the last.
class ContextReader {
 public:
  // Throws DataError when there are not even the states.
  explicit ContextReader(ByteView coded);

  // Throws DataError when words are missing.
  void read(std::span<const std::uint8_t> contexts, std::span<const ContextShares, 256> shares,
            std::uint8_t* symbols);

  // To be called after the last: throws DataError unless all was used up.
  void expect_end() const;

 private:
  std::uint32_t states_[4];
  const std::uint8_t *at_, *end_;
};

}  // namespace laconic

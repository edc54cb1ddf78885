// Symbols of 3 bits in contexts that both ends know beforehand: a range variant of asymmetric
// numeral systems (Duda, arXiv 1311.2540, section 3), several states side by side. A symbol takes
// what its probability in its context is worth, down to a ten-thousandth of a bit; Huffman codes,
// at one bit at least, cannot.
//
// The coded form of n symbols, in order: S states of 32 bits and then words of 16 bits. A state
// takes three bytes more than it is worth: S is 4 below 2^16 symbols, from there on 16 and from
// 2^18 on 32, which vectors take together (kernels/states.h). Symbol i belongs to state i % S. A
// reader takes it off state x: slot = x mod 2^14 lies in the symbol's share of 0..2^14 in its
// context, x becomes share * (x >> 14) + slot - the share's begin, and if that is below 2^15, x <<
// 16 | the next word. After the last symbol all states are 2^15 and no word is left.
#pragma once

#include <span>

#include "laconic/base/bytes.h"
#include "laconic/kernels/states.h"

namespace laconic {

// States that so many symbols have.
constexpr std::size_t context_states(std::size_t count) {
  return count < 1U << 16 ? 4 : count < 1U << 18 ? 16 : 32;
}

class ContextEncoder {
 public:
  // Shares of the context with this number, below 256. Only symbols that have some are encoded.
  void set(std::size_t context, const ContextShares& shares);

  // Bytes that encode may write while it works.
  static constexpr std::size_t room(std::size_t count) {
    return 2 * count + 4 * kernels::kMostStates + kernels::kStepBytes;
  }

  // Writes `symbols`, context * kContextSymbols + symbol each, into `room`, and returns where.
  ByteView encode(std::span<const std::uint16_t> symbols, std::span<std::uint8_t> room) const;

 private:
  alignas(64) ContextCode codes_[256 * kContextSymbols];
  std::uint64_t inverses_[256 * kContextSymbols];  // 2^46 / share, rounded up
};

// Reads symbols stretch by stretch, each of a multiple of 32 entries but for the last.
class ContextReader {
 public:
  // Of `count` symbols in all. Throws DataError when there are not even the states.
  ContextReader(ByteView coded, std::size_t count);

  // Throws DataError when words are missing.
  void read(std::span<const std::uint8_t> contexts, std::span<const ContextShares, 256> shares,
            std::uint8_t* symbols);

  // To be called after the last: throws DataError unless all was used up.
  void expect_end() const;

 private:
  std::size_t used_;  // states
  std::uint32_t states_[kernels::kMostStates];
  const std::uint8_t *at_, *end_;
};

}  // namespace laconic

// The states of a range coder on vector lanes: as many symbols in contexts a step
// (codecs/contexts.h has the code and how it is written one symbol at a time).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace laconic {

inline constexpr unsigned kShareBits = 14;
inline constexpr std::uint32_t kShares = 1U << kShareBits;
inline constexpr std::size_t kContextSymbols = 8;

// Where the share of each symbol in 0..kShares begins, ascending from 0. The last ends at kShares.
struct ContextShares {
  alignas(16) std::uint16_t begin[kContextSymbols];

  std::uint32_t share(std::size_t symbol) const {
    return (symbol + 1 < kContextSymbols ? begin[symbol + 1] : kShares) - begin[symbol];
  }
};

// What encoding needs of a symbol in its context: where its share begins, and above it the share.
using ContextCode = std::uint32_t;

}  // namespace laconic

namespace laconic::kernels {

inline constexpr std::uint32_t kLeastState = 1U << 15;      // the most is 2^31 - 1
inline constexpr std::size_t kMostStates = 32;              // 16 or 32 are taken here
inline constexpr std::size_t kStepBytes = 2 * kMostStates;  // that a step takes or gives at most

// Reads steps of a symbol for each state while so many are left in `contexts` and kStepBytes before
// `end`, and moves `at`. Returns how many symbols were read: none, where there are no vectors.
std::size_t take_symbols(std::span<std::uint32_t> states, const std::uint8_t*& at,
                         const std::uint8_t* end, std::span<const std::uint8_t> contexts,
                         const ContextShares* shares, std::uint8_t* symbols);

// Writes steps of symbols, the last first, below `to`, and moves it; what lies from there on may be
// read and written again for kStepBytes. Returns how many symbols are left in front: all, where
// there are no vectors.
std::size_t put_symbols(std::span<std::uint32_t> states, std::span<const std::uint16_t> symbols,
                        const ContextCode* codes, std::uint8_t*& to);

}  // namespace laconic::kernels

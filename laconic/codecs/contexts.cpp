// Symbols in contexts, and back.
#include "laconic/codecs/contexts.h"

#include <bit>

#include "laconic/base/errors.h"

namespace laconic {
namespace {

constexpr std::uint32_t kLeast = 1U << 15;  // of a state between symbols; the most is 2^31 - 1
constexpr std::size_t kStates = 4;

// How many of the eight begins are at most `slot`, minus one: the symbol. All four of a word are
// compared at once: no begin and no slot has the top bit of 16.
std::uint32_t symbol_at(const ContextShares& shares, std::uint32_t slot) {
  constexpr std::uint64_t kOnes = 0x0001000100010001ULL, kTops = 0x8000800080008000ULL;
  const std::uint64_t all = slot * kOnes | kTops;
  const std::uint64_t low =
      load<std::uint64_t>(reinterpret_cast<const std::uint8_t*>(shares.begin));
  const std::uint64_t high =
      load<std::uint64_t>(reinterpret_cast<const std::uint8_t*>(shares.begin + 4));
  const std::uint64_t reached = (((all - low) & kTops) >> 15) + (((all - high) & kTops) >> 15);
  return static_cast<std::uint32_t>(reached * kOnes >> 48) - 1;
}

}  // namespace

// Exact division by multiplication for numbers below 2^31: Granlund and Montgomery (1994).
void ContextEncoder::set(std::size_t context, const ContextShares& shares) {
  for (std::size_t i = 0; i < kContextSymbols; ++i) {
    Symbol& symbol = symbols_[context * kContextSymbols + i];
    const std::uint32_t share = shares.share(i);
    symbol.most = share << (31 - kShareBits);
    symbol.others = static_cast<std::uint16_t>(kShares - share);
    if (share < 2) {  // x - 1 stands for x / 1, which the begin makes up for
      symbol.inverse = ~0U;
      symbol.shift = 0;
      symbol.begin = shares.begin[i] + kShares - 1;
      continue;
    }
    const auto digits = static_cast<unsigned>(std::bit_width(share - 1));
    symbol.inverse = static_cast<std::uint32_t>(((1ULL << (digits + 31)) + share - 1) / share);
    symbol.shift = static_cast<std::uint16_t>(digits - 1);
    symbol.begin = shares.begin[i];
  }
}

ByteView ContextEncoder::encode(std::span<const std::uint16_t> symbols,
                                std::span<std::uint8_t> room) const {
  std::uint32_t states[kStates] = {kLeast, kLeast, kLeast, kLeast};
  std::uint8_t* to = room.data() + room.size();
  const auto put = [&](std::uint32_t& x, std::uint16_t code) {
    const Symbol& symbol = symbols_[code];
    store(to - 2, static_cast<std::uint16_t>(x));
    const std::uint32_t gives = x >= symbol.most ? 16 : 0;
    to -= gives / 8;
    x >>= gives;
    const auto whole =
        static_cast<std::uint32_t>(std::uint64_t{x} * symbol.inverse >> 32) >> symbol.shift;
    x += symbol.begin + whole * symbol.others;
  };
  std::size_t i = symbols.size();
  while (i % kStates != 0) {
    --i;
    put(states[i % kStates], symbols[i]);
  }
  for (; i > 0; i -= kStates) {
    put(states[3], symbols[i - 1]);
    put(states[2], symbols[i - 2]);
    put(states[1], symbols[i - 3]);
    put(states[0], symbols[i - 4]);
  }
  for (std::size_t state = kStates; state-- > 0;) {
    to -= sizeof states[state];
    store(to, states[state]);
  }
  return {to, static_cast<std::size_t>(room.data() + room.size() - to)};
}

ContextReader::ContextReader(ByteView coded) : at_(coded.data()), end_(at_ + coded.size()) {
  if (coded.size() < sizeof states_ || coded.size() % 2 != 0)
    throw DataError("a stream of symbols has " + std::to_string(coded.size()) +
                    " bytes; allowed: an even number, 16 or more");
  for (std::uint32_t& state : states_) {
    state = load<std::uint32_t>(at_);
    at_ += sizeof state;
    if (state < kLeast || state >> 31 != 0)
      throw DataError("a stream of symbols begins with a state that cannot be");
  }
}

void ContextReader::read(std::span<const std::uint8_t> contexts,
                         std::span<const ContextShares, 256> shares, std::uint8_t* symbols) {
  const std::uint8_t* at = at_;
  const auto take = [&](std::uint32_t& x, std::size_t i, auto next) {
    const ContextShares& mine = shares[contexts[i]];
    const std::uint32_t slot = x % kShares, symbol = symbol_at(mine, slot);
    symbols[i] = static_cast<std::uint8_t>(symbol);
    x = mine.share(symbol) * (x >> kShareBits) + slot - mine.begin[symbol];
    next(x);
  };
  // At most a word a symbol: far from the end nobody need look for it.
  const auto freely = [&](std::uint32_t& x) {
    // Whether a word is taken is as good as random: no branch may depend on it.
    const std::uint32_t takes = (x - kLeast) >> 31;  // states are below 2^31
    const std::uint32_t word = load<std::uint16_t>(at) & (0U - takes);
    x = x << (16 * takes) | word;
    at += 2 * takes;
  };
  const auto carefully = [&](std::uint32_t& x) {
    if (x >= kLeast) return;
    if (at == end_) throw DataError("a stream of symbols ends early");
    freely(x);
  };
  std::uint32_t a = states_[0], b = states_[1], c = states_[2], d = states_[3];
  std::size_t i = 0;
  for (; i + kStates <= contexts.size() && end_ - at >= 8; i += kStates) {
    take(a, i, freely);
    take(b, i + 1, freely);
    take(c, i + 2, freely);
    take(d, i + 3, freely);
  }
  states_[0] = a, states_[1] = b, states_[2] = c, states_[3] = d;
  for (; i < contexts.size(); ++i) take(states_[i % kStates], i, carefully);
  at_ = at;
}

void ContextReader::expect_end() const {
  bool done = at_ == end_;
  for (const std::uint32_t state : states_) done = done && state == kLeast;
  if (!done) throw DataError("a stream of symbols does not end where it should");
}

}  // namespace laconic

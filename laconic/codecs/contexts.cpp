// Symbols in contexts, and back.
#include "laconic/codecs/contexts.h"

#include <algorithm>

#include "laconic/base/errors.h"

namespace laconic {
namespace {

using kernels::kLeastState;

// x * ceil(2^46 / share) >> 46 is x / share for x < share * 2^17 and share <= 2^14: what rounding
// adds is below 2^-15, and the product is below 2^64.
constexpr unsigned kInverseBits = 46;

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

void ContextEncoder::set(std::size_t context, const ContextShares& shares) {
  for (std::size_t i = 0; i < kContextSymbols; ++i) {
    const std::uint32_t share = shares.share(i);
    codes_[context * kContextSymbols + i] = share << 16 | shares.begin[i];
    if (share > 0)
      inverses_[context * kContextSymbols + i] = ((1ULL << kInverseBits) + share - 1) / share;
  }
}

ByteView ContextEncoder::encode(std::span<const std::uint16_t> symbols,
                                std::span<std::uint8_t> room) const {
  const std::size_t used = context_states(symbols.size());
  std::uint32_t states[kernels::kMostStates];
  std::fill_n(states, used, kLeastState);
  std::uint8_t* const end = room.data() + room.size() - kernels::kStepBytes;
  std::uint8_t* to = end;
  const auto put = [&](std::uint32_t& x, std::uint16_t symbol) {
    const ContextCode code = codes_[symbol];
    const std::uint32_t share = code >> 16;
    store(to - 2, static_cast<std::uint16_t>(x));
    const std::uint32_t gives = x >> (31 - kShareBits) >= share ? 16 : 0;
    to -= gives / 8;
    x >>= gives;
    const std::uint64_t whole = x * inverses_[symbol] >> kInverseBits;  // x / share
    x += (code & 0xffff) + static_cast<std::uint32_t>(whole) * (kShares - share);
  };
  std::size_t i = symbols.size();
  for (; i % used != 0; --i) put(states[(i - 1) % used], symbols[i - 1]);
  if (used > 4) i = kernels::put_symbols({states, used}, symbols.first(i), codes_, to);
  for (; i > 0; i -= 4) {
    std::uint32_t* four = states + (i - 4) % used;
    put(four[3], symbols[i - 1]);
    put(four[2], symbols[i - 2]);
    put(four[1], symbols[i - 3]);
    put(four[0], symbols[i - 4]);
  }
  for (std::size_t state = used; state-- > 0;) {
    to -= sizeof states[state];
    store(to, states[state]);
  }
  return {to, static_cast<std::size_t>(end - to)};
}

ContextReader::ContextReader(ByteView coded, std::size_t count)
    : used_(context_states(count)), at_(coded.data()), end_(at_ + coded.size()) {
  if (coded.size() < used_ * sizeof *states_ || coded.size() % 2 != 0)
    throw DataError("a stream of symbols has " + std::to_string(coded.size()) +
                    " bytes; allowed: an even number, " + std::to_string(used_ * sizeof *states_) +
                    " or more");
  for (std::uint32_t& state : std::span(states_, used_)) {
    state = load<std::uint32_t>(at_);
    at_ += sizeof state;
    if (state < kLeastState || state >> 31 != 0)
      throw DataError("a stream of symbols begins with a state that cannot be");
  }
}

void ContextReader::read(std::span<const std::uint8_t> contexts,
                         std::span<const ContextShares, 256> shares, std::uint8_t* symbols) {
  std::size_t i = 0;
  if (used_ > 4)
    i = kernels::take_symbols({states_, used_}, at_, end_, contexts, shares.data(), symbols);
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
    const std::uint32_t takes = (x - kLeastState) >> 31;  // states are below 2^31
    const std::uint32_t word = load<std::uint16_t>(at) & (0U - takes);
    x = x << (16 * takes) | word;
    at += 2 * takes;
  };
  const auto carefully = [&](std::uint32_t& x) {
    if (x >= kLeastState) return;
    if (at == end_) throw DataError("a stream of symbols ends early");
    freely(x);
  };
  for (; i + 4 <= contexts.size() && end_ - at >= 8; i += 4) {
    std::uint32_t* four = states_ + i % used_;
    std::uint32_t a = four[0], b = four[1], c = four[2], d = four[3];
    take(a, i, freely);
    take(b, i + 1, freely);
    take(c, i + 2, freely);
    take(d, i + 3, freely);
    four[0] = a, four[1] = b, four[2] = c, four[3] = d;
  }
  for (; i < contexts.size(); ++i) take(states_[i % used_], i, carefully);
  at_ = at;
}

void ContextReader::expect_end() const {
  bool done = at_ == end_;
  for (const std::uint32_t state : std::span(states_, used_)) done = done && state == kLeastState;
  if (!done) throw DataError("a stream of symbols does not end where it should");
}

}  // namespace laconic

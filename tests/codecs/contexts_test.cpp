// Symbols in contexts: what is written is read, and takes what it is worth.
#include "laconic/codecs/contexts.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <random>

#include "tests/support.h"

namespace laconic::testing {
namespace {

using Shares = std::array<ContextShares, 256>;

// Shares of all kinds: even ones, nearly certain ones, and certain ones.
Shares some_shares() {
  Shares shares;
  std::mt19937 random(1);
  for (std::size_t context = 0; context < shares.size(); ++context) {
    std::array<std::uint32_t, 8> share;
    share.fill(1);
    for (std::uint32_t left = kShares - 8; left > 0;) {
      const std::uint32_t some = context % 3 == 0 ? left : 1 + random() % left;
      share[random() % 8] += some;
      left -= some;
    }
    if (context == 9) share = {0, 0, kShares, 0, 0, 0, 0, 0};
    std::uint32_t begin = 0;
    for (std::size_t i = 0; i < 8; ++i) {
      shares[context].begin[i] = static_cast<std::uint16_t>(begin);
      begin += share[i];
    }
  }
  return shares;
}

std::vector<std::uint8_t> encoded(const Shares& shares, const std::vector<std::uint16_t>& symbols) {
  ContextEncoder encoder;
  for (std::size_t i = 0; i < shares.size(); ++i) encoder.set(i, shares[i]);
  std::vector<std::uint8_t> room(ContextEncoder::room(symbols.size()));
  const ByteView coded = encoder.encode(symbols, room);
  return {coded.begin(), coded.end()};
}

std::vector<std::uint16_t> decoded(const Shares& shares, ByteView coded,
                                   const std::vector<std::uint16_t>& like, std::size_t stretch) {
  std::vector<std::uint8_t> contexts(like.size()), symbols(like.size());
  for (std::size_t i = 0; i < like.size(); ++i)
    contexts[i] = static_cast<std::uint8_t>(like[i] / kContextSymbols);
  ContextReader reader(coded, like.size());
  for (std::size_t from = 0; from < like.size(); from += stretch) {
    const std::size_t count = std::min(stretch, like.size() - from);
    reader.read(std::span(contexts).subspan(from, count), shares, symbols.data() + from);
  }
  reader.expect_end();
  std::vector<std::uint16_t> result(like.size());
  for (std::size_t i = 0; i < like.size(); ++i)
    result[i] = static_cast<std::uint16_t>(contexts[i] * kContextSymbols + symbols[i]);
  return result;
}

// Symbols as likely as their shares say.
std::vector<std::uint16_t> drawn(const Shares& shares, std::size_t count, double& ideal_bits) {
  std::mt19937 random(static_cast<unsigned>(count));
  std::vector<std::uint16_t> symbols(count);
  ideal_bits = 0;
  for (std::uint16_t& symbol : symbols) {
    const std::size_t context = random() % 256;
    const std::uint32_t slot = random() % kShares;
    std::size_t mine = 7;
    while (shares[context].begin[mine] > slot || shares[context].share(mine) == 0) --mine;
    symbol = static_cast<std::uint16_t>(context * kContextSymbols + mine);
    ideal_bits += std::log2(static_cast<double>(kShares) / shares[context].share(mine));
  }
  return symbols;
}

TEST(Contexts, WhatIsWrittenIsReadAndTakesWhatItIsWorth) {
  const Shares shares = some_shares();
  for (const std::size_t count : {0, 1, 2, 3, 4, 5, 7, 100, 4096, 50001, 65536, 70003, 270001}) {
    double ideal = 0;
    const auto symbols = drawn(shares, count, ideal);
    const auto coded = encoded(shares, symbols);
    EXPECT_EQ(decoded(shares, coded, symbols, 4096), symbols) << count;
    EXPECT_EQ(decoded(shares, coded, symbols, 64), symbols) << count;
    EXPECT_LE(8.0 * static_cast<double>(coded.size()),
              ideal * 1.001 + 32 * static_cast<double>(context_states(count)) + 64)
        << count;
  }
}

// One symbol at a time, by the words of the header.
std::vector<std::uint8_t> plainly_encoded(const Shares& shares,
                                          const std::vector<std::uint16_t>& symbols) {
  const std::size_t used = symbols.size() < 65536 ? 4 : symbols.size() < 262144 ? 16 : 32;
  std::vector<std::uint32_t> states(used, 1U << 15);
  std::vector<std::uint8_t> backwards;
  const auto put = [&](std::uint32_t value, int bytes) {
    while (bytes-- > 0) backwards.push_back(static_cast<std::uint8_t>(value >> (8 * bytes)));
  };
  for (std::size_t i = symbols.size(); i-- > 0;) {
    const ContextShares& mine = shares[symbols[i] / kContextSymbols];
    const std::size_t symbol = symbols[i] % kContextSymbols;
    const std::uint32_t share = mine.share(symbol);
    std::uint32_t& x = states[i % used];
    if (x >= share << 17) {
      put(x & 0xffff, 2);
      x >>= 16;
    }
    x = x / share * kShares + x % share + mine.begin[symbol];
  }
  for (std::size_t i = used; i-- > 0;) put(states[i], 4);
  return {backwards.rbegin(), backwards.rend()};
}

TEST(Contexts, VectorsWriteAndReadWhatOneSymbolAtATimeDoes) {
  const Shares shares = some_shares();
  for (const std::size_t count : {100, 65535, 65536, 65551, 262143, 262144, 262175}) {
    double ideal = 0;
    const auto symbols = drawn(shares, count, ideal);
    const auto plain = plainly_encoded(shares, symbols);
    on_every_cpu([&](const std::string&) {
      EXPECT_EQ(encoded(shares, symbols), plain) << count;
      EXPECT_EQ(decoded(shares, plain, symbols, 4096), symbols) << count;
    });
  }
}

// Shares of 1 and of nearly all: quotients of all sizes are exact.
TEST(Contexts, TheSmallestAndTheLargestShares) {
  Shares shares;
  for (auto& some : shares)
    some = {{0, 1, 2, 3, kShares - 4, kShares - 3, kShares - 2, kShares - 1}};
  std::mt19937 random(5);
  std::vector<std::uint16_t> symbols(300000);
  for (auto& symbol : symbols) symbol = random() % 50 == 0 ? random() % 8 : 3;
  const auto plain = plainly_encoded(shares, symbols);
  on_every_cpu([&](const std::string&) {
    EXPECT_EQ(encoded(shares, symbols), plain);
    EXPECT_EQ(decoded(shares, plain, symbols, 4096), symbols);
  });
}

TEST(Contexts, OneSymbolAlone) {
  const Shares shares = some_shares();
  EXPECT_EQ(encoded(shares, std::vector<std::uint16_t>(10000, 9 * 8 + 2)).size(), 16U);
  for (std::uint16_t symbol = 0; symbol < 8; ++symbol) {
    const std::vector<std::uint16_t> all(1000, symbol);
    EXPECT_EQ(decoded(shares, encoded(shares, all), all, 4096), all);
  }
}

void damage(const Shares& shares, std::size_t count) {
  double ideal = 0;
  const auto symbols = drawn(shares, count, ideal);
  const auto good = encoded(shares, symbols);
  EXPECT_THROW(decoded(shares, ByteView(good).first(good.size() - 2), symbols, 4096), DataError);
  EXPECT_THROW(decoded(shares, ByteView(good).first(14), symbols, 4096), DataError);
  EXPECT_THROW(decoded(shares, ByteView(good).first(good.size() - 1), symbols, 4096), DataError);
  auto longer = good;
  longer.resize(good.size() + 2);
  EXPECT_THROW(decoded(shares, longer, symbols, 4096), DataError);
  std::mt19937 random(3);
  for (int trial = 0; trial < (count < 65536 ? 500 : 20); ++trial) {
    auto bytes = good;
    bytes[random() % bytes.size()] ^= static_cast<std::uint8_t>(1 + random() % 255);
    try {
      const auto read = decoded(shares, bytes, symbols, 4096);
      EXPECT_EQ(encoded(shares, read), bytes) << "there is one way to write symbols";
    } catch (const DataError&) {
    }
  }
}

TEST(Contexts, DamageIsRefusedOrHarmless) {
  const Shares shares = some_shares();
  for (const std::size_t count : {1000, 70000}) damage(shares, count);
}

}  // namespace
}  // namespace laconic::testing

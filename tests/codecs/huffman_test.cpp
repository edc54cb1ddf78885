// Huffman codes: symbols come back, codes are as short as they can be, hostile bytes are refused.
#include "laconic/codecs/huffman.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "laconic/base/errors.h"
#include "tests/codecs/entropy_of.h"

namespace laconic::testing {
namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes encoded(const Bytes& symbols) {
  Bytes coded(huffman_room(symbols.size()) + 1, 0xaa);
  const std::size_t size = huffman_encode(symbols, coded.data());
  EXPECT_EQ(coded.back(), 0xaa) << "the room is enough";
  coded.resize(size);
  return coded;
}

Bytes decoded(const Bytes& coded, std::size_t count) {
  Bytes symbols(count);
  huffman_decode(coded, symbols);
  return symbols;
}

// Symbol s is drawn about ratio times as often as s + 1.
Bytes geometric(std::size_t count, double ratio, unsigned seed) {
  std::mt19937 random(seed);
  std::geometric_distribution<int> draw(1 - 1 / ratio);
  Bytes symbols(count);
  for (auto& symbol : symbols) symbol = static_cast<std::uint8_t>(draw(random) * 37);
  return symbols;
}

TEST(Huffman, SymbolsComeBackInFewBits) {
  for (const double ratio : {1.05, 1.5, 2.0, 5.0, 100.0})
    for (const std::size_t count : {4, 5, 6, 7, 8, 63, 100, 1001, 65536, 262144}) {
      const Bytes symbols = geometric(count, ratio, 7);
      const Bytes coded = encoded(symbols);
      SCOPED_TRACE(std::to_string(ratio) + ", " + std::to_string(count));
      if (!coded.empty()) {
        ASSERT_LT(coded.size(), count);
        ASSERT_EQ(decoded(coded, count), symbols);
      }
      const double least = std::max(entropy_of(symbols), static_cast<double>(count));
      if (count >= 1001 && ratio > 1.4) {
        EXPECT_LE(8.0 * static_cast<double>(coded.size()), 1.35 * least + 8 * 80);
      }
      std::uint32_t counts[256] = {};
      count_bytes(symbols, counts);
      if (!coded.empty()) {
        EXPECT_NEAR(static_cast<double>(huffman_code(counts).size),
                    static_cast<double>(coded.size()), 8);
      }
    }
}

// Fibonacci numbers make the deepest tree: codes are cut to 11 bits.
TEST(Huffman, LongCodesAreCut) {
  Bytes symbols;
  for (std::uint32_t s = 0, a = 1, b = 1; s < 24; ++s) {
    symbols.insert(symbols.end(), a, static_cast<std::uint8_t>(255 - s));
    b += std::exchange(a, b);
  }
  const Bytes coded = encoded(symbols);
  EXPECT_FALSE(coded.empty());
  EXPECT_EQ(decoded(coded, symbols.size()), symbols);
}

TEST(Huffman, OneSymbolTakesTwoBytes) {
  EXPECT_EQ(encoded(Bytes(1000, 9)), (Bytes{9, 9}));
  EXPECT_EQ(decoded({9, 9}, 1000), Bytes(1000, 9));
  EXPECT_THROW(decoded({9, 9, 0}, 1000), DataError);
}

TEST(Huffman, WhatDoesNotShrinkIsNotCoded) {
  std::mt19937 random(3);
  Bytes symbols(5000);
  for (auto& symbol : symbols) symbol = static_cast<std::uint8_t>(random());
  EXPECT_TRUE(encoded(symbols).empty());
  EXPECT_TRUE(encoded({}).empty());
  EXPECT_TRUE(encoded({1, 2}).empty());
}

// Two symbols of one bit; and symbols 5, 8 and 9, 6 and 7 being passed over, one to a stream.
TEST(Huffman, TheFormIsThatOfThePage) {
  EXPECT_EQ(decoded({5, 6, 0x11, 1, 1, 1, 0b01, 0b10, 0b00, 0b11}, 8),
            (Bytes{6, 5, 5, 6, 5, 5, 6, 6}));
  EXPECT_EQ(decoded({5, 9, 0x01, 0x21, 0x02, 1, 1, 1, 0, 1, 3, 0}, 4), (Bytes{5, 8, 9, 5}));
}

TEST(Huffman, WrongTablesAreRefused) {
  const Bytes rest = {1, 1, 1, 0, 0, 0, 0};
  for (const Bytes& table : {Bytes{},
                             {1},
                             {6, 5},
                             {5, 6},
                             {5, 6, 0x1c},           // 12 bits
                             {5, 6, 0x21},           // not all of the code space
                             {5, 7, 0x11, 0x01},     // more than there is
                             {5, 7, 0x01, 0x01},     // a run up to the highest symbol
                             {5, 7, 0x00, 0x11},     // the lowest has no code
                             {5, 7, 0x21, 0x12}}) {  // padding
    Bytes coded = table;
    coded.insert(coded.end(), rest.begin(), rest.end());
    EXPECT_THROW(decoded(coded, 4), DataError) << ::testing::PrintToString(coded);
  }
}

TEST(Huffman, DamageIsRefusedOrDecodesToSomething) {
  const Bytes symbols = geometric(3000, 1.6, 5);
  const Bytes coded = encoded(symbols);
  ASSERT_FALSE(coded.empty());
  for (std::size_t size = 0; size < coded.size(); ++size)
    EXPECT_THROW(decoded(Bytes(coded.begin(), coded.begin() + static_cast<std::ptrdiff_t>(size)),
                         symbols.size()),
                 DataError);
  for (const std::size_t count : {std::size_t{0}, symbols.size() - 4, symbols.size() + 4})
    EXPECT_THROW(decoded(coded, count), DataError) << count;
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    Bytes damaged = coded;
    damaged[random() % (i % 2 ? damaged.size() : 20)] ^=
        static_cast<std::uint8_t>(1 + random() % 255);
    try {
      decoded(damaged, symbols.size());
    } catch (const DataError&) {
    }
  }
}

}  // namespace
}  // namespace laconic::testing

// Coded chunks: bytes come back, low bits that are next to random stay as they are, every form is
// read, hostile bytes are refused.
#include "laconic/codecs/chunk.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "laconic/base/errors.h"
#include "laconic/codecs/fixed.h"
#include "laconic/kernels/split_bytes.h"
#include "tests/codecs/entropy_of.h"

namespace laconic::testing {
namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes encoded(const Bytes& bytes) {
  Bytes coded(chunk_room(bytes.size()) + 1, 0xaa), above(bytes.size());
  const std::size_t size = encode_chunk(bytes, coded.data(), above.data());
  EXPECT_EQ(coded.back(), 0xaa) << "the room is enough";
  coded.resize(size);
  return coded;
}

Bytes decoded(const Bytes& coded, std::size_t count) {
  Bytes bytes(count), above(count);
  decode_chunk(coded, bytes, above.data());
  return bytes;
}

// Zigzag numbers of a normal distribution, and now and then any byte.
Bytes normal(std::size_t count, double deviation, bool outliers) {
  std::mt19937 random(static_cast<unsigned>(count));
  std::normal_distribution<double> draw(0, deviation);
  Bytes bytes(count);
  for (std::size_t i = 0; i < count; ++i) {
    const double level = std::round(draw(random));
    bytes[i] = static_cast<std::uint8_t>(std::min(255.0, level < 0 ? -2 * level - 1 : 2 * level));
    if (outliers && i % 1000 == 999) bytes[i] = static_cast<std::uint8_t>(random());
  }
  return bytes;
}

// A code of whole bits takes some more than the entropy, low bits as they are a hundredth.
TEST(Chunk, BytesComeBackInFewBits) {
  std::vector<bool> seen(16);
  for (const double deviation : {0.3, 0.8, 1.5, 3.0, 6.0, 12.0, 25.0, 50.0})
    for (const bool outliers : {false, true})
      for (const std::size_t count : {0, 1, 3, 4, 100, 4095, 4096, 4097, 16384, 65537, 262144}) {
        SCOPED_TRACE(std::to_string(deviation) + ", " + std::to_string(count));
        const Bytes bytes = normal(count, deviation, outliers);
        const Bytes coded = encoded(bytes);
        if (coded.empty()) continue;
        ASSERT_LT(coded.size(), count);
        ASSERT_EQ(decoded(coded, count), bytes);
        seen.at(coded[0]) = true;
        if (count >= 65537 && deviation > 1 && !outliers) {
          EXPECT_LE(8 * static_cast<double>(coded.size()), 1.02 * entropy_of(bytes) + 3000);
        }
      }
  for (const unsigned form : {0, 1, 2, 8, 9, 11, 12, 13}) EXPECT_TRUE(seen[form]) << form;
}

TEST(Chunk, WhatIsNextToRandomIsNotCoded) {
  std::mt19937 random(3);
  Bytes bytes(262144);
  for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random());
  EXPECT_TRUE(encoded(bytes).empty());
  EXPECT_LE(encoded(Bytes(100000, 9)).size(), 4U);
}

// Every form, whether a writer would choose it or not.
Bytes in_form(unsigned form, const Bytes& bytes) {
  const kernels::Split cut{.low = form % 8, .paired = form >= 8};
  Bytes low(packed_size(cut.low, bytes.size())), above(bytes.size());
  kernels::split_bytes(bytes.data(), bytes.size(), cut, low.data(), above.data());
  if (cut.paired) above.resize((above.size() + 1) / 2);
  Bytes codes(huffman_room(above.size()));
  codes.resize(huffman_encode(above, codes.data()));
  Bytes coded = {static_cast<std::uint8_t>(form)};
  coded.insert(coded.end(), low.begin(), low.end());
  coded.insert(coded.end(), codes.begin(), codes.end());
  return coded;
}

TEST(Chunk, EveryFormIsReadAndDamageRefused) {
  std::mt19937 random(1);
  for (unsigned form = 0; form < 16; ++form)
    for (const std::size_t count : {20, 999, 1000, 40001}) {
      SCOPED_TRACE(std::to_string(form) + ", " + std::to_string(count));
      const unsigned most = form < 8 ? 255 : std::min(255U, (16U << form % 8) - 1);
      Bytes bytes(count);
      for (auto& byte : bytes) {
        const unsigned drawn = random();
        byte = static_cast<std::uint8_t>((drawn & drawn >> 8 & drawn >> 16) & most);
      }
      const Bytes coded = in_form(form, bytes);
      if (coded.size() < 1 + packed_size(form % 8, count) + 2) continue;  // no shorter as codes
      ASSERT_EQ(decoded(coded, count), bytes);
      Bytes longer = coded;
      longer.push_back(0);
      EXPECT_THROW(decoded(longer, count), DataError);
      const std::size_t step = 1 + coded.size() / 50;
      for (std::size_t size = 0; size < coded.size(); size += step)
        EXPECT_THROW(
            decoded(Bytes(coded.begin(), coded.begin() + static_cast<std::ptrdiff_t>(size)), count),
            DataError);
      for (int i = 0; i < 100; ++i) {
        Bytes damaged = coded;
        damaged[random() % damaged.size()] ^= static_cast<std::uint8_t>(1 + random() % 255);
        try {
          decoded(damaged, count);
        } catch (const DataError&) {
        }
      }
    }
}

TEST(Chunk, WhatNoWriterWritesIsRefused) {
  EXPECT_THROW(decoded({}, 8), DataError);
  EXPECT_THROW(decoded({16, 1, 1}, 8), DataError);
  EXPECT_EQ(decoded({1, 0xff, 3, 3}, 8), Bytes(8, 7));        // the only symbol 3, low bits of 1
  EXPECT_THROW(decoded({1, 0x0f, 3, 3}, 3), DataError);       // a fourth low bit of three
  EXPECT_THROW(decoded({1, 0x07, 128, 128}, 3), DataError);   // 128 above a bit
  EXPECT_EQ(decoded({1, 0x07, 127, 127}, 3), Bytes(3, 255));  // the most there is
  EXPECT_EQ(decoded({8, 0x32, 0x32}, 4), (Bytes{2, 3, 2, 3}));
  EXPECT_THROW(decoded({8, 0x32, 0x32}, 3), DataError);   // a fourth symbol of three
  EXPECT_THROW(decoded({13, 0, 0, 8, 8}, 2), DataError);  // 8 above five bits
  EXPECT_EQ(decoded({13, 0, 0, 0x77, 0x77}, 2), Bytes(2, 0xe0));
}

}  // namespace
}  // namespace laconic::testing

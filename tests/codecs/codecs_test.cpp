// Codecs: what goes in comes out, sizes are as stated, and nothing else is accepted.
#include "laconic/codecs/bits.h"
#include "laconic/codecs/crc32c.h"
#include "laconic/codecs/entropy.h"
#include "laconic/codecs/fixed.h"
#include "laconic/codecs/masked.h"
#include "laconic/codecs/varint.h"
#include "tests/support.h"

namespace laconic::testing {
namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes random_bytes(std::size_t count, unsigned symbols = 256, std::uint64_t seed = 1) {
  std::mt19937_64 random(seed);
  std::vector<std::uint8_t> bytes(count);
  for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random() % symbols);
  return bytes;
}

TEST(Varint, RoundTripsAtEveryWidth) {
  std::vector<std::uint64_t> values = {0, ~std::uint64_t{0}};
  for (unsigned bit = 0; bit < 64; ++bit)
    for (const std::uint64_t delta : {-1, 0, 1})
      values.push_back((std::uint64_t{1} << bit) + delta);
  for (const std::uint64_t value : values) {
    Buffer out;
    put_varint(value, out);
    EXPECT_EQ(out.size(), varint_size(value));
    ByteReader in(out.view());
    EXPECT_EQ(in.varint("x"), value);
    EXPECT_EQ(in.left(), 0U);
  }
}

TEST(Varint, OneSpellingOnly) {
  const auto read = [](std::vector<std::uint8_t> bytes) {
    return ByteReader(bytes).varint("the field");
  };
  EXPECT_EQ(read({0x80 | 1, 1}), 129U);
  EXPECT_THROW(read({0x80, 0}), DataError);  // 0 in two bytes
  EXPECT_THROW(read({0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2}),
               DataError);  // above 64 bits
  EXPECT_THROW(read({0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}),
               DataError);                // too long
  EXPECT_THROW(read({0x80}), DataError);  // cut
  EXPECT_NE(message_of<DataError>([&] { read({}); }).find("the field"), std::string::npos);
}

TEST(Bits, FieldsOfMixedWidthsRoundTrip) {
  std::mt19937_64 random(2);
  std::vector<std::pair<std::uint64_t, unsigned>> fields;
  for (int i = 0; i < 20000; ++i) {
    const unsigned width = random() % 58;
    fields.emplace_back(random() & ((std::uint64_t{1} << width) - 1), width);
  }
  Buffer out;
  BitWriter writer(out);
  std::size_t bits = 0;
  for (const auto& [value, width] : fields) writer.put(value, width), bits += width;
  writer.finish();
  EXPECT_EQ(out.size(), (bits + 7) / 8);
  BitReader reader(out.view());
  for (const auto& [value, width] : fields) ASSERT_EQ(reader.get(width), value);
  EXPECT_NO_THROW(reader.expect_end());
  EXPECT_THROW(reader.get(8), DataError);
}

TEST(Bits, FirstBitIsTheLowestOfTheFirstByte) {
  Buffer out;
  BitWriter writer(out);
  writer.put(1, 1);
  writer.put(0b011, 3);
  writer.put(0x1ff, 9);
  writer.finish();
  EXPECT_EQ(std::vector<std::uint8_t>(out.view().begin(), out.view().end()),
            (std::vector<std::uint8_t>{0xf7, 0x1f}));
}

TEST(Bits, PaddingMustBeZeroAndNothingMayFollow) {
  const std::vector<std::uint8_t> padded = {0b0000'0101}, dirty = {0b0001'0101}, longer = {5, 0};
  const auto read3 = [](const std::vector<std::uint8_t>& bytes) {
    BitReader reader(bytes);
    reader.get(3);
    reader.expect_end();
  };
  EXPECT_NO_THROW(read3(padded));
  EXPECT_THROW(read3(dirty), DataError);
  EXPECT_THROW(read3(longer), DataError);
}

TEST(Fixed, RoundTripsAtEveryWidthAndLength) {
  std::mt19937_64 random(3);
  for (unsigned width = 1; width <= 32; ++width) {
    for (const std::size_t count : {0, 1, 7, 8, 9, 1000}) {
      std::vector<std::uint32_t> symbols(count), back(count);
      for (auto& symbol : symbols) symbol = static_cast<std::uint32_t>(random() >> (64 - width));
      Buffer out;
      pack(symbols, width, out);
      EXPECT_EQ(out.size(), packed_size(width, count));
      unpack(out.view(), width, back);
      EXPECT_EQ(back, symbols);
      EXPECT_TRUE(padding_is_zero(out.view(), width, count));
    }
  }
}

TEST(Crc32c, KnownAnswers) {
  EXPECT_EQ(crc32c(as_bytes("")), 0U);
  EXPECT_EQ(crc32c(as_bytes("123456789")), 0xe3069283U);  // the check value of the Castagnoli CRC
  EXPECT_EQ(crc32c(std::vector<std::uint8_t>(32, 0x00)), 0x8a9136aaU);  // RFC 3720, B.4
  EXPECT_EQ(crc32c(std::vector<std::uint8_t>(32, 0xff)), 0x62a8ab43U);
}

TEST(Crc32c, InstructionTableAndContinuationAgree) {
  const auto bytes = random_bytes(100000);
  for (const std::size_t count : {0, 1, 7, 8, 9, 4096, 12287, 12288, 12289, 24576, 50000, 100000}) {
    const ByteView part = ByteView(bytes).first(count);
    const std::uint32_t crc = crc32c(part);
    EXPECT_EQ(crc32c_portable(part), crc) << count;
    for (const std::size_t cut : {count / 3, count / 2, count})
      EXPECT_EQ(crc32c(part.subspan(cut), crc32c(part.first(cut))), crc) << count << " " << cut;
  }
}

TEST(Entropy, RoundTripsAndNeverGrowsMuch) {
  for (const unsigned symbols : {1U, 2U, 5U, 40U, 256U}) {
    for (const std::size_t count : {0, 1, 2, 100, 262143, 262144, 262145, 1000000}) {
      SCOPED_TRACE(std::to_string(symbols) + " symbols, " + std::to_string(count));
      const auto bytes = random_bytes(count, symbols);
      for (const unsigned threads : {1U, 3U}) {
        Pool pool(threads);
        Entropy entropy;
        Buffer out;
        entropy.encode(bytes, out, pool);
        EXPECT_LE(out.size(), Entropy::max_size(count));
        EXPECT_GE(out.size(), Entropy::min_size(count));
        std::vector<std::uint8_t> back(count);
        EXPECT_TRUE(entropy.decode(out.view(), back, pool).empty());
        EXPECT_EQ(back, bytes);
        if (count < 1000000 || symbols == 256) continue;
        EXPECT_LT(out.size() * 8.0, static_cast<double>(count) * (std::log2(symbols) + 0.2) + 1000);
      }
    }
  }
}

TEST(Entropy, LeavesWhatFollowsAndRefusesDamage) {
  const auto bytes = random_bytes(5000, 9);
  Pool pool;
  Entropy entropy;
  Buffer out;
  entropy.encode(bytes, out, pool);
  const std::size_t size = out.size();
  out.append(as_bytes("rest"));
  std::vector<std::uint8_t> back(bytes.size());
  EXPECT_EQ(as_text(entropy.decode(out.view(), back, pool)), "rest");
  EXPECT_THROW(entropy.decode(out.view().first(size - 1), back, pool), DataError);
  back.resize(bytes.size() - 1);
  EXPECT_THROW(entropy.decode(out.view().first(size), back, pool), DataError);
}

// A chunk is one array of Huffman codes: what follows is refused, as is a chunk of no bytes.
TEST(Entropy, OneCodeFillsAChunk) {
  Pool pool;
  Entropy entropy;
  Buffer two, none;
  Bytes frames;
  for (int half = 0; half < 2; ++half) {
    Buffer coded;
    entropy.encode(random_bytes(1000, 3), coded, pool);
    ByteReader in(coded.view());
    const ByteView frame = in.take(in.varint("m"), "frame");
    frames.insert(frames.end(), frame.begin(), frame.end());
  }
  put_varint(frames.size(), two);
  two.append(frames);
  Bytes back(2000);
  EXPECT_THROW(entropy.decode(two.view(), back, pool), DataError);
  put_varint(0, none);
  EXPECT_THROW(entropy.decode(none.view(), back, pool), DataError);
}

// Whatever stands after the last bit is not part of the plane.
TEST(Masked, BitsAfterTheLastAreWrittenAsZeros) {
  const Bytes none_is_zero = {1, 2, 3};
  Buffer out;
  compact_bits(Bytes{0xfd}, none_is_zero, out);
  ASSERT_EQ(out.size(), 1U);
  EXPECT_EQ(out.data()[0], 0x05);
}

TEST(Masked, BitsOfZeroBytesAreLeftOut) {
  for (const std::size_t count : kLengths) {
    for (const unsigned zeros_in : {1U, 2U, 3U, 100U, 1000000U}) {
      auto bytes = random_bytes(count, 255, count);
      std::mt19937_64 random(count);
      std::vector<std::uint8_t> bits((count + 7) / 8);
      std::size_t kept = 0;
      for (std::size_t i = 0; i < count; ++i) {
        bytes[i] = random() % zeros_in == 0 ? 0 : static_cast<std::uint8_t>(bytes[i] + 1);
        kept += bytes[i] != 0;
        if (bytes[i] != 0 && random() % 2)
          bits[i / 8] = static_cast<std::uint8_t>(bits[i / 8] | 1 << i % 8);
      }
      EXPECT_EQ(count_nonzero(bytes), kept);
      Buffer out;
      compact_bits(bits, bytes, out);
      EXPECT_EQ(out.size(), (kept + 7) / 8);
      std::vector<std::uint8_t> back(bits.size(), 0xee);
      expand_bits(out.view(), bytes, back);
      EXPECT_EQ(back, bits);
    }
  }
}

}  // namespace
}  // namespace laconic::testing

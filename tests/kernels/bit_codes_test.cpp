// Codes in streams of bits against their plain twin on every instruction set.
#include "laconic/kernels/bit_codes.h"

#include "tests/support.h"

namespace laconic::testing {
namespace {

using Bytes = std::vector<std::uint8_t>;

// Bit by bit.
Bytes plain(const Bytes& symbols, const kernels::BitCodes& codes) {
  std::vector<bool> bits;
  for (const std::uint8_t symbol : symbols)
    for (unsigned i = 0; i < (codes[symbol] & 15U); ++i)
      bits.push_back(codes[symbol] >> (4 + i) & 1U);
  Bytes bytes((bits.size() + 7) / 8);
  for (std::size_t i = 0; i < bits.size(); ++i)
    bytes[i / 8] |= static_cast<std::uint8_t>(bits[i] << i % 8);
  return bytes;
}

Bytes ended(const Bytes& room, kernels::BitStream stream) {
  Bytes bytes(room.data(), static_cast<const std::uint8_t*>(stream.to));
  if (stream.used > 0) bytes.push_back(static_cast<std::uint8_t>(stream.word));
  return bytes;
}

// Lengths up to `most`: eight codes of 11 bits are too many for one word, of 7 they are not.
TEST(BitCodes, EqualTheirPlainTwin) {
  std::mt19937_64 random(5);
  for (const unsigned most : {1U, 7U, 8U, 11U})
    for (const std::size_t count : {0, 1, 3, 4, 31, 32, 63, 64, 65, 200, 5000}) {
      kernels::BitCodes codes{};
      for (auto& code : codes) {
        const unsigned length = 1 + static_cast<unsigned>(random() % most);
        code = static_cast<std::uint16_t>(random() % (1U << length) << 4 | length);
      }
      Bytes first(count), second(count);
      for (auto& symbol : first) symbol = static_cast<std::uint8_t>(random());
      for (auto& symbol : second) symbol = static_cast<std::uint8_t>(random());
      on_every_cpu([&](const std::string&) {
        Bytes a(2 * count + 16), b(2 * count + 16);
        kernels::BitStream to_a{a.data()}, to_b{b.data()};
        kernels::put_codes(first.data(), second.data(), count, codes, to_a, to_b);
        ASSERT_EQ(ended(a, to_a), plain(first, codes)) << most << " " << count;
        ASSERT_EQ(ended(b, to_b), plain(second, codes)) << most << " " << count;
      });
    }
}

}  // namespace
}  // namespace laconic::testing

// Levels beyond a byte in few bits, against their plain twin on every instruction set.
#include "laconic/kernels/wide_bits.h"

#include "tests/kernels/inputs.h"

namespace laconic::testing {
namespace {

std::uint32_t symbol_of(std::int32_t level) {
  const auto magnitude = static_cast<std::uint32_t>(std::abs(level));
  return level >= 0 ? 2 * magnitude : 2 * magnitude - 1;
}

TEST(WideBits, ArePackedAndTakenAsTheirPlainTwin) {
  std::mt19937_64 random(1);
  for (const std::size_t count : {0, 1, 8, 63, 64, 65, 127, 128, 200, 1000, 4096, 4099})
    for (unsigned width = 9; width <= 16; ++width) {
      std::vector<std::int8_t> small(count);
      std::vector<std::int32_t> levels(count), wide(count, 12345);
      for (std::size_t i = 0; i < count; ++i) {
        auto symbol = static_cast<std::int32_t>(random() % (1U << width));
        if (i % 3 == 0) symbol %= 255;
        if (i % 97 == 5) symbol = 254 + static_cast<std::int32_t>(i % 4);  // around +-127
        levels[i] = symbol % 2 ? -(symbol + 1) / 2 : symbol / 2;
        kernels::LevelSpan{small.data(), wide.data()}.set(i, levels[i]);
      }
      const std::size_t size = (count * width + 7) / 8;
      std::vector<std::uint8_t> expected(size);
      for (std::size_t i = 0; i < count * width; ++i)
        if (symbol_of(levels[i / width]) >> i % width & 1)
          expected[i / 8] |= static_cast<std::uint8_t>(1U << i % 8);
      on_every_cpu([&](const std::string& cpu) {
        SCOPED_TRACE(cpu + ", " + std::to_string(count) + " of " + std::to_string(width) + " bits");
        const auto packed = std::make_unique<std::uint8_t[]>(size + 1);
        packed[size] = 77;
        const std::size_t put =
            kernels::put_wide_levels({small.data(), wide.data()}, count, width, packed.get(), size);
        ASSERT_EQ(put % 8, 0U);
        ASSERT_LE(put, count);
        ASSERT_TRUE(cpu == "scalar" || count < 128 || put + 128 > count);
        ASSERT_TRUE(std::equal(packed.get(), packed.get() + put / 8 * width, expected.begin()));
        ASSERT_EQ(packed[size], 77);
        std::vector<std::int8_t> taken(count + 1, 77);
        std::vector<std::int32_t> beyond(count + 1, 77);
        std::uint32_t largest = 3, most = 3;
        const std::size_t took = kernels::take_wide_levels(expected.data(), size, count, width,
                                                           {taken.data(), beyond.data()}, largest);
        ASSERT_EQ(took, put);
        for (std::size_t i = 0; i < took; ++i) {
          most = std::max(most, symbol_of(levels[i]));
          ASSERT_EQ(taken[i], small[i]);
          ASSERT_EQ(beyond[i], levels[i]);
        }
        ASSERT_EQ(largest, most);
        ASSERT_TRUE(taken[took] == 77 && beyond[took] == 77);
      });
    }
}

TEST(WideBits, AreSplitAndJoinedAsTheirPlainTwin) {
  std::mt19937_64 random(2);
  for (const std::size_t count : {0, 1, 8, 31, 32, 33, 64, 100, 4099}) {
    std::vector<std::int8_t> small(count);
    std::vector<std::int32_t> wide(count, 12345), cut(count);
    std::vector<std::uint8_t> low(count + 1, 77), high(count + 1, 77);
    std::uint32_t largest = 0;
    for (std::size_t i = 0; i < count; ++i) {
      auto level = static_cast<std::int32_t>(random()) >> random() % 31;
      if (i % 7 == 0) level = 32765 + static_cast<std::int32_t>(random() % 5);
      if (i % 7 == 1) level = -32765 - static_cast<std::int32_t>(random() % 5);
      if (level < -2147483647) level = 2147483647;
      kernels::LevelSpan{small.data(), wide.data()}.set(i, level);
      const std::uint32_t symbol = std::min(symbol_of(level), 65535U);
      cut[i] = symbol == 65535 ? -32768 : level;
      low[i] = static_cast<std::uint8_t>(symbol);
      high[i] = static_cast<std::uint8_t>(symbol >> 8);
      largest = std::max(largest, symbol);
    }
    on_every_cpu([&](const std::string& cpu) {
      SCOPED_TRACE(cpu + ", " + std::to_string(count));
      std::vector<std::uint8_t> a(count + 1, 77), b(count + 1, 77);
      ASSERT_EQ(kernels::split_wide_levels({small.data(), wide.data()}, count, a.data(), b.data()),
                largest);
      ASSERT_EQ(a, low);
      ASSERT_EQ(b, high);
      std::vector<std::int8_t> taken(count + 1, 77);
      std::vector<std::int32_t> beyond(count + 1, 77);
      ASSERT_EQ(
          kernels::join_wide_levels(low.data(), high.data(), count, {taken.data(), beyond.data()}),
          largest);
      for (std::size_t i = 0; i < count; ++i) {
        ASSERT_EQ((kernels::LevelView{taken.data(), beyond.data()}[i]), cut[i]);
        ASSERT_EQ(beyond[i], cut[i]);
      }
      ASSERT_TRUE(taken.back() == 77 && beyond.back() == 77);
    });
  }
}

}  // namespace
}  // namespace laconic::testing

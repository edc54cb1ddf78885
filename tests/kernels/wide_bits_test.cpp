// Levels beyond a byte in few bits, against their plain twin on every instruction set.
#include "laconic/kernels/wide_bits.h"

#include "tests/kernels/inputs.h"

namespace laconic::testing {
namespace {

std::uint32_t symbol_of(std::int32_t level) {
  return static_cast<std::uint32_t>(level >= 0 ? 2 * level : -2 * level - 1);
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

}  // namespace
}  // namespace laconic::testing

// Levels in few bits, against their plain twin on every instruction set.
#include "laconic/kernels/level_bits.h"

#include "tests/kernels/inputs.h"

namespace laconic::testing {
namespace {

std::uint8_t symbol_of(int level) {
  return static_cast<std::uint8_t>(level >= 0 ? 2 * level : -2 * level - 1);
}

TEST(LevelBits, ArePackedAndTakenAsTheirPlainTwin) {
  std::mt19937_64 random(1);
  for (const std::size_t count : {0, 1, 7, 8, 63, 64, 65, 127, 200, 1000, 4096, 4099})
    for (unsigned width = 1; width <= 8; ++width) {
      std::vector<std::int8_t> levels(count);
      for (auto& level : levels) {
        const auto symbol = static_cast<int>(random() % (1U << width));
        level = static_cast<std::int8_t>(symbol % 2 ? -(symbol + 1) / 2 : symbol / 2);
      }
      std::vector<std::uint8_t> expected((count * width + 7) / 8);
      std::uint8_t largest = 0;
      for (std::size_t i = 0; i < count; ++i) {
        largest = std::max(largest, symbol_of(levels[i]));
        for (unsigned bit = 0; bit < width; ++bit)
          if (symbol_of(levels[i]) >> bit & 1)
            expected[(i * width + bit) / 8] |=
                static_cast<std::uint8_t>(1U << (i * width + bit) % 8);
      }
      on_every_cpu([&](const std::string& cpu) {
        // Exactly as long as they must be: nothing behind them is read or written.
        const auto packed = std::make_unique<std::uint8_t[]>(expected.size() + 1);
        packed[expected.size()] = 77;
        kernels::put_levels(levels.data(), count, width, packed.get());
        ASSERT_TRUE(std::equal(expected.begin(), expected.end(), packed.get()))
            << cpu << ", " << count << " of " << width << " bits";
        ASSERT_EQ(packed[expected.size()], 77);
        std::vector<std::int8_t> taken(count + 1, 77);
        ASSERT_EQ(kernels::take_levels(expected.data(), count, width, taken.data()), largest);
        ASSERT_EQ(taken.back(), 77);
        taken.pop_back();
        ASSERT_EQ(taken, levels) << cpu << ", " << count << " of " << width << " bits";
      });
    }
}

}  // namespace
}  // namespace laconic::testing

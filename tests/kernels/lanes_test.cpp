// Symbols as lanes of bytes, against their plain twin on every instruction set.
#include "laconic/kernels/lanes.h"

#include "tests/kernels/inputs.h"

namespace laconic::testing {
namespace {

using Bytes = std::vector<std::uint8_t>;

TEST(Lanes, AreTakenAndPutAsTheirPlainTwin) {
  std::mt19937_64 random(1);
  for (const std::size_t count : {0, 1, 7, 15, 16, 31, 32, 33, 64, 100, 4099})
    for (const std::size_t width : {2, 4}) {
      Bytes symbols(count * width + 1);
      for (auto& byte : symbols) byte = static_cast<std::uint8_t>(random());
      std::vector<Bytes> expected(width, Bytes(count + 1, 77));
      for (std::size_t i = 0; i < count; ++i)
        for (std::size_t l = 0; l < width; ++l) {
          unsigned byte = 0;
          for (unsigned to = 0; to < 8; ++to) {
            const std::size_t bit = (8 * l + to + 8 * width - 1) % (8 * width);
            byte |= (symbols[i * width + bit / 8] >> bit % 8 & 1U) << to;
          }
          expected[l][i] = static_cast<std::uint8_t>(byte);
        }
      on_every_cpu([&](const std::string& cpu) {
        SCOPED_TRACE(cpu + ", " + std::to_string(count) + " of " + std::to_string(width));
        std::vector<Bytes> lanes(width, Bytes(count + 1, 77));
        std::uint8_t* to[4] = {};
        const std::uint8_t* from[4] = {};
        for (std::size_t l = 0; l < width; ++l) from[l] = to[l] = lanes[l].data();
        kernels::take_lanes(symbols.data(), count, width, to);
        ASSERT_EQ(lanes, expected);
        Bytes back(symbols.size(), 77);
        kernels::put_lanes(from, count, width, back.data());
        ASSERT_EQ(back.back(), 77);
        ASSERT_TRUE(std::equal(back.begin(), back.end() - 1, symbols.begin()));
      });
    }
}

}  // namespace
}  // namespace laconic::testing

// Draws below growing limits, against Key::bits on every instruction set.
#include "laconic/kernels/drawn.h"

#include <algorithm>

#include "tests/support.h"

namespace laconic::testing {
namespace {

std::uint32_t plain(Key key, std::uint64_t j) {
  __extension__ using Product = unsigned __int128;
  return static_cast<std::uint32_t>(static_cast<Product>(key.bits(j)) * (j + 1) >> 64);
}

TEST(Drawn, EqualsItsPlainTwin) {
  for (const std::uint64_t seed : {0, 1, 77})
    for (const std::uint32_t first : {0U, 1U, 1000U, 0x7fffffffU, 0xffffffffU - 100})
      for (const std::size_t count : {0, 1, 7, 8, 16, 33, 100}) {
        const Key key = Key(seed).fork(first);
        on_every_cpu([&](const std::string& cpu) {
          SCOPED_TRACE(cpu + ", " + std::to_string(first));
          std::vector<std::uint32_t> out(count + 1, 5);
          kernels::draw_below(key, first, std::span(out).first(count));
          for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(out[i], plain(key, first + i));
          EXPECT_EQ(out[count], 5U);
        });
      }
}

}  // namespace
}  // namespace laconic::testing

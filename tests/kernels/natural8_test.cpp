// What lies below the window of natural's 8-bit form, against its plain twin on every instruction
// set.
#include "laconic/kernels/natural.h"
#include "tests/kernels/inputs.h"

namespace laconic::testing {
namespace {

using kernels::Rounding;

// Entry by entry, coin by coin.
bool reaches_lowest(float x, std::uint32_t base, Rounding rounding, const Draws& draws,
                    std::uint64_t position) {
  const std::uint32_t field = magnitude(x) >> 23;
  const std::uint32_t significand = (magnitude(x) & 0x7fffffU) | (field > 0 ? 1U << 23 : 0);
  std::uint32_t distance = base + 1 - std::max(field, 1U);
  if (rounding == Rounding::nearest)
    return distance == 0 ? significand > (1U << 22) : distance == 1 && significand > (1U << 23);
  const std::uint32_t draw = draws.bits32(position, std::signbit(x));
  if (distance == 0) return draws.some(draw, 23) < significand;
  if (draws.some(draw, 24) >= significand) return false;
  const Key more = draws.own().fork(position);
  for (std::uint64_t i = 0; --distance > 0; ++i)
    if (more.bits(i) & 1) return false;
  return true;
}

TEST(Natural8, BelowTheWindowEqualsItsPlainTwin) {
  const Keys alone = make_keys(3, 1, 4), among = make_keys(3, 1, 2, 5);
  std::size_t up = 0;
  for (const std::size_t count : {1UL, 63UL, 64UL, 100UL, 1000UL, 4095UL, 4096UL})
    for (const unsigned top : {127U, 128U, 140U, 200U, 254U})
      for (const Draws& draws : {alone.draws(), among.draws()})
        for (const Rounding rounding : {Rounding::stochastic, Rounding::nearest})
          for (const std::uint64_t first : {std::uint64_t{9}, (std::uint64_t{5} << 32) - 50}) {
            // Most a few binades below the lowest level, some far below, some in the window.
            std::mt19937_64 random(count + top);
            std::vector<float> x(count);
            for (float& value : x) {
              const auto below = static_cast<int>(random() % 4 ? random() % 8 : random() % 100);
              const auto field = static_cast<int>(top) - 126 + 2 - below;
              const auto bits = static_cast<std::uint32_t>(std::max(field, 0)) << 23 |
                                static_cast<std::uint32_t>(random() & 0x807fffffU);
              value = random() % 50 ? std::bit_cast<float>(bits) : 0.0F;
            }
            const std::uint32_t base = top - 127;
            on_every_cpu([&](const std::string& cpu) {
              std::vector<std::uint8_t> codes(count, 99);
              kernels::natural8_encode(x, rounding, draws, first, top, codes.data());
              for (std::size_t i = 0; i < count; ++i) {
                if (magnitude(x[i]) == 0 || magnitude(x[i]) >= (base + 1) << 23) continue;
                const bool expected = reaches_lowest(x[i], base, rounding, draws, first + i);
                up += expected;
                const int code = expected ? (x[i] < 0 ? 0x81 : 0x01) : 0;
                ASSERT_EQ(codes[i], code)
                    << cpu << ", entry " << i << " of " << count << " at " << top;
              }
            });
          }
  EXPECT_GT(up, 10000U);
}

}  // namespace
}  // namespace laconic::testing

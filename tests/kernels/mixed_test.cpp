// Kernels that mix, encode and leave in one sweep, against the sweeps one by one on every
// instruction set.
#include "laconic/kernels/mixed.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "laconic/kernels/codes.h"
#include "laconic/kernels/half.h"
#include "laconic/kernels/levels.h"
#include "laconic/kernels/looks.h"
#include "laconic/kernels/natural.h"
#include "laconic/kernels/reduce.h"
#include "laconic/kernels/signs.h"
#include "laconic/kernels/stream.h"
#include "tests/support.h"

namespace laconic::testing {
namespace {

using Bytes = std::vector<std::uint8_t>;
using kernels::Rounding;

const Key kKey = make_keys(3, 1, 4).own;

// The arrays of a block, with `left` so many times 16 bytes past a line.
struct Arrays {
  explicit Arrays(std::size_t count) : fresh(gaussian(count)), kept(count), memory(count + 32) {
    for (std::size_t i = 0; i < count; ++i)
      kept[i] = i % 7 == 0 ? -0.7F * fresh[i] : fresh[count - 1 - i] / 3;
  }
  kernels::Mixed block(bool streams, std::size_t past = 1) {
    float* left = memory.data();
    while (reinterpret_cast<std::uintptr_t>(left) % 64 != 0) ++left;
    left += 4 * past;
    return {fresh.size(), fresh.data(), kept.data(), 0.7F, 1, 0.9F, left, streams};
  }

  std::vector<float> fresh, kept, memory;
};

bool same_bits(std::span<const float> a, const float* b) {
  return a.empty() || std::memcmp(a.data(), b, a.size_bytes()) == 0;
}

TEST(Mixed, MixingAndLeavingEqualTheirPlainTwins) {
  for (const std::size_t count : {0, 1, 5, 64, 100, 4096})
    for (const std::size_t offset : {0, 1, 2, 3}) {
      const std::vector<float> x = gaussian(count), y = made_up(count);
      on_every_cpu([&](const std::string&) {
        std::vector<float> to(count + offset, 7.0F);
        const std::span<float> out = std::span(to).subspan(offset);
        kernels::mix(0.3F, x.data(), -1.7F, y.data(), out);
        for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(out[i], 0.3F * x[i] + -1.7F * y[i]);
        for (const bool streams : {false, true}) {
          std::ranges::fill(out, 7.0F);
          kernels::leave(0.9F, x.data(), y.data(), count, streams, out.data());
          kernels::end_stream();
          for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(out[i], 0.9F * (x[i] - y[i]));
        }
      });
    }
}

TEST(Mixed, NaturalEqualsMixingEncodingAndLeaving) {
  for (const std::size_t count : {1, 63, 64, 65, 4096})
    for (const Rounding rounding : {Rounding::stochastic, Rounding::nearest})
      for (const bool streams : {false, true}) {
        Arrays arrays(count);
        std::vector<float> x(count), left(count);
        arrays.block(false).x(x.data());
        Bytes exponents(count), signs((count + 7) / 8);
        kernels::natural_encode(x, rounding, kKey, 99, exponents.data(), signs.data());
        kernels::natural_add(exponents.data(), signs.data(), 1, left);
        for (std::size_t i = 0; i < count; ++i) left[i] = 0.9F * (x[i] - left[i]);
        on_every_cpu([&](const std::string&) {
          Bytes e(count, 1), s(signs.size(), 2);
          const kernels::Mixed block = arrays.block(streams);
          std::fill_n(block.left, count, -9.0F);
          ASSERT_TRUE(kernels::natural_encode_mixed(block, rounding, kKey, 99, e.data(), s.data()));
          kernels::end_stream();
          ASSERT_EQ(e, exponents);
          ASSERT_EQ(s, signs);
          ASSERT_TRUE(same_bits(left, block.left)) << count;
        });
      }
}

TEST(Mixed, NaturalLeavesToOthersWhatIsNotFiniteOrOfTwoKeys) {
  for (const float odd : {std::numeric_limits<float>::infinity(), -NAN})
    on_every_cpu([&](const std::string&) {
      Arrays arrays(100);
      arrays.fresh[70] = odd;
      arrays.kept[70] = 0;
      Bytes e(100), s(13);
      EXPECT_FALSE(kernels::natural_encode_mixed(arrays.block(false), Rounding::nearest, kKey, 0,
                                                 e.data(), s.data()));
    });
  Arrays arrays(100);
  Bytes e(100), s(13);
  EXPECT_FALSE(kernels::natural_encode_mixed(arrays.block(false), Rounding::stochastic, kKey,
                                             (std::uint64_t{1} << 32) - 5, e.data(), s.data()));
}

TEST(Mixed, LooksAreThoseAtWhatIsMixed) {
  for (const std::size_t count : {1, 15, 63, 64, 65, 4096}) {
    Arrays arrays(count);
    std::vector<float> x(count);
    arrays.block(false).x(x.data());
    const kernels::Range range = kernels::range_of(x);
    on_every_cpu([&](const std::string&) {
      for (const std::size_t past : {0, 1, 2, 3})
        for (const bool streams : {false, true})
          for (const bool keeps : {false, true}) {
            kernels::Mixed block = arrays.block(streams, past);
            if (!keeps) block = block.looked_at();
            const auto kept = [&] {
              kernels::end_stream();
              const bool same = !keeps || same_bits(x, block.left);
              std::ranges::fill(arrays.memory, -9.0F);
              return same;
            };
            ASSERT_EQ(kernels::largest_magnitude(block), kernels::largest_magnitude(x));
            ASSERT_TRUE(kept()) << count;
            ASSERT_EQ(kernels::sum_of_squares(block), kernels::sum_of_squares(x));
            ASSERT_TRUE(kept()) << count;
            ASSERT_EQ(kernels::sum_of_magnitudes(block), kernels::sum_of_magnitudes(x));
            ASSERT_TRUE(kept()) << count;
            const kernels::Measures moments = kernels::moments_of(block);
            ASSERT_TRUE(kept()) << count;
            ASSERT_EQ(moments.sum, kernels::moments_of(x).sum);
            ASSERT_EQ(moments.squares, kernels::sum_of_squares(x));
            ASSERT_EQ(moments.largest, kernels::largest_magnitude(x));
            const kernels::Range mixed = kernels::range_of(block);
            ASSERT_TRUE(kept()) << count;
            ASSERT_EQ(mixed.low, range.low);
            ASSERT_EQ(mixed.high, range.high);
            ASSERT_TRUE(mixed.finite);
          }
    });
    for (const float odd : {std::numeric_limits<float>::infinity(), -NAN}) {
      arrays.fresh[count - 1] = odd;
      EXPECT_FALSE(kernels::range_of(arrays.block(false)).finite);
      EXPECT_GE(kernels::largest_magnitude(arrays.block(false)), kernels::kInfinity);
      EXPECT_FALSE(std::isfinite(kernels::sum_of_squares(arrays.block(false))));
    }
  }
}

// encode_mixed(block, codes) against encode(x, codes), which is to be added by add(codes, y), and a
// plain loop. Both codes have `bytes` bytes for each entry, at least one.
template <class Encode, class Add, class EncodeMixed>
void expect_sweeps_one_by_one(std::size_t bytes, Encode encode, Add add, EncodeMixed encode_mixed) {
  for (const std::size_t count : {1, 15, 63, 64, 65, 4096}) {
    Arrays arrays(count);
    std::vector<float> x(count), left(count);
    arrays.block(false).x(x.data());
    Bytes codes(bytes * count, 7);
    encode(std::span<const float>(x), codes.data());
    add(codes.data(), std::span(left));
    for (std::size_t i = 0; i < count; ++i) left[i] = 0.9F * (x[i] - left[i]);
    on_every_cpu([&](const std::string&) {
      for (const std::size_t past : {0, 1, 2, 3})
        for (const bool streams : {false, true})
          for (const bool again : {false, true}) {
            Bytes mixed(codes.size(), 7);
            std::ranges::fill(arrays.memory, -9.0F);
            const kernels::Mixed block = arrays.block(streams, past);
            ASSERT_TRUE(encode_mixed(again ? block.again(x.data()) : block, mixed.data()));
            kernels::end_stream();
            ASSERT_EQ(mixed, codes) << count;
            ASSERT_TRUE(same_bits(left, block.left)) << count << ' ' << past << ' ' << streams;
            ASSERT_TRUE(block.left == arrays.memory.data() || block.left[-1] == -9);
            ASSERT_EQ(block.left[count], -9);
            // In place, where x was kept.
            std::ranges::copy(x, block.left);
            ASSERT_TRUE(encode_mixed(block.again(block.left), mixed.data()));
            kernels::end_stream();
            ASSERT_EQ(mixed, codes) << count;
            ASSERT_TRUE(same_bits(left, block.left)) << count << ' ' << past << ' ' << streams;
          }
    });
  }
}

const Draws kSome[] = {kKey, make_keys(3, 1, 4, 8).draws()};

TEST(Mixed, LevelsEqualMixingEncodingAndLeaving) {
  for (const Draws& draws : kSome)
    for (const Rounding rounding : {Rounding::stochastic, Rounding::nearest})
      for (const float steps : {1.0F, 7.0F, 1000.0F}) {
        const kernels::Scale scale{3, steps};
        const auto most = static_cast<std::int32_t>(steps);
        std::vector<std::int32_t> wide(4096), other(4096);
        const auto span = [](std::uint8_t* codes, std::vector<std::int32_t>& wide) {
          return kernels::LevelSpan{reinterpret_cast<std::int8_t*>(codes), wide.data()};
        };
        expect_sweeps_one_by_one(
            1,
            [&](std::span<const float> x, std::uint8_t* codes) {
              kernels::to_levels(x, scale, most, rounding, draws, 99, span(codes, wide));
            },
            [&](std::uint8_t* codes, std::span<float> y) {
              kernels::add_levels(span(codes, wide), kernels::unit_of(scale), 1, y);
            },
            [&](const kernels::Mixed& block, std::uint8_t* codes) {
              other = wide;
              const bool done = kernels::to_levels_mixed(block, scale, most, rounding, draws, 99,
                                                         span(codes, other));
              return done && other == wide;
            });
      }
}

TEST(Mixed, LevelsAndTheirSpreadEqualMixingEncodingAndLeaving) {
  for (const Draws& draws : kSome) {
    const kernels::Scale scale{0.01F, 1};
    const kernels::Unit unit{0.01F, std::numeric_limits<float>::max()};
    std::vector<std::int32_t> wide(4096);
    const auto span = [&](std::uint8_t* codes) {
      return kernels::LevelSpan{reinterpret_cast<std::int8_t*>(codes), wide.data()};
    };
    kernels::Spreads sums;
    expect_sweeps_one_by_one(
        1,
        [&](std::span<const float> x, std::uint8_t* codes) {
          sums = kernels::to_levels_and_spread(x, scale, 1 << 30, draws, 99, span(codes));
        },
        [&](std::uint8_t* codes, std::span<float> y) {
          kernels::add_levels(span(codes), unit, 1, y);
        },
        [&](const kernels::Mixed& block, std::uint8_t* codes) {
          const auto mixed = kernels::to_levels_and_spread_mixed(block, scale, unit, 1 << 30, draws,
                                                                 99, span(codes));
          return mixed && mixed->variance == sums.variance && mixed->squares == sums.squares;
        });
  }
}

TEST(Mixed, PowersEqualMixingEncodingAndLeaving) {
  const auto levels = [](std::uint8_t* codes) { return reinterpret_cast<std::int8_t*>(codes); };
  for (const Draws& draws : kSome)
    for (const int s : {1, 5, 127})
      expect_sweeps_one_by_one(
          1,
          [&](std::span<const float> x, std::uint8_t* codes) {
            kernels::to_powers(x, 3, s, draws, 99, levels(codes));
          },
          [&](std::uint8_t* codes, std::span<float> y) {
            kernels::add_powers(levels(codes), 3, s, 1, y);
          },
          [&](const kernels::Mixed& block, std::uint8_t* codes) {
            return kernels::to_powers_mixed(block, 3, s, draws, 99, levels(codes));
          });
}

TEST(Mixed, CodesEqualMixingEncodingAndLeaving) {
  for (const Draws& draws : kSome)
    for (const Rounding rounding : {Rounding::stochastic, Rounding::nearest})
      for (const unsigned bits : {1U, 4U, 8U})
        expect_sweeps_one_by_one(
            1,
            [&](std::span<const float> x, std::uint8_t* codes) {
              kernels::to_codes(x, -3, 2, bits, rounding, draws, 99, codes);
            },
            [&](std::uint8_t* codes, std::span<float> y) {
              kernels::add_codes(codes, -3, 2, bits, 1, y);
            },
            [&](const kernels::Mixed& block, std::uint8_t* codes) {
              return kernels::to_codes_mixed(block, -3, 2, bits, rounding, draws, 99, codes);
            });
}

TEST(Mixed, SignsAreLeftAsOthersDecodeThem) {
  expect_sweeps_one_by_one(
      1, [](std::span<const float> x, std::uint8_t* codes) { kernels::pack_signs(x, codes); },
      [](std::uint8_t* codes, std::span<float> y) { kernels::add_signs(codes, 0.7F, 1, y); },
      [](const kernels::Mixed& block, std::uint8_t* codes) {
        kernels::pack_and_leave_signs(block, 0.7F, codes);
        return true;
      });
}

TEST(Mixed, HalvesEqualMixingEncodingAndLeaving) {
  expect_sweeps_one_by_one(
      2, [](std::span<const float> x, std::uint8_t* codes) { kernels::bf16_encode(x, codes); },
      [](std::uint8_t* codes, std::span<float> y) { kernels::bf16_add(codes, 1, y); },
      [](const kernels::Mixed& block, std::uint8_t* codes) {
        return kernels::bf16_encode_mixed(block, codes);
      });
  for (const unsigned top : {127U, 130U, 254U})
    for (const std::size_t odd : {0, 1})  // address
      expect_sweeps_one_by_one(
          3,
          [&](std::span<const float> x, std::uint8_t* codes) {
            kernels::fp16_encode(x, top, codes + odd);
          },
          [&](std::uint8_t* codes, std::span<float> y) {
            kernels::fp16_add(codes + odd, top, 1, y);
          },
          [&](const kernels::Mixed& block, std::uint8_t* codes) {
            kernels::fp16_encode_mixed(block, top, codes + odd);
            return true;
          });
}

TEST(Mixed, Natural8EqualsMixingEncodingAndLeaving) {
  for (const Draws& draws : kSome)
    for (const Rounding rounding : {Rounding::stochastic, Rounding::nearest})
      expect_sweeps_one_by_one(
          1,
          [&](std::span<const float> x, std::uint8_t* codes) {
            kernels::natural8_encode(x, rounding, draws, 99, 131, codes);
          },
          [&](std::uint8_t* codes, std::span<float> y) { kernels::natural8_add(codes, 131, 1, y); },
          [&](const kernels::Mixed& block, std::uint8_t* codes) {
            return kernels::natural8_encode_mixed(block, rounding, draws, 99, 131, codes);
          });
}

TEST(Mixed, OthersDoWhatHasTwoKeysOrALongWayToItsNorm) {
  Arrays arrays(100);
  Bytes codes(100);
  const kernels::LevelSpan levels{reinterpret_cast<std::int8_t*>(codes.data())};
  const kernels::Mixed block = arrays.block(false);
  const std::uint64_t crossing = (std::uint64_t{1} << 32) - 5;
  const Rounding any = Rounding::stochastic;
  EXPECT_FALSE(kernels::to_levels_mixed(block, {3, 7}, 7, any, kKey, crossing, levels));
  EXPECT_FALSE(kernels::to_levels_mixed(block, {0x1p-100F, 7}, 7, any, kKey, 0, levels));
  EXPECT_FALSE(kernels::to_levels_mixed(block, {0x1p100F, 7}, 7, any, kKey, 0, levels));
  EXPECT_FALSE(kernels::to_powers_mixed(block, 3, 7, kKey, crossing, levels.small));
  EXPECT_FALSE(kernels::to_codes_mixed(block, -1, 1, 8, any, kKey, crossing, codes.data()));
  EXPECT_FALSE(kernels::natural8_encode_mixed(block, any, kKey, crossing, 131, codes.data()));
  arrays.fresh[7] = 1e-30F, arrays.kept[7] = 0;  // below the window
  EXPECT_FALSE(kernels::natural8_encode_mixed(block, any, kKey, 0, 131 + 30, codes.data()));
}

}  // namespace
}  // namespace laconic::testing

// Kernels that mix, encode and leave in one sweep, against the sweeps one by one on every
// instruction set.
#include "laconic/kernels/mixed.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "laconic/kernels/natural.h"
#include "laconic/kernels/stream.h"
#include "tests/support.h"

namespace laconic::testing {
namespace {

using Bytes = std::vector<std::uint8_t>;
using kernels::Rounding;

const Key kKey = make_keys(3, 1, 4).own;

// The arrays of a block, with `left` at a multiple of 16 bytes.
struct Arrays {
  explicit Arrays(std::size_t count) : fresh(gaussian(count)), kept(count), memory(count + 3) {
    for (std::size_t i = 0; i < count; ++i)
      kept[i] = i % 7 == 0 ? -0.7F * fresh[i] : fresh[count - 1 - i] / 3;
  }
  kernels::Mixed block(bool streams) {
    float* left = memory.data();
    while (reinterpret_cast<std::uintptr_t>(left) % 16 != 0) ++left;
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

}  // namespace
}  // namespace laconic::testing

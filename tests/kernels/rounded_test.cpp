// Bytes with a step for every 64: beside a plain loop, and what they lose.
#include "laconic/kernels/rounded.h"

#include "laconic/kernels/floats.h"
#include "tests/kernels/inputs.h"

namespace laconic::testing {
namespace {

constexpr std::size_t kGroup = kernels::kRounded;

struct Rounded {
  std::vector<std::int8_t> codes;
  std::vector<std::uint8_t> exponents;

  explicit Rounded(std::size_t count) : codes(count), exponents((count + kGroup - 1) / kGroup) {}
  Rounded(std::span<const float> x, Key own, std::uint64_t first) : Rounded(x.size()) {
    kernels::round_to_bytes(x, own, first, codes.data(), exponents.data());
  }
  double step(std::size_t i) const {
    return exponents[i / kGroup] == 0 ? 0 : std::ldexp(1, exponents[i / kGroup] - 127);
  }
  std::vector<float> values() const {
    std::vector<float> y(codes.size());
    kernels::bytes_to_floats(codes.data(), exponents.data(), 0, y);
    return y;
  }
  bool operator==(const Rounded&) const = default;
};

Rounded plain(std::span<const float> x, Key own, std::uint64_t first) {
  Rounded result(x.size());
  for (std::size_t from = 0; from < x.size(); from += kGroup) {
    const auto group = x.subspan(from, std::min(kGroup, x.size() - from));
    double largest = 0;
    for (const float value : group) largest = std::max(largest, std::abs(double{value}));
    if (largest == 0) continue;
    int power = -126;
    while (127 * std::ldexp(1, power) < largest) ++power;
    result.exponents[from / kGroup] = static_cast<std::uint8_t>(power + 127);
    const Key key = own.fork(first + from);
    for (std::size_t i = 0; i < group.size(); ++i) {
      // As a kernel multiplies: a product too small for a float is 0.
      const float scaled = group[i] * static_cast<float>(std::ldexp(1, -power)) * 0x1p23F;
      const auto draw = static_cast<std::int64_t>(
          Key::mix32(static_cast<std::uint32_t>(i), key.word0(), key.word1()) >> 9);
      const std::int64_t most = power == 122 ? 63 : 127;
      result.codes[from + i] = static_cast<std::int8_t>(
          std::clamp((static_cast<std::int64_t>(scaled) + draw) >> 23, -most, most));
    }
  }
  return result;
}

TEST(Rounded, IsThePlainLoopOnEveryCpu) {
  for_inputs([](std::span<const float> x) {
    const Rounded expected = plain(x, Key(3), 77);
    on_every_cpu([&](const std::string&) {
      const Rounded rounded(x, Key(3), 77);
      EXPECT_EQ(rounded, expected);
      const auto y = rounded.values();
      for (std::size_t i = 0; i < x.size(); ++i)
        EXPECT_EQ(y[i], rounded.codes[i] * rounded.step(i)) << i;
    });
  });
}

// Less than a step, which is at most the largest of its group over 63.5.
TEST(Rounded, LosesLessThanAStep) {
  for_inputs([](std::span<const float> x) {
    const Rounded rounded(x, Key(4), 0);
    const auto y = rounded.values();
    for (std::size_t from = 0; from < x.size(); from += kGroup) {
      double largest = 0;
      const std::size_t end = std::min(x.size(), from + kGroup);
      for (std::size_t i = from; i < end; ++i) largest = std::max(largest, std::abs(double{x[i]}));
      EXPECT_LE(rounded.step(from), std::max(largest / 63.5, 0x1p-126));
      for (std::size_t i = from; i < end; ++i)
        EXPECT_LE(std::abs(double{y[i]} - x[i]), rounded.step(from)) << i;
    }
  });
}

TEST(Rounded, WhatWasRoundedStaysToTheBit) {
  for_inputs([](std::span<const float> x) {
    const auto once = Rounded(x, Key(5), 0).values();
    EXPECT_EQ(Rounded(once, Key(6), 9).values(), once);
  });
}

TEST(Rounded, TheMeanIsTheEntry) {
  constexpr int kDraws = 4000;
  for (const double part : {0.3, -0.3, 0.001, -17.75, 63.999}) {
    std::vector<float> x(kGroup, static_cast<float>(part * 0x1p-20));
    x[0] = 100 * 0x1p-20F;  // steps of 2^-20
    double sum = 0;
    for (std::uint64_t draw = 0; draw < kDraws; ++draw) {
      const auto y = Rounded(x, Key(draw), 0).values();
      EXPECT_EQ(y[0], x[0]);
      for (std::size_t i = 1; i < kGroup; ++i) sum += y[i] / 0x1p-20;
    }
    const double n = kDraws * (kGroup - 1), up = part - std::floor(part);
    EXPECT_NEAR(sum / n, part, 5 * std::sqrt(up * (1 - up) / n) + 1e-6) << part;
  }
}

TEST(Rounded, AnyPartIsReadAsAmongAll) {
  const auto x = gaussian(1000);
  Rounded rounded(x, Key(7), 0);
  const auto all = rounded.values();
  for (const std::size_t from : {0, 1, 63, 64, 65, 200, 960, 999})
    for (const std::size_t count : {1, 2, 63, 64, 65, 300, 1000}) {
      const std::size_t some = std::min(count, x.size() - from), skip = from % 3;
      // A piece that begins anywhere, read from anywhere in it.
      const Piece piece{.count = x.size() - skip,
                        .data = rounded.codes.data() + skip,
                        .exponents = rounded.exponents.data(),
                        .inside = skip};
      const Floats floats(std::span(&piece, 1));
      EXPECT_EQ(floats.array(), nullptr);
      std::vector<float> y(some);
      const std::size_t at = std::max(from, skip);
      if (at + some > x.size()) continue;
      EXPECT_EQ(floats.load(at - skip, some, y.data()), y.data());
      for (std::size_t i = 0; i < some; ++i) EXPECT_EQ(y[i], all[at + i]) << from << " " << count;
    }
}

}  // namespace
}  // namespace laconic::testing

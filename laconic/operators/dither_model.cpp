// The family of laws, and the choice of one.
#include "laconic/operators/dither_model.h"

#include <algorithm>
#include <cmath>
#include <memory>

namespace laconic {
namespace {

using kernels::kDitherBins;
using kernels::kDitherSymbols;

constexpr int kShapes = 8;
constexpr int kScales = 32;                // that a byte can name, of one class
constexpr int kLeastScale = 2 * -13 - 16;  // of the lowest class, in quarters of an octave
constexpr int kAllScales = 2 * 1 + 15 - kLeastScale + 1;

double squared(double x) { return x * x; }

// P(|entry| > t) for t >= 0 in units of b: a bell curve of variance b^2 / 2 (Hastings'
// approximation of erfc, Abramowitz and Stegun 7.1.27), then (1 + t/p)^-p with p = 32, 16, 8, 4, 2,
// 1 and 1/2.
double beyond(int shape, double t) {
  if (shape == 0)
    return 1 /
           squared(squared(1 + t * (0.278393 + t * (0.230389 + t * (0.000972 + t * 0.078108)))));
  if (shape == 7) return 1 / std::sqrt(1 + 2 * t);
  double power = 1 + t / (64 >> shape);
  for (int i = shape; i < 6; ++i) power = squared(power);
  return 1 / power;
}

double b_of(int scale) {
  constexpr double kQuarters[4] = {1, 0x1.306fe0a31b715p0, 0x1.6a09e667f3bcdp0,
                                   0x1.ae89f995ad3adp0};
  return std::ldexp(kQuarters[scale & 3], scale >> 2);
}

// Shares of symbols of which the first is `least`, for entries that are rounded after each of some
// `offsets`; `rest` is the symbol that has what is left over.
ContextShares shares_of(int shape, int scale, std::span<const double> offsets, double least,
                        std::size_t rest) {
  const double b = b_of(scale), part = static_cast<double>(offsets.size());
  const auto below = [&](double y) {  // P(entry < y)
    const double tail = beyond(shape, std::abs(y) / b) / 2;
    return y < 0 ? tail : 1 - tail;
  };
  double reached[kDitherSymbols] = {};  // P(level < that of symbol i), the mean over all offsets
  for (const double u : offsets)
    for (std::size_t i = 0; i < kDitherSymbols; ++i)
      reached[i] += below(static_cast<double>(i) + (least - 0.5) - u) / part;
  // One for each symbol, what they are likely to need, and the rest for level 0.
  std::uint32_t shares[kDitherSymbols], given = 0;
  for (std::size_t i = 0; i < kDitherSymbols; ++i) {
    const double p =
        i + 1 < kDitherSymbols ? reached[i + 1] - reached[i] : 1 - (reached[i] - reached[0]);
    shares[i] = 1 + static_cast<std::uint32_t>(std::max(0.0, p) * (kShares - 16));
    given += shares[i];
  }
  shares[rest] += kShares - given;
  ContextShares result;
  std::uint32_t begin = 0;
  for (std::size_t i = 0; i < kDitherSymbols; ++i) {
    result.begin[i] = static_cast<std::uint16_t>(begin);
    begin += shares[i];
  }
  return result;
}

DitherShares dither_shares_of(int shape, int scale) {
  DitherShares result;
  for (std::size_t bin = 0; bin < kDitherBins; ++bin) {
    const double at = static_cast<double>(bin);
    const double offsets[] = {(at + 0.25) / 16, (at + 0.75) / 16};
    result[bin] = shares_of(shape, scale, offsets, -2, 2);
  }
  return result;
}

std::array<ContextShares, 1> grid_shares_of(int shape, int scale) {
  constexpr int kOffsets = 16;
  double offsets[kOffsets];
  for (int i = 0; i < kOffsets; ++i) offsets[i] = (i + 0.5) / kOffsets - 0.5;
  return {shares_of(shape, scale, offsets, -3, 3)};
}

int shape_of(std::uint8_t law) { return law >> 5; }
int scale_of(std::size_t cls, int i) {
  const int low = static_cast<int>(kernels::dither_low(static_cast<std::uint32_t>(cls)));
  return 2 * (static_cast<int>(cls) - 14 - 2 * low) + i - 16;
}

// log2(kShares / share) in 1/256 of a bit, by repeated squaring.
std::uint16_t bits_of(std::uint32_t share) {
  std::uint32_t whole = 0;
  std::uint64_t x = share;
  for (; x * 2 <= kShares; x *= 2) ++whole;
  std::uint32_t result = whole << 8;
  x <<= 30 - kShareBits;  // kShares / 2 < x <= kShares as a fraction of 2^30
  for (std::uint32_t digit = 128; digit > 0; digit >>= 1) {
    x = x * x >> 30;
    if (x * 2 <= 1U << 30) {
      x *= 2;
      result += digit;
    }
  }
  return static_cast<std::uint16_t>(result);
}

// What each symbol takes by every law, made once.
template <std::size_t kCells>
struct AllBits {
  std::uint16_t bits[kShapes][kAllScales][kCells];

  template <class SharesOf>
  explicit AllBits(SharesOf shares_of) {
    for (int shape = 0; shape < kShapes; ++shape)
      for (int scale = 0; scale < kAllScales; ++scale) {
        const auto shares = shares_of(shape, scale + kLeastScale);
        for (std::size_t cell = 0; cell < kCells; ++cell)
          bits[shape][scale][cell] =
              bits_of(shares[cell / kDitherSymbols].share(cell % kDitherSymbols));
      }
  }
};

template <std::size_t kCells>
std::uint8_t fitted(const AllBits<kCells>& all, std::size_t cls,
                    std::span<const std::uint32_t, kCells> counts) {
  const auto cost = [&](int shape, int i) {
    const auto& bits = all.bits[shape][scale_of(cls, i) - kLeastScale];
    std::uint64_t sum = 0;
    for (std::size_t cell = 0; cell < kCells; ++cell)
      sum += std::uint64_t{counts[cell]} * bits[cell];
    return sum;
  };
  // None of the few there are was counted: a bell curve as wide as the class says.
  if (std::ranges::all_of(counts, [](std::uint32_t count) { return count == 0; })) return 18;
  std::uint64_t least = ~0ULL;
  int law = 0;
  for (int shape = 0; shape < kShapes; ++shape) {
    int best = 0;
    std::uint64_t lowest = ~0ULL;
    const auto look = [&](int i) {
      if (i < 0 || i >= kScales) return;
      const std::uint64_t bits = cost(shape, i);
      if (bits < lowest) lowest = bits, best = i;
    };
    for (int i = 0; i < kScales; i += 4) look(i);
    for (const int step : {2, 1}) {
      const int middle = best;
      look(middle - step);
      look(middle + step);
    }
    if (lowest < least) least = lowest, law = shape * kScales + best;
  }
  return static_cast<std::uint8_t>(law);
}

}  // namespace

DitherShares dither_shares(std::size_t cls, std::uint8_t law) {
  return dither_shares_of(shape_of(law), scale_of(cls, law % kScales));
}

ContextShares grid_shares(std::size_t cls, std::uint8_t law) {
  return grid_shares_of(shape_of(law), scale_of(cls, law % kScales))[0];
}

std::size_t dither_class(double ratio) {
  // The nearest power of two: 2^(1/2) up and down.
  const int exponent = std::ilogb(std::max(ratio, 0x1p-60) * 0x1.6a09e667f3bcdp0);
  return static_cast<std::size_t>(std::clamp(exponent, -13, 17) + 14);
}

std::uint8_t fitted_law(std::size_t cls, std::span<const std::uint32_t, 64> counts) {
  static const auto all = std::make_unique<const AllBits<64>>(dither_shares_of);
  return fitted(*all, cls, counts);
}

std::uint8_t fitted_grid_law(std::size_t cls, std::span<const std::uint32_t, 8> counts) {
  static const auto all = std::make_unique<const AllBits<8>>(grid_shares_of);
  return fitted(*all, cls, counts);
}

}  // namespace laconic

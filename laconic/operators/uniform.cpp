// uniform: codes of 1 to 8 bits, evenly spaced between the least and the largest entry, or between
// -m and m with m the largest magnitude. Rounded at random without bias, each entry by its own
// draw, or to the nearest.
//
// Between -m and m, from 2 bits on, the codes are -h..h with h = 2^(bits-1) - 1: zero is one of
// them, and one code is never used.
#include <algorithm>

#include "laconic/kernels/codes.h"
#include "laconic/operators/codes.h"
#include "laconic/operators/norms.h"
#include "laconic/operators/sweeps.h"

namespace laconic {
namespace {

using kernels::Rounding;

static_assert(kCodePiece == kBlock);

class Uniform : public TwoPassQuantiser {
 public:
  Uniform(unsigned bits, Rounding rounding) : bits_(bits), rounding_(rounding) {}

 protected:
  Traits claims(std::optional<double> error) const {
    const auto delta = error && *error < 1 ? std::optional(1 - *error) : std::nullopt;
    if (rounding_ == Rounding::nearest) return {.delta = delta};
    return {.unbiased = true, .random = true, .stratified = true, .omega = error, .delta = delta};
  }

  // Packs what make(codes) puts into `count` bytes for the entries from `from` on, if it says that
  // it did. Codes of 8 bits are made where they stay.
  template <class Make>
  bool pack(const PlaneSpans& planes, std::size_t from, std::size_t count, Make make) const {
    std::uint8_t* packed = planes[1].data() + from / 8 * bits_;
    if (bits_ == 8) return make(packed);
    std::uint8_t codes[kCodePiece];
    if (!make(codes)) return false;
    pack_piece(codes, count, bits_, packed);
    return true;
  }

  unsigned bits_;
  Rounding rounding_;
};

class MinMax : public Uniform {
 public:
  using Uniform::Uniform;

  PlaneShapes planes(std::size_t count) const override {
    return {{.width = 32, .count = count > 0 ? std::size_t{2} : 0},
            {.width = bits_, .count = count}};
  }

  kernels::Measures look(std::span<const float> x, std::size_t, const PlaneSpans&) const override {
    return measures_of(kernels::range_of(x));
  }
  kernels::Measures look_mixed(const kernels::Mixed& block, std::size_t,
                               const PlaneSpans&) const override {
    return measures_of(kernels::range_of(block));
  }

  void begin(const kernels::Measures& all, std::size_t, const PlaneSpans& planes) const override {
    store(planes[0].data(), all.low);
    store(planes[0].data() + sizeof all.low, all.high);
  }

  void encode_block(std::span<const float> x, std::size_t from, const PlaneSpans& planes,
                    const Keys& keys) const override {
    const float low = load<float>(planes[0].data()), high = load<float>(planes[0].data() + 4);
    pack(planes, from, x.size(), [&](std::uint8_t* codes) {
      if (low == high)
        std::fill_n(codes, x.size(), std::uint8_t{0});
      else
        kernels::to_codes(x, low, high, bits_, rounding_, keys.draws(), keys.first + from, codes);
      return true;
    });
  }

  bool encode_mixed(const kernels::Mixed& block, std::size_t from, const PlaneSpans& planes,
                    const Keys& keys) const override {
    const float low = load<float>(planes[0].data()), high = load<float>(planes[0].data() + 4);
    return low != high && pack(planes, from, block.count, [&](std::uint8_t* codes) {
             return kernels::to_codes_mixed(block, low, high, bits_, rounding_, keys.draws(),
                                            keys.first + from, codes);
           });
  }

  void check(const PlaneViews& planes, std::size_t) const override {
    const float low = load<float>(planes[0].data()), high = load<float>(planes[0].data() + 4);
    if (!std::isfinite(low) || !std::isfinite(high) || low > high)
      throw DataError("a section by 'uniform' lies between " + std::to_string(low) + " and " +
                      std::to_string(high) + "; allowed: finite numbers in order");
  }

  void add(const PlaneViews& planes, std::size_t from, float weight,
           std::span<float> y) const override {
    const float low = load<float>(planes[0].data()), high = load<float>(planes[0].data() + 4);
    unpack_codes(from, y.size(), bits_, planes[1],
                 [&](std::size_t at, std::size_t part, const std::uint8_t* codes) {
                   kernels::add_codes(codes, low, high, bits_, weight, y.subspan(at, part));
                 });
  }

  // The least and the largest entry are exact; any other is off by a variance of at most a quarter
  // of a step squared; |x|^2 is at least half of (high - low)^2.
  Traits traits(std::size_t count) const override {
    const double steps = (1U << bits_) - 1;
    const double others = count > 2 ? static_cast<double>(count - 2) : 0;
    return claims(others / (2 * steps * steps));
  }

 private:
  static kernels::Measures measures_of(const kernels::Range& range) {
    return {.largest = range.finite ? 0 : kernels::kInfinity, .low = range.low, .high = range.high};
  }
};

class AbsMax : public Uniform {
 public:
  using Uniform::Uniform;

  PlaneShapes planes(std::size_t count) const override {
    return {scale_plane(count), {.width = bits_, .count = count}};
  }

  kernels::Measures look(std::span<const float> x, std::size_t, const PlaneSpans&) const override {
    return largest_of(x);
  }
  kernels::Measures look_mixed(const kernels::Mixed& block, std::size_t,
                               const PlaneSpans&) const override {
    return largest_of(block);
  }

  void begin(const kernels::Measures& all, std::size_t, const PlaneSpans& planes) const override {
    store(planes[0].data(), max_norm(all));
  }

  void encode_block(std::span<const float> x, std::size_t from, const PlaneSpans& planes,
                    const Keys& keys) const override {
    const float m = load_scale(planes[0]);
    pack(planes, from, x.size(), [&](std::uint8_t* codes) {
      if (m == 0) {
        std::fill_n(codes, x.size(), static_cast<std::uint8_t>(half()));
      } else if (bits_ == 1) {
        kernels::to_codes(x, -m, m, 1, rounding_, keys.draws(), keys.first + from, codes);
      } else {
        std::int8_t levels[kCodePiece];
        kernels::to_levels(x, scale(m), half(), rounding_, keys.draws(), keys.first + from,
                           {.small = levels});
        to_codes(levels, x.size(), codes);
      }
      return true;
    });
  }

  bool encode_mixed(const kernels::Mixed& block, std::size_t from, const PlaneSpans& planes,
                    const Keys& keys) const override {
    const float m = load_scale(planes[0]);
    return m != 0 && pack(planes, from, block.count, [&](std::uint8_t* codes) {
             if (bits_ == 1)
               return kernels::to_codes_mixed(block, -m, m, 1, rounding_, keys.draws(),
                                              keys.first + from, codes);
             std::int8_t levels[kCodePiece];
             if (!kernels::to_levels_mixed(block, scale(m), half(), rounding_, keys.draws(),
                                           keys.first + from, {.small = levels}))
               return false;
             to_codes(levels, block.count, codes);
             return true;
           });
  }

  void check(const PlaneViews& planes, std::size_t count) const override {
    check_scale(planes[0], "uniform");
    if (bits_ == 1) return;
    std::uint8_t some[kCodePiece];
    for (std::size_t from = 0; from < count; from += kCodePiece) {
      const std::size_t part = std::min(kCodePiece, count - from);
      unpack_piece(planes[1].data() + from / 8 * bits_, part, bits_, some);
      if (const unsigned largest = kernels::largest_byte({some, part}); largest > 2U * half())
        throw DataError("a section by 'uniform' has a code of " + std::to_string(largest) +
                        "; allowed: 0 to " + std::to_string(2 * half()));
    }
  }

  void add(const PlaneViews& planes, std::size_t from, float weight,
           std::span<float> y) const override {
    const float m = load_scale(planes[0]);
    unpack_codes(from, y.size(), bits_, planes[1],
                 [&](std::size_t at, std::size_t part, const std::uint8_t* codes) {
                   const auto some = y.subspan(at, part);
                   if (bits_ == 1) {
                     kernels::add_codes(codes, -m, m, 1, weight, some);
                     return;
                   }
                   std::int8_t levels[kCodePiece];
                   const auto zero = static_cast<std::uint8_t>(half());
                   for (std::size_t i = 0; i < part; ++i)
                     levels[i] = static_cast<std::int8_t>(codes[i] - zero);
                   kernels::add_levels({.small = levels}, kernels::unit_of(scale(m)), weight, some);
                 });
  }

  // The largest entry is exact. Others: at most a quarter of a step squared each; and, because zero
  // is a level, |y| (step - |y|) at random, which sums to step |x|_1 at most, or at most y^2 to the
  // nearest.
  Traits traits(std::size_t count) const override {
    const auto n = static_cast<double>(std::max<std::size_t>(count, 1));
    if (bits_ == 1) return claims(n - 1);
    const double h = half(), quarter = (n - 1) / (4 * h * h);
    if (rounding_ == Rounding::nearest) return claims(std::min(quarter, 1 - 1 / n));
    return claims(std::min(quarter, std::sqrt(n) / h));
  }

 private:
  // Levels from -half to half as codes from 0 on.
  void to_codes(const std::int8_t* levels, std::size_t count, std::uint8_t* codes) const {
    const auto zero = static_cast<std::uint8_t>(half());
    for (std::size_t i = 0; i < count; ++i) codes[i] = static_cast<std::uint8_t>(levels[i] + zero);
  }
  std::int32_t half() const { return bits_ == 1 ? 0 : (1 << (bits_ - 1)) - 1; }
  kernels::Scale scale(float m) const { return {m, static_cast<float>(half())}; }
};

const RegisterStage uniform{{
    .name = "uniform",
    .role = Role::quantiser,
    .summary = "Evenly spaced codes of 1 to 8 bits between the least and the largest entry, or "
               "between -m and m.",
    .paper = "affine quantisation; stochastic rounding as in Alistarh et al. (arXiv 1610.02132)",
    .parameters = {{.name = "bits",
                    .fallback = "8",
                    .min = 1,
                    .max = 8,
                    .whole = true,
                    .help = "bits per entry"},
                   {.name = "range",
                    .fallback = "minmax",
                    .choices = {"minmax", "absmax"},
                    .help = "from least to largest entry, or from -m to m"},
                   {.name = "rounding",
                    .fallback = "stochastic",
                    .choices = {"stochastic", "nearest"},
                    .help = "nearest draws nothing and is biased"}},
    .bits = "64 + bits n; absmax: 32 + bits n",
    .examples = {"uniform", "uniform:1", "uniform:3,nearest", "uniform:4,absmax",
                 "uniform:1,absmax", "uniform:2,absmax,nearest", "uniform:5,absmax+entropy"},
    .make = [](const Args& args) -> Stage {
      const auto bits = static_cast<unsigned>(args.whole("bits"));
      const auto rounding =
          args.text("rounding") == "nearest" ? Rounding::nearest : Rounding::stochastic;
      if (args.text("range") == "absmax") return std::make_shared<AbsMax>(bits, rounding);
      return std::make_shared<MinMax>(bits, rounding);
    },
}};

}  // namespace
}  // namespace laconic

// natural: each entry rounded to a power of two, up or down at random so that the mean is the
// entry. Horvath et al., "Natural Compression for Distributed Deep Learning", definition 1 and
// theorem 3.
//
// Decisions the paper leaves open: a subnormal entry becomes 0 or 2^-126, without bias; entries
// above 2^127 stay at 2^127; -0 becomes 0; NaN and Inf are refused (the frame carries such a slice
// uncompressed).
#include "laconic/kernels/natural.h"

#include "laconic/base/errors.h"
#include "laconic/operators/block_quantiser.h"

namespace laconic {
namespace {

using kernels::kWindow;
using kernels::Rounding;

static_assert(kWindow == kBlock);

// Worst case at mantissa 1/3 (stochastic: variance 1/8) and 1/2 (nearest: relative error 1/3).
Traits natural_traits(Rounding rounding) {
  if (rounding == Rounding::nearest) return {.delta = 8.0 / 9};
  return {.unbiased = true, .random = true, .stratified = true, .omega = 1.0 / 8, .delta = 7.0 / 8};
}

// 9 bits: a plane of exponent bytes and a plane of sign bits.
class Natural9 : public BlockQuantiser {
 public:
  explicit Natural9(Rounding rounding) : rounding_(rounding) {}

  PlaneShapes planes(std::size_t count) const override {
    return {{.width = 8, .count = count}, {.width = 1, .count = count, .only_where = 0}};
  }

  bool encode_block(std::span<const float> x, std::size_t from, const PlaneSpans& planes,
                    const Keys& keys) const override {
    return kernels::natural_encode(x, rounding_, keys.draws(), keys.first + from,
                                   planes[0].data() + from, planes[1].data() + from / 8);
  }

  bool encode_mixed(const kernels::Mixed& block, std::size_t from, const PlaneSpans& planes,
                    const Keys& keys) const override {
    return kernels::natural_encode_mixed(block, rounding_, keys.draws(), keys.first + from,
                                         planes[0].data() + from, planes[1].data() + from / 8) ||
           BlockQuantiser::encode_mixed(block, from, planes, keys);
  }

  // Every byte stands for a finite value: 255 is read as 254.
  void check(const PlaneViews&, std::size_t) const override {}

  void add(const PlaneViews& planes, std::size_t from, float weight,
           std::span<float> y) const override {
    kernels::natural_add(planes[0].data() + from, planes[1].data() + from / 8, weight, y);
  }

  void sum(std::span<const PlaneViews* const> sections, std::size_t from, float weight,
           std::span<float> y) const override {
    kernels::NaturalPlanes planes[kMostSummed];
    for (std::size_t i = 0; i < sections.size(); ++i)
      planes[i] = {(*sections[i])[0].data() + from, (*sections[i])[1].data() + from / 8};
    kernels::natural_sum({planes, sections.size()}, weight, y);
  }

  Traits traits(std::size_t) const override { return natural_traits(rounding_); }

 private:
  Rounding rounding_;
};

// 8 bits: sign and 7 bits of exponent in a window per 4096 entries, whose top is a plane of its
// own.
class Natural8 : public BlockQuantiser {
 public:
  explicit Natural8(Rounding rounding) : rounding_(rounding) {}

  PlaneShapes planes(std::size_t count) const override {
    return {{.width = 8, .count = (count + kWindow - 1) / kWindow}, {.width = 8, .count = count}};
  }

  bool encode_block(std::span<const float> x, std::size_t from, const PlaneSpans& planes,
                    const Keys& keys) const override {
    const unsigned top = kernels::natural_window(x);
    planes[0][from / kWindow] = static_cast<std::uint8_t>(top);
    if (top == 255) return false;
    kernels::natural8_encode(x, rounding_, keys.draws(), keys.first + from, top,
                             planes[1].data() + from);
    return true;
  }

  bool encode_mixed(const kernels::Mixed& block, std::size_t from, const PlaneSpans& planes,
                    const Keys& keys) const override {
    const unsigned top = kernels::natural_window(block.looked_at());
    planes[0][from / kWindow] = static_cast<std::uint8_t>(top);
    if (top == 255) return false;
    return kernels::natural8_encode_mixed(block.ahead(), rounding_, keys.draws(), keys.first + from,
                                          top, planes[1].data() + from) ||
           BlockQuantiser::encode_mixed(block, from, planes, keys);
  }

  void check(const PlaneViews& planes, std::size_t) const override {
    for (const std::uint8_t top : planes[0])
      if (top < 127 || top > 254)
        throw DataError("a section by 'natural:8' has a window top of " + std::to_string(top) +
                        "; allowed: 127 to 254");
  }

  void add(const PlaneViews& planes, std::size_t from, float weight,
           std::span<float> y) const override {
    in_blocks(from, from + y.size(), kWindow,
              [&](std::size_t window, std::size_t begin, std::size_t count) {
                kernels::natural8_add(planes[1].data() + begin, planes[0][window], weight,
                                      y.subspan(begin - from, count));
              });
  }

  // What lies below the window adds less than 2^-200 to the variance: the claim stays 1/8.
  Traits traits(std::size_t) const override { return natural_traits(rounding_); }

 private:
  Rounding rounding_;
};

const RegisterStage natural{{
    .name = "natural",
    .role = Role::quantiser,
    .summary = "Rounds to powers of two, at random without bias; 9 bits, or 8 with a window per "
               "4096 entries.",
    .paper = "Horvath et al., Natural Compression for Distributed Deep Learning (arXiv 1905.10988)",
    .parameters =
        {{.name = "bits", .fallback = "9", .choices = {"8", "9"}, .help = "bits per entry"},
         {.name = "rounding",
          .fallback = "stochastic",
          .choices = {"stochastic", "nearest"},
          .help = "nearest draws nothing and is biased"}},
    .bits = "9 n; 8 bits: 8 n + 8 ceil(n / 4096)",
    .examples = {"natural", "natural:8", "natural:nearest", "natural:8,nearest",
                 "natural:8+entropy"},
    .make = [](const Args& args) -> Stage {
      const auto rounding =
          args.text("rounding") == "nearest" ? Rounding::nearest : Rounding::stochastic;
      if (args.text("bits") == "8") return std::make_shared<Natural8>(rounding);
      return std::make_shared<Natural9>(rounding);
    },
}};

}  // namespace
}  // namespace laconic

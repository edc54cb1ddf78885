// dithering: natural dithering D_nat^{p,s}: entries as norm times 0 or a power of two from 2^(1-s)
// to 1, at random without bias. Horvath et al., Natural Compression, definition 6 and theorem 7.
//
// The norm travels as it is (the paper allows it to be compressed too). Powers of two are found in
// the bits of |x|/norm, not by a logarithm, which rounds the wrong way just below one.
#include <algorithm>

#include "laconic/operators/norms.h"
#include "laconic/operators/sweeps.h"

namespace laconic {
namespace {

class Dithering : public TwoPassQuantiser {
 public:
  explicit Dithering(const Args& args)
      : s_(static_cast<int>(args.whole("levels"))), norm_(args.text("norm")) {}

  PlaneShapes planes(std::size_t count) const override {
    return {scale_plane(count), level_plane(count, s_)};
  }

  kernels::Measures look(std::span<const float> x, std::size_t, const PlaneSpans&) const override {
    return measures_of(x);
  }
  kernels::Measures look_mixed(const kernels::Mixed& block, std::size_t,
                               const PlaneSpans&) const override {
    return measures_of(block);
  }

  void begin(const kernels::Measures& all, std::size_t, const PlaneSpans& planes) const override {
    const float norm = norm_ == "1" ? l1_norm(all) : norm_ == "2" ? l2_norm(all) : max_norm(all);
    store(planes[0].data(), norm);
  }

  void encode_block(std::span<const float> x, std::size_t from, const PlaneSpans& planes,
                    const Keys& keys) const override {
    std::int8_t* levels = levels_of(planes, 1).small + from;
    const float norm = load_scale(planes[0]);
    if (norm == 0)
      std::fill_n(levels, x.size(), std::int8_t{0});
    else
      kernels::to_powers(x, norm, s_, keys.draws(), keys.first + from, levels);
  }

  bool encode_mixed(const kernels::Mixed& block, std::size_t from, const PlaneSpans& planes,
                    const Keys& keys) const override {
    const float norm = load_scale(planes[0]);
    return norm != 0 && kernels::to_powers_mixed(block, norm, s_, keys.draws(), keys.first + from,
                                                 levels_of(planes, 1).small + from);
  }

  void check(const PlaneViews& planes, std::size_t) const override {
    check_scale(planes[0], "dithering");
  }

  void add(const PlaneViews& planes, std::size_t from, float weight,
           std::span<float> y) const override {
    const float norm = load_scale(planes[0]);
    kernels::add_powers(levels_of(planes, 1).small + from, norm, s_, weight, y);
  }

  // Theorem 7: 1/8 + t min(1, t) with t = n^(1/r) 2^(1-s), r = min(p, 2).
  Traits traits(std::size_t count) const override {
    const auto n = static_cast<double>(count);
    const double t = std::ldexp(norm_ == "1" ? n : std::sqrt(n), 1 - s_);
    const double omega = 0.125 + t * std::min(1.0, t);
    return {.unbiased = true,
            .random = true,
            .stratified = true,
            .omega = omega,
            .delta = omega < 1 ? std::optional(1 - omega) : std::nullopt};
  }

 private:
  template <class Entries>
  kernels::Measures measures_of(const Entries& x) const {
    return norm_ == "inf" ? largest_of(x) : norm_ == "1" ? magnitudes_of(x) : squares_of(x);
  }

  int s_;
  std::string norm_;
};

const RegisterStage dithering{{
    .name = "dithering",
    .role = Role::quantiser,
    .summary = "Rounds to norm times powers of two from 2^(1-levels) to 1, at random without bias.",
    .paper = "Horvath et al., Natural Compression (arXiv 1905.10988), definition 6, theorem 7",
    .parameters = {{.name = "levels",
                    .fallback = "",
                    .min = 1,
                    .max = 127,
                    .whole = true,
                    .help = "levels between 0 and the norm, halving"},
                   {.name = "norm",
                    .fallback = "2",
                    .choices = {"1", "2", "inf"},
                    .help = "p of the p-norm"}},
    .bits = "32 + levels with s = levels",
    .examples = {"dithering:8", "dithering:1", "dithering:4,1", "dithering:3,inf",
                 "dithering:7+entropy"},
    .make = [](const Args& args) -> Stage { return std::make_shared<Dithering>(args); },
}};

}  // namespace
}  // namespace laconic

// qsgd: entries as whole multiples of norm / levels, rounded at random without bias. Alistarh et
// al., QSGD, section 3.1; D_sta^{p,s} of Natural Compression, definition 6.
//
// The paper analyses the 2-norm of the whole tensor and runs the largest magnitude in buckets:
// "bucket:512+qsgd:4,max". Dutta et al. write 256 levels and run 255; here the number is a
// parameter.
#include <algorithm>

#include "laconic/operators/dithering_base.h"

namespace laconic {
namespace {

class Qsgd : public LinearDithering {
 public:
  explicit Qsgd(const Args& args)
      : LinearDithering(static_cast<std::int32_t>(args.whole("levels"))),
        levels_(args.number("levels")),
        max_(args.text("norm") == "max") {}

  // Lemma 3.1: min(n/s^2, sqrt(n)/s), for the 2-norm and so for the smaller largest magnitude.
  Traits traits(std::size_t count) const override {
    const auto n = static_cast<double>(count);
    const double omega = std::min(n / (levels_ * levels_), std::sqrt(n) / levels_);
    return {.unbiased = true,
            .random = true,
            .stratified = true,
            .omega = omega,
            .delta = omega < 1 ? std::optional(1 - omega) : std::nullopt};
  }

  kernels::Measures look(std::span<const float> x, std::size_t, const PlaneSpans&) const override {
    return max_ ? largest_of(x) : squares_of(x);
  }
  kernels::Measures look_mixed(const kernels::Mixed& block, std::size_t,
                               const PlaneSpans&) const override {
    return max_ ? largest_of(block) : squares_of(block);
  }

 protected:
  float norm_of(const kernels::Measures& all, std::size_t) const override {
    return max_ ? max_norm(all) : l2_norm(all);
  }
  const char* name() const override { return "qsgd"; }

 private:
  double levels_;
  bool max_;
};

const RegisterStage qsgd{{
    .name = "qsgd",
    .role = Role::quantiser,
    .summary = "Rounds to multiples of norm/levels, at random without bias (linear dithering).",
    .paper = "Alistarh et al., QSGD (arXiv 1610.02132)",
    .parameters = {{.name = "levels",
                    .fallback = "",
                    .min = 1,
                    .max = 32767,
                    .whole = true,
                    .help = "levels between 0 and the norm"},
                   {.name = "norm",
                    .fallback = "2",
                    .choices = {"2", "max"},
                    .help = "2-norm, or largest magnitude"}},
    .bits = "32 + levels with s = levels",
    .examples = {"qsgd:4", "qsgd:1", "qsgd:127,max", "qsgd:1000,max"},
    .make = [](const Args& args) -> Stage { return std::make_shared<Qsgd>(args); },
}};

}  // namespace
}  // namespace laconic

// terngrad: each entry as -m, 0 or m with m the largest magnitude, at random without bias. Wen et
// al., TernGrad; D_sta^{inf,1} of Natural Compression.
//
// Clipping at so many standard deviations is the paper's option (it takes 2.5), and biased. Here it
// is off unless asked for.
#include <algorithm>

#include "laconic/operators/clipping.h"
#include "laconic/operators/dithering_base.h"

namespace laconic {
namespace {

class TernGrad : public LinearDithering {
 public:
  explicit TernGrad(const Args& args) : LinearDithering(1), clip_(args.number("clip")) {}

  // (sqrt(n) - 1) / 2, attained at one entry of 1 and the rest 1 / (1 + sqrt(n)).
  Traits traits(std::size_t count) const override {
    if (clip_ > 0) return {.random = true, .stratified = true};
    const double omega = count == 0 ? 0 : (std::sqrt(static_cast<double>(count)) - 1) / 2;
    return {.unbiased = true,
            .random = true,
            .stratified = true,
            .omega = omega,
            .delta = omega < 1 ? std::optional(1 - omega) : std::nullopt};
  }

  kernels::Measures look(std::span<const float> x, std::size_t, const PlaneSpans&) const override {
    return clip_ == 0 ? largest_of(x) : kernels::moments_of(x);
  }
  kernels::Measures look_mixed(const kernels::Mixed& block, std::size_t,
                               const PlaneSpans&) const override {
    return clip_ == 0 ? largest_of(block) : kernels::moments_of(block);
  }

 protected:
  float norm_of(const kernels::Measures& all, std::size_t count) const override {
    return clip_ == 0 ? max_norm(all) : clipped_norm(all, count, clip_);
  }
  const char* name() const override { return "terngrad"; }

 private:
  double clip_;
};

const RegisterStage terngrad{{
    .name = "terngrad",
    .role = Role::quantiser,
    .summary = "Each entry as -m, 0 or m with m the largest magnitude, at random without bias.",
    .paper = "Wen et al., TernGrad (arXiv 1705.07878)",
    .parameters = {{.name = "clip",
                    .fallback = "0",
                    .min = 0,
                    .max = 1000,
                    .help = "clips at so many standard deviations, which is biased; 0: never"}},
    .bits = "32 + levels with s = 1: at most 8 + 8 ceil(n / 5)",
    .examples = {"terngrad", "terngrad:2.5"},
    .make = [](const Args& args) -> Stage { return std::make_shared<TernGrad>(args); },
}};

}  // namespace
}  // namespace laconic

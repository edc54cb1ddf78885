// sign: one bit per entry and the mean magnitude. Karimireddy et al., EF-signSGD.
//
// C(x) = (|x|_1 / n) sign(x), and |x - C(x)|^2 = |x|^2 - |x|_1^2 / n for every x: a bit cannot say
// zero, so zeros count as positive and arrive as the mean.
#include <algorithm>

#include "laconic/kernels/signs.h"
#include "laconic/operators/made.h"
#include "laconic/operators/norms.h"
#include "laconic/operators/sweeps.h"

namespace laconic {
namespace {

class Sign : public TwoPassQuantiser {
 public:
  PlaneShapes planes(std::size_t count) const override {
    return {scale_plane(count), {.width = 1, .count = count}};
  }

  // Signs need not wait for the scale.
  kernels::Measures look(std::span<const float> x, std::size_t from,
                         const PlaneSpans& planes) const override {
    kernels::pack_signs(x, planes[1].data() + from / 8);
    return magnitudes_of(x);
  }
  void begin(const kernels::Measures& all, std::size_t count,
             const PlaneSpans& planes) const override {
    store(planes[0].data(), to_norm(all.magnitudes / static_cast<double>(count)));
  }
  void encode_block(std::span<const float>, std::size_t, const PlaneSpans&,
                    const Keys&) const override {}
  kernels::Measures look_mixed(const kernels::Mixed& block, std::size_t,
                               const PlaneSpans&) const override {
    return magnitudes_of(block);
  }
  bool encode_mixed(const kernels::Mixed& block, std::size_t from, const PlaneSpans& planes,
                    const Keys&) const override {
    kernels::pack_and_leave_signs(block, load_scale(planes[0]), planes[1].data() + from / 8);
    return true;
  }

  void check(const PlaneViews& planes, std::size_t) const override {
    check_scale(planes[0], "sign");
  }

  void add(const PlaneViews& planes, std::size_t from, float weight,
           std::span<float> y) const override {
    kernels::add_signs(planes[1].data() + from / 8, load_scale(planes[0]), weight, y);
  }

  // |x|_1^2 >= |x|_2^2, so delta = |x|_1^2 / (n |x|_2^2) is at least 1/n: a spike has that. Entries
  // like a bell curve have 2/pi.
  Traits traits(std::size_t count) const override {
    return {.delta = 1 / static_cast<double>(std::max<std::size_t>(count, 1))};
  }
};

const RegisterStage sign{{
    .name = "sign",
    .role = Role::quantiser,
    .summary = "One bit per entry and the mean magnitude; made for feedback.",
    .paper = "Karimireddy et al., Error Feedback Fixes SignSGD (arXiv 1901.09847)",
    .parameters = {},
    .bits = "32 + n",
    .examples = {"sign", "topk:0.05+sign"},
    .make = [](const Args&) -> Stage { return make_sign(); },
}};

}  // namespace

std::shared_ptr<const Quantiser> make_sign() { return std::make_shared<Sign>(); }

}  // namespace laconic

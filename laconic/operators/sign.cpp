// sign: one bit per entry and the mean magnitude. Karimireddy et al., EF-signSGD.
//
// C(x) = (|x|_1 / n) sign(x), and |x - C(x)|^2 = |x|^2 - |x|_1^2 / n for every x: a bit cannot say
// zero, so zeros count as positive and arrive as the mean.
#include <algorithm>
#include <bit>

#include "laconic/operators/made.h"
#include "laconic/operators/norms.h"

namespace laconic {
namespace {

class Sign : public Quantiser {
 public:
  PlaneShapes planes(std::size_t count) const override {
    return {scale_plane(count), {.width = 1, .count = count}};
  }

  bool encode(std::span<const float> x, const PlaneSpans& planes, const Keys&,
              StageScratch& scratch) const override {
    if (!kernels::all_finite(x)) return false;
    if (x.empty()) return true;
    const double mean = kernels::sum_of_magnitudes(x) / static_cast<double>(x.size());
    store(planes[0].data(), to_norm(mean));
    in_pieces(x.size(), scratch, [&](std::size_t from, std::size_t count) {
      std::uint8_t* to = planes[1].data() + from / 8;
      for (std::size_t i = from; i < from + count; i += 8) *to++ = signs(x, i);
    });
    return true;
  }

  void check(const PlaneViews& planes, std::size_t) const override {
    check_scale(planes[0], "sign");
  }

  void add(const PlaneViews& planes, std::size_t from, float weight,
           std::span<float> y) const override {
    const float scale = load_scale(planes[0]);
    const auto bits = std::bit_cast<std::uint32_t>(scale);
    const std::uint8_t* signs = planes[1].data() + from / 8;
    for (std::size_t i = 0; i < y.size(); ++i) {
      const std::uint32_t sign = signs[i / 8] >> (i % 8) & 1U;
      y[i] += weight * std::bit_cast<float>(bits | sign << 31);
    }
  }

  // |x|_1^2 >= |x|_2^2, so delta = |x|_1^2 / (n |x|_2^2) is at least 1/n: a spike has that. Entries
  // like a bell curve have 2/pi.
  Traits traits(std::size_t count) const override {
    return {.delta = 1 / static_cast<double>(std::max<std::size_t>(count, 1))};
  }

 private:
  // The signs of entries i to i + 7, as far as there are. -0 is a zero.
  static std::uint8_t signs(std::span<const float> x, std::size_t i) {
    std::uint32_t byte = 0;
    const std::size_t end = std::min<std::size_t>(8, x.size() - i);
    for (std::size_t j = 0; j < end; ++j) byte |= static_cast<std::uint32_t>(x[i + j] < 0) << j;
    return static_cast<std::uint8_t>(byte);
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

// identity: the floats as they are, 32 bits each. The baseline, and what a chain without a
// quantiser ends in.
#include <algorithm>

#include "laconic/base/errors.h"
#include "laconic/kernels/float_bytes.h"
#include "laconic/kernels/reduce.h"
#include "laconic/operators/block_quantiser.h"

namespace laconic {
namespace {

class Identity : public BlockQuantiser {
 public:
  PlaneShapes planes(std::size_t count) const override { return {{.width = 32, .count = count}}; }

  bool encode_block(std::span<const float> x, std::size_t from, const PlaneSpans& planes,
                    const Keys&) const override {
    std::memcpy(planes[0].data() + from * sizeof(float), x.data(), x.size_bytes());
    return kernels::all_finite(x);
  }

  void check(const PlaneViews& planes, std::size_t) const override {
    if (!kernels::finite_floats(planes[0]))
      throw DataError("a section by 'identity' holds NaN or Inf without being marked so");
  }

  void add(const PlaneViews& planes, std::size_t from, float weight,
           std::span<float> y) const override {
    kernels::add_floats(planes[0].data() + from * sizeof(float), weight, y);
  }

  Traits traits(std::size_t) const override {
    return {.unbiased = true, .omega = 0.0, .delta = 1.0};
  }
};

const RegisterStage identity{{
    .name = "identity",
    .role = Role::quantiser,
    .summary = "The floats as they are, 32 bits each.",
    .paper = "the uncompressed baseline",
    .parameters = {},
    .bits = "32 n",
    .examples = {"identity"},
    .make = [](const Args&) -> Stage { return std::make_shared<Identity>(); },
}};

}  // namespace
}  // namespace laconic

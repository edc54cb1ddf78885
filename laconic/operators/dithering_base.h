// Quantisers whose levels are evenly spaced: a norm, and how many levels make it.
#pragma once

#include "laconic/operators/norms.h"
#include "laconic/operators/sweeps.h"

namespace laconic {

// Linear dithering of the entries by a norm (QSGD, TernGrad). A kind says which norm, what
// it looks at for it, and what it promises.
class LinearDithering : public TwoPassQuantiser {
 public:
  explicit LinearDithering(std::int32_t steps) : steps_(steps) {}

  PlaneShapes planes(std::size_t count) const override {
    return {scale_plane(count), level_plane(count, steps_), wide_plane(count, steps_)};
  }

  void begin(const kernels::Measures& all, std::size_t count,
             const PlaneSpans& planes) const override {
    store(planes[0].data(), norm_of(all, count));
  }

  void encode_block(std::span<const float> x, std::size_t from, const PlaneSpans& planes,
                    const Keys& keys) const override {
    const kernels::LevelSpan levels = levels_of(planes, 1).from(from);
    const float norm = load_scale(planes[0]);
    if (norm == 0)
      std::fill_n(levels.small, x.size(), std::int8_t{0});
    else
      kernels::to_levels(x, scale(norm), steps_, kernels::Rounding::stochastic, keys.draws(),
                         keys.first + from, levels);
  }

  bool encode_mixed(const kernels::Mixed& block, std::size_t from, const PlaneSpans& planes,
                    const Keys& keys) const override {
    const float norm = load_scale(planes[0]);
    return norm != 0 && kernels::to_levels_mixed(
                            block, scale(norm), steps_, kernels::Rounding::stochastic, keys.draws(),
                            keys.first + from, levels_of(planes, 1).from(from));
  }

  void check(const PlaneViews& planes, std::size_t) const override {
    check_scale(planes[0], name());
  }

  void add(const PlaneViews& planes, std::size_t from, float weight,
           std::span<float> y) const override {
    const float norm = load_scale(planes[0]);
    kernels::add_levels(levels_of(planes, 1).from(from), kernels::unit_of(scale(norm)), weight, y);
  }

 protected:
  virtual float norm_of(const kernels::Measures& all, std::size_t count) const = 0;
  virtual const char* name() const = 0;

 private:
  kernels::Scale scale(float norm) const { return {norm, static_cast<float>(steps_)}; }

  std::int32_t steps_;
};

}  // namespace laconic

// Quantisers whose levels are evenly spaced: a norm, and how many levels make it.
#pragma once

#include "laconic/operators/norms.h"

namespace laconic {

// Linear dithering of the entries by a norm (QSGD, TernGrad). A kind says which norm and what it
// promises.
class LinearDithering : public Quantiser {
 public:
  explicit LinearDithering(std::int32_t steps) : steps_(steps) {}

  PlaneShapes planes(std::size_t count) const override {
    return {scale_plane(count), level_plane(count, steps_), wide_plane(count, steps_)};
  }

  bool encode(std::span<const float> x, const PlaneSpans& planes, const Keys& keys,
              StageScratch& scratch) const override {
    if (x.empty()) return true;
    const float norm = norm_of(x, scratch);
    if (!std::isfinite(norm)) return false;
    store(planes[0].data(), norm);
    const kernels::LevelSpan levels = levels_of(planes, 1);
    if (norm == 0) {
      std::fill_n(levels.small, x.size(), std::int8_t{0});
      return true;
    }
    in_pieces(x.size(), scratch, [&](std::size_t from, std::size_t count) {
      kernels::to_levels(x.subspan(from, count), scale(norm), steps_, kernels::Rounding::stochastic,
                         keys.own, keys.first + from, levels.from(from));
    });
    return true;
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
  // NaN or Inf when x holds any.
  virtual float norm_of(std::span<const float> x, StageScratch& scratch) const = 0;
  virtual const char* name() const = 0;

 private:
  kernels::Scale scale(float norm) const { return {norm, static_cast<float>(steps_)}; }

  std::int32_t steps_;
};

}  // namespace laconic

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
    return {scale_plane(count), level_plane(count, steps_)};
  }

  bool encode(std::span<const float> x, const PlaneSpans& planes, const Keys& keys,
              StageScratch& scratch) const override {
    if (!kernels::all_finite(x)) return false;
    if (x.empty()) return true;
    const float norm = norm_of(x);
    store(planes[0].data(), norm);
    std::int32_t* levels = levels_of(planes[1]);
    in_pieces(x.size(), scratch, [&](std::size_t from, std::size_t count) {
      if (norm == 0)
        std::fill_n(levels + from, count, 0);
      else
        kernels::to_levels(x.subspan(from, count), scale(norm), steps_,
                           kernels::Rounding::stochastic, keys.own, keys.first + from,
                           levels + from);
    });
    return true;
  }

  void check(const PlaneViews& planes, std::size_t) const override {
    check_scale(planes[0], name());
  }

  void add(const PlaneViews& planes, std::size_t from, float weight,
           std::span<float> y) const override {
    const float norm = load_scale(planes[0]);
    kernels::add_levels(levels_of(planes[1]).data() + from, scale(norm), weight, y);
  }

 protected:
  virtual float norm_of(std::span<const float> x) const = 0;
  virtual const char* name() const = 0;

 private:
  kernels::Scale scale(float norm) const { return {norm, static_cast<float>(steps_)}; }

  std::int32_t steps_;
};

}  // namespace laconic

// grid: entries as whole multiples of one step, rounded at random without bias, with the largest
// step whose exact variance is omega |x|^2. Natural compression's guarantee (omega = 1/8) in about
// two bits per entry instead of nine.
//
// The variance of rounding to multiples of D is D^2 sum f(1 - f) with f the fraction of |x_i| / D:
// known exactly, so the promise is checked on the entries themselves before anything is sent, not
// derived from a worst case. Every theorem that asks for an unbiased operator with this omega
// holds.
//
// Subnormal steps are raised to the least normal float; there the variance bound does not hold.
#include <algorithm>

#include "laconic/operators/norms.h"

namespace laconic {
namespace {

constexpr std::int32_t kMostLevel = std::numeric_limits<std::int32_t>::max();
constexpr std::size_t kSample = 16384;  // entries that suggest a step
constexpr int kTrials = 8;              // exact checks of a suggested step
constexpr double kGoodEnough = 0.97;    // of the variance allowed

// The largest step found whose variance is within the target. Only + - * / and square roots decide,
// so every machine finds the same.
class StepSearch {
 public:
  StepSearch(std::span<const float> x, double omega)
      : x_(x),
        squares_(kernels::sum_of_squares(x)),
        target_(omega * squares_ * (1 - 1e-6)) {}  // less the rounding of fractions in float

  float find(StageScratch& scratch) {
    // Above the largest entry the variance is D |x|_1 - |x|^2: solved at once.
    const double beyond = (squares_ + target_) / kernels::sum_of_magnitudes(x_);
    if (beyond >= static_cast<double>(max_norm(x_))) return usable(beyond);
    // Any fraction's f(1 - f) is at most 1/4: this step is always within the target.
    low_ = std::sqrt(4 * target_ / static_cast<double>(x_.size()));
    high_ = beyond;
    double step = suggested(scratch);
    for (int trial = 0; trial < kTrials; ++trial) {
      const float candidate = usable(step);
      const double variance = variance_at(x_, candidate);
      if (variance > target_)
        high_ = std::min(high_, step);
      else if (step > low_)
        low_ = step;
      if (variance <= target_ && variance >= kGoodEnough * target_) break;
      step *= std::clamp(std::sqrt(target_ / variance) * 0.995, 0.25, 4.0);
      if (step <= low_ || step >= high_) step = (low_ + high_) / 2;
    }
    return usable(low_);
  }

 private:
  static float usable(double step) {
    return std::max(std::nextafter(static_cast<float>(step), 0.0F),
                    std::numeric_limits<float>::min());
  }

  static double variance_at(std::span<const float> x, float step) {
    return kernels::spread(x, step) * static_cast<double>(step) * static_cast<double>(step);
  }

  // Bisection on evenly spaced entries.
  double suggested(StageScratch& scratch) const {
    auto sample = x_;
    const std::size_t stride = (x_.size() + kSample - 1) / kSample;
    if (stride > 1) {
      const auto some = scratch.sample.reset(x_.size() / stride);
      for (std::size_t i = 0; i < some.size(); ++i) some[i] = x_[i * stride];
      sample = some;
    }
    const double share = static_cast<double>(sample.size()) / static_cast<double>(x_.size());
    double low = low_, high = high_;
    for (int i = 0; i < 20; ++i) {
      const double middle = (low + high) / 2;
      (variance_at(sample, usable(middle)) > target_ * share * 0.99 ? high : low) = middle;
    }
    return low;
  }

  std::span<const float> x_;
  double squares_, target_;
  double low_ = 0, high_ = 0;  // within the target; perhaps beyond it
};

class Grid : public Quantiser {
 public:
  explicit Grid(const Args& args) : omega_(args.number("omega")) {}

  PlaneShapes planes(std::size_t count) const override {
    return {scale_plane(count), level_plane(count, kMostLevel)};
  }

  bool encode(std::span<const float> x, const PlaneSpans& planes, const Keys& keys,
              StageScratch& scratch) const override {
    if (!kernels::all_finite(x)) return false;
    if (x.empty()) return true;
    std::int32_t* levels = levels_of(planes[1]);
    if (kernels::sum_of_squares(x) == 0) {
      store(planes[0].data(), 0.0F);
      std::fill_n(levels, x.size(), 0);
      return true;
    }
    const float step = StepSearch(x, omega_).find(scratch);
    store(planes[0].data(), step);
    const std::int32_t most = most_at(step);
    in_pieces(x.size(), scratch, [&](std::size_t from, std::size_t count) {
      kernels::to_levels(x.subspan(from, count), {step, 1}, most, kernels::Rounding::stochastic,
                         keys.own, keys.first + from, levels + from);
    });
    return true;
  }

  void check(const PlaneViews& planes, std::size_t) const override {
    check_scale(planes[0], "grid");
    std::int64_t largest = 0;
    for (const std::int32_t level : levels_of(planes[1]))
      largest = std::max(largest, std::abs(static_cast<std::int64_t>(level)));
    if (!std::isfinite(static_cast<float>(largest) * load_scale(planes[0])))
      throw DataError("a section by 'grid' has a level of " + std::to_string(largest) +
                      ", which is not a finite number of steps");
  }

  void add(const PlaneViews& planes, std::size_t from, float weight,
           std::span<float> y) const override {
    const float step = load_scale(planes[0]);
    kernels::add_levels(levels_of(planes[1]).data() + from, {step, 1}, weight, y);
  }

  Traits traits(std::size_t) const override {
    return {.unbiased = true,
            .random = true,
            .omega = omega_,
            .delta = omega_ < 1 ? std::optional(1 - omega_) : std::nullopt};
  }

 private:
  // As many steps as surely make a finite float.
  static std::int32_t most_at(float step) {
    const double most = 0.999999 * static_cast<double>(std::numeric_limits<float>::max()) / step;
    return most < 0x1p30 ? static_cast<std::int32_t>(most) : 1 << 30;
  }

  double omega_;
};

const RegisterStage grid{{
    .name = "grid",
    .role = Role::quantiser,
    .summary = "Rounds to multiples of the largest step whose exact variance is omega |x|^2.",
    .paper = "Laconic's own: stochastic rounding with a certified variance",
    .parameters = {{.name = "omega",
                    .fallback = "0.125",
                    .min = 0.001,
                    .max = 16,
                    .help = "variance allowed, as a share of |x|^2"}},
    .bits = "32 + levels, of which most are 0 and 1: about 2 n at omega = 1/8",
    .examples = {"grid", "grid:0.01", "grid:2"},
    .make = [](const Args& args) -> Stage { return std::make_shared<Grid>(args); },
}};

}  // namespace
}  // namespace laconic

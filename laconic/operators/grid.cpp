// grid: entries as whole multiples of one step, rounded at random without bias, with the largest
// step found whose exact variance is <= omega |x|^2. Natural compression's guarantee (omega = 1/8)
// in 2.4 bits per entry of a bell curve and about one of LeNet-5's gradients, many of which are
// zeros, instead of nine.
//
// The variance of rounding to multiples of D is D^2 sum f(1 - f) with f the fraction of |x_i| / D:
// known exactly, so the promise is checked on the entries themselves before anything is sent, not
// derived from a worst case. Every theorem that asks for an unbiased operator with this omega
// holds.
//
// Subnormal steps are raised to the least normal float; there the variance bound does not hold.
#include <algorithm>

#include "laconic/operators/blocks.h"
#include "laconic/operators/norms.h"

namespace laconic {
namespace {

constexpr std::int32_t kMostLevel = std::numeric_limits<std::int32_t>::max();
constexpr std::size_t kSample = 16384;  // entries that suggest a step
constexpr int kTrials = 6;              // of steps that are measured on all entries
constexpr double kAimed = 0.98;         // of the variance allowed, for the suggested step
constexpr double kGoodEnough = 0.9;     // of it, to take a step as it is

// Finds a step near the largest whose variance is within the target. `variance_of` quantises all
// entries with a step and tells the variance of that. Only + - * / and square roots decide, so
// every machine finds the same.
class StepSearch {
 public:
  StepSearch(std::span<const float> x, const kernels::Measures& all, double omega)
      : x_(x),
        all_(all),
        target_(omega * all.squares * (1 - 2e-5)) {}  // less the rounding of sums in float

  // Returns the step that the entries were last quantised with.
  template <class Quantise>
  float find(StageScratch& scratch, Quantise variance_of) {
    // Above the largest entry the variance is D |x|_1 - |x|^2: solved at once.
    const double beyond = (all_.squares + target_ * (1 + 1.8e-5)) / all_.magnitudes;
    if (beyond >= static_cast<double>(std::bit_cast<float>(all_.largest)))
      return quantised(beyond, variance_of);
    // Any fraction's f(1 - f) is at most 1/4: this step is always within the target.
    low_ = std::sqrt(4 * target_ / static_cast<double>(x_.size()));
    high_ = beyond;
    double step = suggested(scratch);
    for (int trial = 0; trial < kTrials; ++trial) {
      const float candidate = usable(step);
      const double variance = variance_of(candidate);
      const bool within = variance <= target_;
      if (within && (variance >= kGoodEnough * target_ || step <= low_)) return candidate;
      if (!within && candidate == std::numeric_limits<float>::min()) return candidate;
      if (!within)
        high_ = std::min(high_, step);
      else
        low_ = std::max(low_, step);
      step *= std::clamp(std::sqrt(target_ / variance) * 0.99, 0.25, 4.0);
      if (step <= low_ || step >= high_) step = (low_ + high_) / 2;
    }
    return quantised(low_, variance_of);
  }

 private:
  template <class Quantise>
  static float quantised(double step, Quantise variance_of) {
    const float candidate = usable(step);
    variance_of(candidate);
    return candidate;
  }

  static float usable(double step) {
    return std::max(std::nextafter(static_cast<float>(step), 0.0F),
                    std::numeric_limits<float>::min());
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
      const double step = static_cast<double>(usable(middle));
      const double variance = kernels::spread(sample, usable(middle)) * step * step;
      (variance > target_ * share * kAimed ? high : low) = middle;
    }
    return low;
  }

  std::span<const float> x_;
  const kernels::Measures& all_;
  double target_;
  double low_ = 0, high_ = 0;  // within the target; perhaps beyond it
};

kernels::Measures measure(std::span<const float> x, StageScratch& scratch) {
  const auto blocks = scratch.measures.reset((x.size() + kBlock - 1) / kBlock);
  each_block(x.size(), scratch.pool, [&](std::size_t from, std::size_t count) {
    blocks[from / kBlock] = kernels::measure_block(x.subspan(from, count));
  });
  kernels::Measures all;
  for (const kernels::Measures& block : blocks) all.join(block);
  return all;
}

class Grid : public Quantiser {
 public:
  explicit Grid(const Args& args) : omega_(args.number("omega")) {}

  PlaneShapes planes(std::size_t count) const override {
    return {scale_plane(count), level_plane(count, kMostLevel), wide_plane(count, kMostLevel)};
  }

  bool encode(std::span<const float> x, const PlaneSpans& planes, const Keys& keys,
              StageScratch& scratch) const override {
    if (x.empty()) return true;
    const kernels::Measures all = measure(x, scratch);
    if (all.largest >= kernels::kInfinity) return false;
    const kernels::LevelSpan levels = levels_of(planes, 1);
    if (all.squares == 0) {
      store(planes[0].data(), 0.0F);
      std::fill_n(levels.small, x.size(), std::int8_t{0});
      return true;
    }
    const auto variance_of = [&](float step) {
      const auto sums = scratch.measures.reset((x.size() + kBlock - 1) / kBlock);
      const std::int32_t most = most_at(step);
      each_block(x.size(), scratch.pool, [&](std::size_t from, std::size_t count) {
        sums[from / kBlock].squares =
            kernels::to_levels_and_spread(x.subspan(from, count), {step, 1}, most, keys.own,
                                          keys.first + from, levels.from(from));
      });
      double sum = 0;
      for (const kernels::Measures& block : sums) sum += block.squares;
      return sum * static_cast<double>(step) * static_cast<double>(step);
    };
    store(planes[0].data(), StepSearch(x, all, omega_).find(scratch, variance_of));
    return true;
  }

  void check(const PlaneViews& planes, std::size_t count) const override {
    check_scale(planes[0], "grid");
    const std::uint32_t largest = kernels::largest_level(levels_of(planes, 1), count);
    if (!std::isfinite(static_cast<float>(largest) * load_scale(planes[0])))
      throw DataError("a section by 'grid' has a level of " + std::to_string(largest) +
                      ", which is not a finite number of steps");
  }

  void add(const PlaneViews& planes, std::size_t from, float weight,
           std::span<float> y) const override {
    const kernels::Unit unit{load_scale(planes[0]), std::numeric_limits<float>::max()};
    kernels::add_levels(levels_of(planes, 1).from(from), unit, weight, y);
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

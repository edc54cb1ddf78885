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
#include <optional>

#include "laconic/operators/grid_contexts.h"
#include "laconic/operators/norms.h"
#include "laconic/operators/rounding_variance.h"
#include "laconic/operators/sweeps.h"

namespace laconic {
namespace {

constexpr std::int32_t kMostLevel = std::numeric_limits<std::int32_t>::max();
constexpr std::size_t kSample = 65536,
                      kStretch = 32;  // entries that suggest a step, so many a time
constexpr int kTrials = 6;            // of steps that are measured on all entries
constexpr double kAimed = 0.98;       // of the variance allowed, for the suggested step
constexpr double kGoodEnough = 0.9;   // of it, to take a step as it is
constexpr double kSlack = 2e-5;       // of it: the rounding of a sum in float

float usable(double step) {
  return std::max(std::nextafter(static_cast<float>(step), 0.0F),
                  std::numeric_limits<float>::min());
}

// A step, and the sums of all entries with it.
struct Trial {
  float step = 0;
  kernels::Spreads sums = {};

  double variance() const { return sums.variance * static_cast<double>(step) * step; }
  // Whether the variance is within that allowed, and not far below it.
  bool certified(double omega) const {
    const double most = omega * (1 - 2 * kSlack) * sums.squares;
    return std::isfinite(sums.squares) && sums.variance <= most &&
           sums.variance >= kGoodEnough * most;
  }
};

// Finds a step near the largest whose variance is within the target. Only + - * / and square roots
// decide, so every machine finds the same.
class StepSearch {
 public:
  // `all` is of all entries, `count` of them, and not zero; `sample` has all of them or some.
  StepSearch(std::span<const float> sample, std::size_t count, const kernels::Measures& all,
             double omega)
      : sample_(sample),
        share_(static_cast<double>(sample.size()) / static_cast<double>(count)),
        target_(omega * all.squares * (1 - kSlack)),
        magnitudes_(all.magnitudes),
        // Above the largest entry the variance is D |x|_1 - |x|^2: solved at once.
        beyond_((all.squares + target_ * (1 + 0.9 * kSlack)) / all.magnitudes),
        solved_(beyond_ >= static_cast<double>(std::bit_cast<float>(all.largest))),
        // Any fraction's f(1 - f) is at most 1/4: this step is always within the target.
        low_(std::sqrt(4 * target_ / static_cast<double>(count))),
        high_(beyond_) {}

  // By bisection on the sample: on a quarter of it first.
  double suggested() const {
    if (solved_) return beyond_ - (1 - kAimed) * target_ / magnitudes_;
    double low = low_, high = high_;
    const auto halve = [&](RoundingVariance& variance, int times) {
      for (int i = 0; i < times; ++i) {
        const double middle = (low + high) / 2;
        (variance.exceeds(usable(middle)) ? high : low) = middle;
      }
    };
    const bool is_large = sample_.size() >= 4 * 4096;
    const double guess = std::sqrt(1.5) * low_;  // f(1 - f) is 1/6 on average, 1/4 at most
    RoundingVariance all(sample_, target_ * share_ * kAimed);
    if (is_large) {
      RoundingVariance few(sample_.first(sample_.size() / 4), target_ * (share_ / 4) * kAimed);
      few.look(guess);
      halve(few, 8);
      const double width = high - low, middle = low;
      low = std::max(low_, middle - width);
      high = std::min(high_, middle + 2 * width);
      all.look(few.crossing());
    } else {
      all.look(guess);
    }
    halve(all, is_large ? 8 : 20);
    return low;
  }

  // Returns the step that the entries were last quantised with: quantise(step) does so and tells
  // the trial. `before` is one that was not taken.
  template <class Quantise>
  float find(std::optional<Trial> before, Quantise quantise) {
    if (solved_) return quantise(usable(beyond_)).step;
    double step = before ? next(before->step, before->variance()) : suggested();
    for (int number = 0; number < kTrials; ++number) {
      const Trial trial = quantise(usable(step));
      if (taken(step, trial)) return trial.step;
      step = next(step, trial.variance());
    }
    return quantise(usable(low_)).step;
  }

 private:
  bool taken(double step, const Trial& trial) const {
    const double variance = trial.variance();
    if (variance > target_) return trial.step == std::numeric_limits<float>::min();
    return variance >= kGoodEnough * target_ || step <= low_;
  }

  double next(double step, double variance) {
    if (variance > target_)
      high_ = std::min(high_, step);
    else
      low_ = std::max(low_, step);
    step *= std::clamp(std::sqrt(target_ / variance) * 0.99, 0.25, 4.0);
    return step > low_ && step < high_ ? step : (low_ + high_) / 2;
  }

  std::span<const float> sample_;
  double share_, target_, magnitudes_, beyond_;
  bool solved_;
  double low_, high_;  // within the target; perhaps beyond it
};

// What is known of a sample of at most kSample entries.
kernels::Measures measure(std::span<const float> x) {
  kernels::Measures all;
  for (std::size_t from = 0; from < x.size(); from += kBlock)
    all.join(kernels::measure_block(x.subspan(from, std::min(kBlock, x.size() - from))));
  return all;
}

kernels::Measures measure(const Sweeps& sweeps, StageScratch& scratch) {
  const auto blocks = scratch.measures.reset((sweeps.size() + kBlock - 1) / kBlock);
  sweeps.each(scratch.pool, [&](std::size_t from, std::span<const float> x) {
    blocks[from / kBlock] = kernels::measure_block(x);
  });
  kernels::Measures all;
  for (const kernels::Measures& block : blocks) all.join(block);
  return all;
}

// All entries, or stretches that are evenly spaced; every fourth of them first.
std::span<const float> sample_of(const Sweeps& sweeps, StageScratch& scratch) {
  const std::size_t size = sweeps.size(), count = std::min(size, kSample);
  const auto sample = scratch.sample.reset(count);
  const std::size_t stretches = (count + kStretch - 1) / kStretch;
  const std::size_t stride = size <= kSample ? kStretch : size / stretches;
  float* to = sample.data();
  for (const bool first : {true, false})
    for (std::size_t i = 0; i < stretches; ++i) {
      if ((i % 4 == 0) != first) continue;
      float buffer[kStretch];
      const std::size_t part = std::min(kStretch, size - i * stride);
      to = std::copy_n(sweeps.load(i * stride, part, buffer), part, to);
    }
  return sample;
}

class Grid : public SweepQuantiser {
 public:
  explicit Grid(const Args& args) : omega_(args.number("omega")) {}

  PlaneShapes planes(std::size_t count) const override {
    return {scale_plane(count), level_plane(count, kMostLevel), wide_plane(count, kMostLevel)};
  }

  // Of many entries a sample suggests the step, and the sums of the sweep that quantises tell
  // whether it holds. Only if it does not are all of them measured.
  bool encode_swept(const Sweeps& sweeps, const PlaneSpans& planes, const Keys& keys,
                    StageScratch& scratch) const override {
    const kernels::LevelSpan levels = levels_of(planes, 1);
    const auto quantise = [&](float step) {
      const auto blocks = scratch.spreads.reset((sweeps.size() + kBlock - 1) / kBlock);
      store(planes[0].data(), step);
      sweeps.encode_each(
          scratch.pool,
          [&](std::size_t from, std::span<const float> x) {
            blocks[from / kBlock] = to_levels(x, step, keys, from, levels);
          },
          [&](std::size_t from, const kernels::Mixed& block) {
            blocks[from / kBlock] = to_levels_mixed(block, step, keys, from, planes);
          });
      Trial trial{step};
      for (const kernels::Spreads& block : blocks) {
        trial.sums.variance += block.variance;
        trial.sums.squares += block.squares;
      }
      return trial;
    };
    const auto sample = sample_of(sweeps, scratch);
    std::optional<Trial> trial;
    if (sample.size() < sweeps.size()) {
      const kernels::Measures some = measure(sample);
      if (some.squares > 0 && some.largest < kernels::kInfinity) {
        trial = quantise(usable(StepSearch(sample, sample.size(), some, omega_).suggested()));
        if (trial->certified(omega_)) return true;
        if (!std::isfinite(trial->sums.squares)) trial.reset();
      }
    }
    const kernels::Measures all = measure(sweeps, scratch);
    if (all.largest >= kernels::kInfinity) return false;
    if (all.squares == 0) {
      store(planes[0].data(), 0.0F);
      std::fill_n(levels.small, sweeps.size(), std::int8_t{0});
      sweeps.each(scratch.pool,
                  [&](std::size_t from, std::span<const float> x) { sweeps.done(from, x); });
      return true;
    }
    StepSearch(sample, sweeps.size(), all, omega_).find(trial, quantise);
    return true;
  }

  bool encode_few(std::span<const float> x, const PlaneSpans& planes,
                  const Keys& keys) const override {
    const kernels::Measures all = kernels::measure_block(x);
    if (all.largest >= kernels::kInfinity) return false;
    const kernels::LevelSpan levels = levels_of(planes, 1);
    store(planes[0].data(), 0.0F);
    if (all.squares == 0) {
      std::fill_n(levels.small, x.size(), std::int8_t{0});
      return true;
    }
    StepSearch(x, x.size(), all, omega_).find({}, [&](float step) {
      store(planes[0].data(), step);
      return Trial{step, to_levels(x, step, keys, 0, levels)};
    });
    return true;
  }

  void check(const PlaneViews& planes, std::size_t count) const override {
    check_scale(planes[0], "grid");
    if (std::isfinite(static_cast<float>(kMostLevel) * load_scale(planes[0]))) return;
    const std::uint32_t largest = kernels::largest_level(levels_of(planes, 1), count);
    if (!std::isfinite(static_cast<float>(largest) * load_scale(planes[0])))
      throw DataError("a section by 'grid' has a level of " + std::to_string(largest) +
                      ", which is not a finite number of steps");
  }

  void add(const PlaneViews& planes, std::size_t from, float weight,
           std::span<float> y) const override {
    kernels::add_levels(levels_of(planes, 1).from(from), unit_of(load_scale(planes[0])), weight, y);
  }

  Traits traits(std::size_t) const override {
    return {.unbiased = true,
            .random = true,
            .stratified = true,
            .omega = omega_,
            .delta = omega_ < 1 ? std::optional(1 - omega_) : std::nullopt};
  }

 private:
  static kernels::Spreads to_levels(std::span<const float> x, float step, const Keys& keys,
                                    std::size_t from, const kernels::LevelSpan& levels) {
    return kernels::to_levels_and_spread(x, {step, 1}, most_at(step), keys.draws(),
                                         keys.first + from, levels.from(from));
  }

  kernels::Spreads to_levels_mixed(const kernels::Mixed& block, float step, const Keys& keys,
                                   std::size_t from, const PlaneSpans& planes) const {
    const kernels::LevelSpan levels = levels_of(planes, 1);
    if (const auto sums =
            kernels::to_levels_and_spread_mixed(block, {step, 1}, unit_of(step), most_at(step),
                                                keys.draws(), keys.first + from, levels.from(from)))
      return *sums;
    kernels::Spreads sums;
    encode_then_leave(*this, block, from, planes, [&](std::span<const float> x) {
      sums = to_levels(x, step, keys, from, levels);
      return true;
    });
    return sums;
  }

  static kernels::Unit unit_of(float step) { return {step, std::numeric_limits<float>::max()}; }

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
                    .help = "variance allowed, as a share of |x|^2"},
                   {.name = "levels",
                    .fallback = "plain",
                    .choices = {"plain", "contexts"},
                    .help = "contexts: coded by the size of their row and column"}},
    .bits = "32 + levels, of which most are 0 and 1: about 2 n at omega = 1/8",
    .examples = {"grid", "grid:0.01", "grid:2", "grid:contexts", "grid:1,contexts"},
    .make = [](const Args& args) -> Stage {
      auto grid = std::make_shared<Grid>(args);
      if (args.text("levels") == "contexts") return in_contexts(std::move(grid));
      return grid;
    },
}};

}  // namespace
}  // namespace laconic

// Whether rounding some entries to multiples of a step has a variance above a target: asked for
// many steps, and mostly answered without a pass.
#pragma once

#include <array>
#include <cmath>
#include <span>
#include <utility>

#include "laconic/kernels/levels.h"
#include "laconic/kernels/reduce.h"
#include "laconic/kernels/spread.h"

namespace laconic {

// The variance with a step D is V(D) = sum of (|x| - kD)((k + 1)D - |x|) with k = floor(|x| / D).
// Any other whole numbers k make it less, so those of a step a bound it for every step D:
//
//   V(D) >= L(D) = D V(a) / a + (D - a)(Q / a - D B(a)),  Q = sum of x^2, B = sum of k(k + 1).
//
// And what a number that changes between D and a adds is at most its part of B times D |D - a|. So
// with c <= D <= d, and a either of them,
//
//   V(D) <= L(D) + D |D - a| (B(c) - B(d)).
//
// A pass that finds V and B nearly answers for most other steps, too. Where it cannot, beyond all
// doubt of rounding, the exact sum is made: so answers are those of exact sums, always.
class RoundingVariance {
 public:
  RoundingVariance(std::span<const float> x, double target)
      : x_(x),
        target_(target),
        squares_(kernels::sum_of_squares(x)),
        count_(static_cast<double>(x.size())),
        reach_(std::sqrt(count_ * squares_)) {}

  // Whether the variance by kernels::spread is above the target.
  bool exceeds(float step) {
    const double at = static_cast<double>(step);
    while (at > kLeast && at < kMost) {
      const Answer answer = known(at);
      if (answer == Answer::above || answer == Answer::within) return answer == Answer::above;
      if (answer == Answer::doubtful || !look_near(at)) break;
    }
    return kernels::spread(x_, step) * at * at > target_;
  }

  // About where the target is met; 0: nobody knows.
  double crossing() const {
    const Look* nearest = nullptr;
    for (std::size_t i = 0; i < number_; ++i)
      if (!nearest ||
          std::abs(looks_[i].variance - target_) < std::abs(nearest->variance - target_))
        nearest = &looks_[i];
    return nearest ? crossing_by(*nearest) : 0;
  }

  // What is learnt at this step is used for all.
  void look(double step) {
    if (number_ == looks_.size() || !(step > kLeast && step < kMost)) return;
    const auto at = static_cast<float>(step);
    const kernels::Spacing sums = kernels::about_spread(x_, at);
    if (!std::isfinite(sums.variance) || !std::isfinite(sums.whole)) return;
    const double a = static_cast<double>(at);
    std::size_t i = number_++;
    for (; i > 0 && looks_[i - 1].step > a; --i) looks_[i] = looks_[i - 1];
    looks_[i] = {a, sums.variance * a * a, sums.whole};
  }

 private:
  enum class Answer { above, within, unknown, doubtful };  // the last: no look would tell
  struct Look {
    double step, variance, whole;  // a, V(a), B(a)
  };

  // Beyond these, products of floats may be subnormal, or not finite.
  static constexpr double kLeast = 0x1p-60, kMost = 0x1p60;
  // Floats are rounded by 2^-24 of themselves at most: y twice here and once in the exact sum, the
  // products a few times. Of V no more than 2^-22 of D |x|_1 + D^2 n comes of that, and of B as
  // much as 2^-21 of it.
  static constexpr double kOfVariance = 0x1p-22, kOfWhole = 0x1p-21;

  Answer known(double at) const {
    const auto [below, above] = around(at);
    const double most = below ? below->whole : 0;
    const double changed = below && above ? most - above->whole : most;  // of B, between them
    bool doubtful = false;
    for (const Look* a : {above, below}) {
      if (!a || a->step > 2 * at || at > 2 * a->step) continue;
      const double away = at - a->step, part = squares_ / a->step;
      const double bound = at / a->step * a->variance + away * (part - at * a->whole);
      const double changes = at * std::abs(away) * changed;
      const double doubt = kOfVariance * (at * reach_ + at * at * count_) +
                           kOfWhole * (std::abs(away) * (part + 2 * at * std::max(most, a->whole)) +
                                       at * a->step * changed) +
                           0x1p-40 * squares_;
      if (bound > target_ + doubt) return Answer::above;
      if (below && bound + changes < target_ - doubt) return Answer::within;
      doubtful |= std::abs(bound - target_) < 2 * doubt;
    }
    return doubtful ? Answer::doubtful : Answer::unknown;
  }

  // The looks next to a step; both are the same one where it has been looked at.
  std::pair<const Look*, const Look*> around(double at) const {
    std::size_t i = 0;
    while (i < number_ && looks_[i].step < at) ++i;
    const Look* above = i < number_ ? &looks_[i] : nullptr;
    if (above && above->step == at) return {above, above};
    return {i > 0 ? &looks_[i - 1] : nullptr, above};
  }

  // Where L is the target.
  double crossing_by(const Look& a) const {
    const double slope = (a.variance + squares_) / a.step + a.step * a.whole;
    const double wanted = squares_ + target_;
    return 2 * wanted / (slope + std::sqrt(slope * slope - 4 * a.whole * wanted));
  }

  // Looks where the target is probably met or, if that is known or cannot help, at the step itself.
  // Returns false when it has looked there.
  bool look_near(double at) {
    const double probably = crossing();
    const auto is_new = [&](double step, double apart) {
      for (std::size_t i = 0; i < number_; ++i)
        if (std::abs(looks_[i].step - step) <= apart * step) return false;
      return true;
    };
    const std::size_t before = number_;
    if (around(at).first && probably > at / 2 && probably < at * 2 && is_new(probably, 0x1p-13))
      look(probably);
    else if (is_new(at, 0))
      look(at);
    return number_ > before;
  }

  std::span<const float> x_;
  double target_, squares_, count_, reach_;
  std::array<Look, 12> looks_;  // by step
  std::size_t number_ = 0;
};

}  // namespace laconic

// What an operator's traits claim, held against what receivers decode.
#pragma once

#include <algorithm>
#include <numeric>

#include "tests/support.h"

namespace laconic::testing {

// Errors y - x of several draws, entry by entry. Draws are independent, and so are the errors of
// entries within one, but for those of positions drawn without replacement, whose sums vary less.
class Errors {
 public:
  Errors(const Operator& op, std::span<const float> x, int draws)
      : x_(x), draws_(draws), sums_(x.size()), squares_(x.size()) {
    Scratch scratch;
    Buffer section;
    std::vector<float> y(x.size());
    for (int draw = 0; draw < draws; ++draw) {
      const Keys keys = make_keys(11, static_cast<std::uint64_t>(draw), 0);
      section.clear();
      EXPECT_TRUE(op.encode(x, section, keys, scratch));
      std::ranges::fill(y, 0.0F);
      op.add(section.view(), 1, y, keys, scratch);
      note(y);
    }
  }

  // |C(x) - x|^2 / |x|^2, the mean over all draws.
  double relative() const { return total_ / draws_ / squared(x_); }

  // Its standard deviation, from above: a sum of independent squares e^2 varies by at most the sum
  // of their squares.
  double relative_sigma() const { return std::sqrt(fourth_) / draws_ / squared(x_); }

  // The sum of weight_i * error_i over all draws, in standard deviations. `claimed` is a variance
  // of one draw that stands in where the errors that matter are too rare to be measured.
  template <class Weight>
  double drift(Weight weight, double claimed) const {
    double sum = 0, variance = 0, most = 0, scale = 0;
    for (std::size_t i = 0; i < x_.size(); ++i) {
      const double w = weight(x_[i]);
      sum += w * sums_[i];
      variance += w * w * squares_[i];
      most = std::max(most, std::abs(w));
      scale += std::abs(w * x_[i]);
    }
    variance = std::max(variance, claimed * draws_ * most * most);
    const double rounding = kRounding * scale * draws_;
    return std::max(0.0, std::abs(sum) - rounding) / std::sqrt(variance + kTiny);
  }

  // How far the mean of the draws is from x, whatever the pattern: the square of the sum of an
  // entry's errors is on average the sum of their squares, or more where there is a bias. In
  // standard deviations.
  double bias(double claimed) const {
    double excess = 0, variance = 0, scale = 0;
    for (std::size_t i = 0; i < x_.size(); ++i) {
      excess += sums_[i] * sums_[i] - squares_[i];
      variance += 2 * squares_[i] * squares_[i];
      scale += std::pow(kRounding * draws_ * x_[i], 2);
    }
    variance = std::max(variance, 2 * std::pow(claimed * draws_, 2));
    return std::max(0.0, excess - scale) / std::sqrt(variance + kTiny * kTiny);
  }

  static constexpr double kRounding = 0x1p-22;  // of floats; some operators attain their bounds

 private:
  static constexpr double kTiny = 1e-100;

  void note(std::span<const float> y) {
    for (std::size_t i = 0; i < y.size(); ++i) {
      const double error = static_cast<double>(y[i]) - x_[i], square = error * error;
      sums_[i] += error;
      squares_[i] += square;
      total_ += square;
      fourth_ += square * square;
    }
  }

  std::span<const float> x_;
  int draws_;
  std::vector<double> sums_, squares_;  // by entry, over all draws
  double total_ = 0, fourth_ = 0;
};

// Six standard deviations: under 1e-8 for sums of many errors, and still rare for sums of few.
inline constexpr double kSigmas = 6;

// E|C(x) - x|^2 against omega, delta and absolute, and the mean against x in directions in which
// compressors err: shrinking, towards one sign, in magnitude, or anyhow. `rare`: what an entry
// becomes is decided by draws so rare that none of them need be seen.
inline void expect_claims(const Operator& op, const std::vector<float>& x, const std::string& what,
                          int draws, bool rare = false) {
  SCOPED_TRACE(what);
  const Traits traits = op.traits(x.size());
  const bool draws_anything = traits.random || traits.shared;
  const double norm = squared(x);
  if (norm == 0) return;
  const Errors errors(op, x, draws_anything ? draws : 1);
  const double spread = draws_anything ? kSigmas * errors.relative_sigma() : 0;
  const double error = errors.relative();
  EXPECT_LE(error, traits.omega.value_or(INFINITY) * (1 + Errors::kRounding) + spread + 1e-12)
      << "omega";
  const double beside = traits.absolute * traits.absolute * static_cast<double>(x.size()) / norm;
  EXPECT_LE(error, 1 - traits.delta.value_or(-INFINITY) + beside + spread + Errors::kRounding)
      << "delta";
  if (!traits.unbiased) return;
  const double claimed = rare ? *traits.omega * norm : 0;
  EXPECT_LE(errors.drift([](double v) { return v; }, claimed), kSigmas) << "shrinks or grows";
  EXPECT_LE(errors.drift([](double) { return 1.0; }, claimed), kSigmas) << "towards a sign";
  EXPECT_LE(errors.drift([](double v) { return v < 0 ? -1.0 : 1.0; }, claimed), kSigmas)
      << "in magnitude";
  EXPECT_LE(errors.bias(claimed), kSigmas) << "mean";
}

}  // namespace laconic::testing

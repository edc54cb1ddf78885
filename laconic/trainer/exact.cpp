// Repeated squaring and two short Taylor series.
#include "laconic/trainer/exact.h"

#include <numbers>

namespace laconic::trainer {
namespace {

// 1 - x^2 / (2 * 3) (1 - x^2 / (4 * 5) (...)) and the like: `first` is 1 for cosines, 2 for sines
// divided by x. For |x| up to pi/4 the first term left out is below 1e-19.
double series(double x, int first) {
  double sum = 1;
  for (int i = first + 16; i >= first; i -= 2) sum = 1 - x * x / (i * (i + 1)) * sum;
  return sum;
}

}  // namespace

double power(double base, std::uint64_t exponent) {
  double result = 1;
  for (; exponent > 0; exponent >>= 1, base *= base)
    if (exponent & 1) result *= base;
  return result;
}

double cosine(double turn) {
  if (turn > 0.5) return -cosine(1 - turn);
  if (turn <= 0.25) return series(std::numbers::pi * turn, 1);
  const double x = std::numbers::pi * (0.5 - turn);
  return x * series(x, 2);
}

}  // namespace laconic::trainer

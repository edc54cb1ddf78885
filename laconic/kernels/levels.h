// Floats to whole numbers of steps and back, rounded at random without bias or to the nearest. Draw
// i is draws.bits32(first + i), so that any cut, thread or vector lane gives the same levels.
#pragma once

#include <optional>
#include <span>

#include "laconic/base/key.h"
#include "laconic/kernels/natural.h"

namespace laconic::kernels {

// Levels lie a byte each. Where a byte is kWide, the level is beyond +-127 and stands in `wide`,
// whose other entries mean nothing and need not even be there.
inline constexpr std::int8_t kWide = -128;
inline constexpr std::int32_t kMostSmall = 127;

struct LevelView {
  const std::int8_t* small = nullptr;
  const std::int32_t* wide = nullptr;

  std::int32_t operator[](std::size_t i) const { return small[i] == kWide ? wide[i] : small[i]; }
  LevelView from(std::size_t i) const { return {small + i, wide ? wide + i : nullptr}; }
};

struct LevelSpan {
  std::int8_t* small = nullptr;
  std::int32_t* wide = nullptr;

  void set(std::size_t i, std::int32_t level) const {
    const bool fits = level >= -kMostSmall && level <= kMostSmall;
    small[i] = fits ? static_cast<std::int8_t>(level) : kWide;
    if (!fits) wide[i] = level;
  }
  operator LevelView() const { return {small, wide}; }
  LevelSpan from(std::size_t i) const { return {small + i, wide ? wide + i : nullptr}; }
};

// So many levels make one norm.
struct Scale {
  float norm = 1;   // above 0 and finite
  float steps = 1;  // 1 to 2^24
};

// What a norm is multiplied by, in two steps that neither overflow nor lose digits, to give its
// steps: 2^80, 1 or 2^-80, and a float chosen so that (norm * first) * second >= steps.
struct Factors {
  float first = 1, second = 1;
};
Factors factors_of(Scale scale);

// A level l stands for l * unit, and for -limit or limit beyond them.
struct Unit {
  float unit = 1, limit = 1;
};
inline Unit unit_of(Scale scale) { return {scale.norm / scale.steps, scale.norm}; }

// levels[i] = sign(x[i]) * floor(min(y + r, most)) where y = (|x[i]| * first) * second, in float,
// in this order. r is (draw >> 8) / 2^24 at random, else the largest float below 1/2. `most` is at
// most 2^30; levels of up to 127 need no `wide`.
void to_levels(std::span<const float> x, Scale scale, std::int32_t most, Rounding rounding,
               const Draws& draws, std::uint64_t first, LevelSpan levels);

// The same for finite x as `block` mixes it, writing block.left in the same sweep: what is decoded
// is by unit_of(scale). Returns false, with nothing done, when that cannot be: `first` is not 1 or
// positions cross a multiple of 2^32, both rare.
bool to_levels_mixed(const Mixed& block, Scale scale, std::int32_t most, Rounding rounding,
                     const Draws& draws, std::uint64_t first, LevelSpan levels);

// Sums over entries, in steps squared: f(1 - f) with f = y - floor(y), which is the variance of
// rounding, and y^2; where the latter is not finite the former means nothing.
struct Spreads {
  double variance = 0, squares = 0;
};

// The same at random, and these sums: in float, the term of entry i added to lane i % 16; then
// lanes in double, in order.
Spreads to_levels_and_spread(std::span<const float> x, Scale scale, std::int32_t most,
                             const Draws& draws, std::uint64_t first, LevelSpan levels);
// For mixed entries, as to_levels_mixed: nothing when that cannot be.
std::optional<Spreads> to_levels_and_spread_mixed(const Mixed& block, Scale scale, Unit unit,
                                                  std::int32_t most, const Draws& draws,
                                                  std::uint64_t first, LevelSpan levels);

// y[i] += weight * value of levels[i]
void add_levels(LevelView levels, Unit unit, float weight, std::span<float> y);

// The largest magnitude; 0 when there is none.
std::uint32_t largest_level(LevelView levels, std::size_t count);

// Writes the positions of levels that are not zero and returns how many there are. Up to kSpareOnes
// (kernels/ones.h) numbers after the last are overwritten.
std::size_t nonzero_levels(const std::int8_t* small, std::size_t count, std::uint32_t* to);

// Natural dithering: level l of 0..s, s up to 127, stands for 0 or norm * 2^(l - s), and has the
// sign of x[i]. With y = (|x[i]| * first) * second, by the factors of {norm, 1}, at most 1: from
// 2^(1-s) on, y is rounded to a power of two as natural compression does (23 bits of the draw added
// to the mantissa); below it y becomes 2^(1-s) if (draw >> 8) / 2^24 < y * 2^(s-1), else 0.
void to_powers(std::span<const float> x, float norm, int s, const Draws& draws, std::uint64_t first,
               std::int8_t* levels);
bool to_powers_mixed(const Mixed& block, float norm, int s, const Draws& draws, std::uint64_t first,
                     std::int8_t* levels);  // as to_levels_mixed
void add_powers(const std::int8_t* levels, float norm, int s, float weight, std::span<float> y);

// The sum of f(1 - f) with f the fraction of |x[i]| / step. In blocks and lanes like
// sum_of_squares.
double spread(std::span<const float> x, float step);

}  // namespace laconic::kernels

// The largest entries, found in one pass: all that reach a bound are collected, and chosen among
// exactly. The bound is last step's, or a sample's; one that is too high costs another pass.
#pragma once

#include <algorithm>
#include <bit>

#include "laconic/operators/stage.h"

namespace laconic {

// Make `kept` the k entries of largest magnitude (or, for either sign, of that sign), the lowest
// position first among equals; fewer when fewer are not zero. Return false for NaN and Inf.
bool keep_largest(Entries& x, std::size_t k, Picked& kept, StageScratch& scratch);
bool keep_largest_by_sign(Entries& x, std::size_t k, Picked& above, Picked& below,
                          StageScratch& scratch);

// Some entries, at no fixed distance; none when there are too few to learn from.
std::span<const float> take_sample(const Entries& x, StageScratch& scratch);

inline std::uint32_t magnitude(float value) {
  return std::bit_cast<std::uint32_t>(value) & 0x7fffffffU;
}

// A bound for the next step when this one's least magnitude kept is `least`. A margin of a tenth
// finds about twice as many of a bell curve's largest hundredth, one of a fiftieth a sixth more.
inline std::uint32_t lowered(std::uint32_t least, float margin) {
  return std::max(std::bit_cast<std::uint32_t>((1 - margin) * std::bit_cast<float>(least)), 1U);
}

// A bound that was too high costs a pass, one that is too low a look at more entries.
inline float margin_after(float margin, bool reached) {
  return reached ? std::max(0.02F, 0.9F * margin) : std::min(0.3F, 2 * margin);
}

}  // namespace laconic

// Mixing, leaving and marking what exceeds a cut, all in one pass; and taking what is marked: for
// choices that keep so many entries that a list of them would be longer than the entries.
#pragma once

#include "laconic/kernels/collect.h"
#include "laconic/kernels/select.h"

namespace laconic::kernels {

// Marks (kernels/marks.h) every entry scale * x[i] that is kept, those above 0 by one cut and those
// below by the other, and leaves x. Both may be the same one, whose ties are then of both signs.
// Ties are used up; a zero is never one. There is a word for every 64 entries; marks beyond the
// last are 0. Returns the largest magnitude; NaN counts as larger than Inf.
std::uint32_t mark(const Mixture& x, std::size_t count, const Leaving& left, float scale,
                   Cut& above, Cut& below, std::uint64_t* marks);

// Copies the entries that are marked to `to`, next to each other, which may be any address; marks
// beyond x's end are 0. Returns how many they are. Nothing is written after them.
std::size_t take_marked(std::span<const float> x, const std::uint64_t* marks, std::uint8_t* to);

}  // namespace laconic::kernels

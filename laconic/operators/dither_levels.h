// The levels of a section by `dither`, or by `grid` in contexts, as symbols in contexts and bits:
// docs/frame.md, items 5 to 7.
#pragma once

#include "laconic/operators/dither_section.h"
#include "laconic/operators/stage_scratch.h"

namespace laconic {

// The classes that have entries, by bits.
std::uint32_t classes_of(const ScaleCounts& entries, const kernels::DitherSteps& steps);

// The most bytes that levels take.
std::size_t most_level_bytes(std::size_t count);

// Fills the planes of levels, unless they are those of a grid, and writes them. What is known and
// the scales are in the planes.
void write_levels(std::span<const float> x, const PlaneSpans& planes, std::uint32_t classes,
                  Buffer& out, StageScratch& scratch);

// Fills the planes of zeros, and writes that. Returns true.
bool write_zeros(const PlaneSpans& planes, Buffer& out);

// Fills the planes of levels from the rest of a section. Throws DataError.
void read_levels(ByteView section, std::size_t count, const PlaneSpans& planes,
                 std::uint32_t classes, StageScratch& scratch);

}  // namespace laconic

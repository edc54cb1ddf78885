// The product of two thin factors that `dither` takes off a matrix before it rounds what is left:
// found, written and read. Factors are whole numbers from -127 to 127, and each column of them has
// a size.
#pragma once

#include "laconic/operators/dither_section.h"
#include "laconic/operators/stage_scratch.h"

namespace laconic {

// What is to be rounded, and how loud it is: `scales` and `factors` of the section are of it.
struct DitherRest {
  std::span<const float> x;
  std::size_t rank = 0;
  Loudness loudness = {};
  ScaleCounts entries = {};
};

// Takes a product off `rest`, which is a whole matrix of which scales, exponent and entries are
// known, if the levels of what is then left take so many bits fewer that it pays. `squares` is
// |x|^2. The product's bytes are left in scratch.coded, what is left in scratch.rest.
void take_product_off(DitherRest& rest, const DitherShape& shape, double squares, double omega,
                      std::span<std::uint8_t> scales, std::span<float> factors,
                      StageScratch& scratch);

// Fills the factors of a product of this rank, and returns what stands behind it. Rows and columns
// without a scale are not written. Throws DataError.
ByteView read_factors(ByteView section, const DitherShape& shape, std::size_t rank,
                      std::span<const std::uint8_t> scales, std::span<float> factors,
                      StageScratch& scratch);

// The most bytes that factors take.
std::size_t most_factor_bytes(std::size_t count);

}  // namespace laconic

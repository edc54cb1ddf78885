// How large the entries of a section by `dither` are, by rows and columns: measured, written and
// read.
#pragma once

#include <optional>

#include "laconic/codecs/varint.h"
#include "laconic/operators/dither_section.h"
#include "laconic/operators/stage_scratch.h"

namespace laconic {

// Entries that are measured: x, or what `rest` becomes on the way, x minus a product.
struct DitherRows {
  std::span<const float> x;
  const DitherProduct* product = nullptr;
  std::span<float> rest = {};
};

// Fills the scales of rows and then of columns, and the exponent of the largest; returns the sum of
// all squares, or nothing when x holds NaN or Inf.
std::optional<double> measure_scales(const DitherRows& from, const DitherShape& shape,
                                     std::span<std::uint8_t> scales, std::int16_t& exponent,
                                     StageScratch& scratch);

void write_scales(const DitherShape& shape, std::span<const std::uint8_t> scales, Buffer& out,
                  StageScratch& scratch);

// Returns what stands behind them. Throws DataError.
ByteView read_scales(ByteView section, const DitherShape& shape, std::span<std::uint8_t> scales,
                     StageScratch& scratch);

// The exponent of the largest scale. Throws DataError.
std::int16_t read_exponent(ByteReader& reader);

// How many entries have each scale.
ScaleCounts entries_of(const DitherShape& shape, std::span<const std::uint8_t> scales);

}  // namespace laconic

// Entries that are marked by a bit each (kernels/marks.h), and what was decoded of them: values
// that lie next to each other, made as they are wanted, a block at a time in the first-level cache.
#pragma once

#include "laconic/kernels/floats.h"
#include "laconic/operators/stage.h"

namespace laconic {

// Makes `first`, for every block of kBlock entries, how many are marked before it; and the end: how
// many in all.
void index_marks(std::span<const std::uint64_t> marks, std::size_t count,
                 Array<std::uint32_t>& first);

// What was marked, with the index of it, and the checked planes of its values.
struct Marked {
  const std::uint64_t* marks;
  std::span<const std::uint32_t> first;
  const Quantiser& quantiser;
  const PlaneViews& planes;

  // y[i] += weight * decoded entry from + i, for from + i < to, where it is marked. `from` is a
  // multiple of kBlock.
  void add(std::size_t from, std::size_t to, float weight, float* y) const;
};

}  // namespace laconic

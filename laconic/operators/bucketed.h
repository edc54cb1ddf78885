// A quantiser applied to a fixed number of entries at a time, each bucket with its own norm.
#pragma once

#include "laconic/operators/stage.h"

namespace laconic {

// Throws UsageError when a bucket of this size would end within a byte of a plane.
std::shared_ptr<const Quantiser> bucketed(std::shared_ptr<const Quantiser> inner, std::size_t size);

}  // namespace laconic

// Levels in so many bits each, whatever they are: nothing has to be known of all of them before any
// can be written, so they are packed block by block while they are in the first-level cache.
#pragma once

#include "laconic/operators/stage.h"

namespace laconic {

// The quantiser whose planes are those of `inner`, levels in `bits` (1 to 8) each as pack_levels
// writes them: none is beyond a byte. None where `inner` does not go by blocks.
std::shared_ptr<const Quantiser> packed_levels(const std::shared_ptr<const Quantiser>& inner,
                                               unsigned bits);

}  // namespace laconic

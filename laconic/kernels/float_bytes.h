// Floats at any address, as they lie in a section.
#pragma once

#include <span>

#include "laconic/base/bytes.h"

namespace laconic::kernels {

// Whether none of them is NaN or Inf.
bool finite_floats(ByteView bytes);

// y[i] += weight * the i-th of them
void add_floats(const std::uint8_t* bytes, float weight, std::span<float> y);

}  // namespace laconic::kernels

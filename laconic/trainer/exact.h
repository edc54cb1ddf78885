// Powers and cosines whose bits are the same on every machine: only additions and multiplications
// in an order that is written down, where libm may choose another way on another processor.
// Replicas that update with them stay equal.
#pragma once

#include <cstdint>

namespace laconic::trainer {

// base^exponent by repeated squaring, within a few units of the last place for bases up to 1.
double power(double base, std::uint64_t exponent);

// cos(pi * turn) for turn from 0 to 1, within 1e-15; exact at 0, 1/2 and 1.
double cosine(double turn);

}  // namespace laconic::trainer

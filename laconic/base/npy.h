// NumPy's .npy format: one array of float16, float32 or float64, in memory always float32.
// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html, versions 1, 2 and 3.
#pragma once

#include <string>
#include <vector>

#include "laconic/base/buffer.h"

namespace laconic {

enum class NpyDtype { float16, float32, float64 };

struct NpyArray {
  NpyDtype dtype = NpyDtype::float32;  // in the file
  std::vector<std::uint64_t> shape;    // empty: one entry
  std::vector<float> values;           // in C order
};

// Reads a whole file's bytes. Throws UsageError for arrays that Laconic does not take (another
// dtype or order, a float64 that no float32 can hold), saying how to save them, and DataError for
// bytes that are not one whole .npy file. Memory is taken in proportion to the bytes given, never
// to the shape they claim.
NpyArray read_npy(ByteView bytes);

// Appends one array as a .npy file's bytes; `values` has as many entries as the shape says. As
// float16, finite values beyond its range become its largest value, never Inf.
void append_npy(NpyDtype dtype, std::span<const std::uint64_t> shape, std::span<const float> values,
                Buffer& out);

// "(3, 4)", "(3,)" or "()", as Python writes it.
std::string shape_text(std::span<const std::uint64_t> shape);

}  // namespace laconic

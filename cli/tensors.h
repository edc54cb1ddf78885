// Models with values from files: named arrays in .npz, a single one in .npy.
#pragma once

#include <string>
#include <vector>

#include "laconic/layout/layout.h"

namespace laconic::cli {

struct Tensors {
  Model model;
  std::vector<float> values;  // of all tensors, one after the other
};

// Reads a .npz or .npy file; a single array is a tensor of the file's name. Errors name the path.
Tensors read_tensors(const std::string& path);

}  // namespace laconic::cli

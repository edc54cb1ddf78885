// A gradient recorded in training (tests/data/README.md).
#pragma once

#include <fstream>
#include <iterator>

#include "laconic/base/npy.h"
#include "tests/support.h"

namespace laconic::testing {

inline std::vector<float> recorded_gradient() {
  std::ifstream file(LACONIC_TEST_DIR "/data/lenet_gradient.npy", std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  return read_npy({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()}).values;
}

}  // namespace laconic::testing

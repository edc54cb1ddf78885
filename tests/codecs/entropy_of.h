// Bits that symbols take at least, when each is coded by how often it comes.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "laconic/codecs/huffman.h"

namespace laconic::testing {

inline double entropy_of(const std::vector<std::uint8_t>& symbols) {
  std::uint32_t counts[256] = {};
  count_bytes(symbols, counts);
  double bits = 0;
  for (const double count : counts)
    if (count > 0) bits -= count * std::log2(count / static_cast<double>(symbols.size()));
  return bits;
}

}  // namespace laconic::testing

// Stretches of entries cut at fixed places, whatever stretch is asked for.
#pragma once

#include <algorithm>
#include <cstddef>

namespace laconic {

// Calls use(block, begin, count) for each part of the entries from `from` to `to` that lies in one
// block of `size` entries.
template <class Use>
void in_blocks(std::size_t from, std::size_t to, std::size_t size, Use use) {
  for (std::size_t begin = from; begin < to;) {
    const std::size_t block = begin / size, count = std::min(to, (block + 1) * size) - begin;
    use(block, begin, count);
    begin += count;
  }
}

}  // namespace laconic

// Stretches of entries cut at fixed places, whatever stretch is asked for.
#pragma once

#include <algorithm>
#include <cstddef>

#include "laconic/base/pool.h"
#include "laconic/kernels/floats.h"
#include "laconic/kernels/stream.h"

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

enum class Order { forwards, backwards };

// Calls use(from, count) for every block of kBlock entries, on all threads; backwards from the last
// entries to the first, which after a sweep forwards finds some of them in the cache. What it
// writes past the cache is seen by all when this returns: waiting for it after every block would
// take an eighth of a memcpy.
template <class Use>
void each_block(std::size_t count, Pool& pool, Use use, Order order = Order::forwards) {
  constexpr std::size_t kPiece = 16 * kBlock;  // entries one thread takes at a time
  const std::size_t pieces = (count + kPiece - 1) / kPiece;
  pool.each(pieces, [&](std::size_t number, unsigned) {
    const std::size_t piece = order == Order::forwards ? number : pieces - 1 - number;
    const std::size_t end = std::min(count, (piece + 1) * kPiece);
    for (std::size_t from = piece * kPiece; from < end; from += kBlock)
      use(from, std::min(kBlock, end - from));
    kernels::end_stream();
  });
}

}  // namespace laconic

// Quantisers whose symbols depend on their own block alone: a block can be mixed, encoded and
// subtracted while it is in the first-level cache.
#pragma once

#include <atomic>

#include "laconic/operators/blocks.h"
#include "laconic/operators/stage.h"

namespace laconic {

class BlockQuantiser : public Quantiser {
 public:
  // Fills the symbols of the entries x, at most kBlock of them, from entry `from` on, a multiple of
  // kBlock. Returns false when x holds NaN or Inf. Threads may encode distinct blocks.
  virtual bool encode_block(std::span<const float> x, std::size_t from, const PlaneSpans& planes,
                            const Keys& keys) const = 0;

  const BlockQuantiser* blockwise() const final { return this; }

  bool encode(std::span<const float> x, const PlaneSpans& planes, const Keys& keys,
              StageScratch& scratch) const final {
    std::atomic<bool> finite = true;
    each_block(x.size(), scratch.pool, [&](std::size_t from, std::size_t count) {
      if (!encode_block(x.subspan(from, count), from, planes, keys)) finite = false;
    });
    return finite;
  }
};

}  // namespace laconic

// Quantisers whose symbols depend on their own block alone: a block can be mixed, encoded and
// subtracted while it is in the first-level cache.
#pragma once

#include <atomic>

#include "laconic/kernels/axpy.h"
#include "laconic/kernels/mixed.h"
#include "laconic/kernels/stream.h"
#include "laconic/operators/blocks.h"
#include "laconic/operators/planes.h"
#include "laconic/operators/stage.h"

namespace laconic {

// left[i] = c * (x[i] - decoded entry from + i), at most kBlock of them; left may be x.
inline void leave_of(const Quantiser& quantiser, const PlaneViews& planes, std::size_t from,
                     float c, std::span<const float> x, float* left) {
  float decoded[kBlock];
  std::fill_n(decoded, x.size(), 0.0F);
  quantiser.add(planes, from, 1, {decoded, x.size()});
  kernels::difference(c, x.data(), decoded, {left, x.size()});
}

// The same for entries that were mixed into x: writes block.left.
inline void leave_of(const Quantiser& quantiser, const PlaneViews& planes, std::size_t from,
                     const kernels::Mixed& block, const float* x) {
  float buffer[kBlock];
  float* to = block.streams ? buffer : block.left;
  leave_of(quantiser, planes, from, block.c, {x, block.count}, to);
  if (block.streams) kernels::stream(to, block.count, block.left);
}

class BlockQuantiser : public Quantiser {
 public:
  // Fills the symbols of the entries x, at most kBlock of them, from entry `from` on, a multiple of
  // kBlock. Returns false when x holds NaN or Inf. Threads may encode distinct blocks.
  virtual bool encode_block(std::span<const float> x, std::size_t from, const PlaneSpans& planes,
                            const Keys& keys) const = 0;

  // As leave_of, in one sweep if there is one.
  virtual void leave(const PlaneViews& planes, std::size_t from, float c, std::span<const float> x,
                     float* left) const {
    leave_of(*this, planes, from, c, x, left);
  }

  // As encode_block for the entries that `block` mixes, writing block.left too, in one sweep if
  // there is one.
  virtual bool encode_mixed(const kernels::Mixed& block, std::size_t from, const PlaneSpans& planes,
                            const Keys& keys) const {
    float x[kBlock];
    block.x(x);
    if (!encode_block({x, block.count}, from, planes, keys)) return false;
    leave_of(*this, views(planes), from, block, x);
    return true;
  }

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

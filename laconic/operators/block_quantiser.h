// Quantisers whose symbols depend on their own block alone: a block can be mixed, encoded and
// subtracted while it is in the first-level cache.
#pragma once

#include <atomic>

#include "laconic/kernels/axpy.h"
#include "laconic/kernels/mixed.h"
#include "laconic/operators/blocks.h"
#include "laconic/operators/planes.h"
#include "laconic/operators/stage.h"

namespace laconic {

// left[i] = c * (x[i] - decoded entry from + i), at most kBlock of them; left may be x. It streams
// as kernels::leave does.
inline void leave_of(const Quantiser& quantiser, const PlaneViews& planes, std::size_t from,
                     float c, std::span<const float> x, bool streams, float* left) {
  float decoded[kBlock];
  std::fill_n(decoded, x.size(), 0.0F);
  quantiser.add(planes, from, 1, {decoded, x.size()});
  kernels::leave(c, x.data(), decoded, x.size(), streams, left);
}

// Encodes what `block` mixes, at most kBlock entries, by encode(x), which says whether it could,
// and writes what is left: as sweeps of their own.
template <class Encode>
bool encode_then_leave(const Quantiser& quantiser, const kernels::Mixed& block, std::size_t from,
                       const PlaneSpans& planes, Encode encode) {
  float memory[kBlock];
  const bool in_place = block.is_mixed() && block.fresh == block.left && !block.streams;
  const std::span x(in_place ? block.left : memory, block.count);
  if (!in_place) block.x(memory);
  if (!encode(std::span<const float>(x))) return false;
  quantiser.add(views(planes), from, -1, x);
  if (block.c != 1) kernels::scale(block.c, x.data(), x);
  if (!in_place) block.keep(memory);
  return true;
}

class BlockQuantiser : public Quantiser {
 public:
  // Fills the symbols of the entries x, at most kBlock of them, from entry `from` on, a multiple of
  // kBlock. Returns false when x holds NaN or Inf. Threads may encode distinct blocks.
  virtual bool encode_block(std::span<const float> x, std::size_t from, const PlaneSpans& planes,
                            const Keys& keys) const = 0;

  // As encode_block for the entries that `block` mixes, writing block.left too, in one sweep if
  // there is one.
  virtual bool encode_mixed(const kernels::Mixed& block, std::size_t from, const PlaneSpans& planes,
                            const Keys& keys) const {
    return encode_then_leave(*this, block, from, planes, [&](std::span<const float> x) {
      return encode_block(x, from, planes, keys);
    });
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

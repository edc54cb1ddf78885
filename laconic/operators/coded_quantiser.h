// Quantisers whose bytes depend on their draws, so that no coder can stand behind them: what is
// likely to come differs from draw to draw, or entries are mixed by a rotation that is drawn.
#pragma once

#include <atomic>

#include "laconic/kernels/mixed.h"
#include "laconic/operators/blocks.h"
#include "laconic/operators/stage.h"

namespace laconic {

class CodedBlocks;

// Its planes are what it knows of a section in memory, the draws among it: `add` needs no keys.
class CodedQuantiser : public Quantiser {
 public:
  // Appends x as bytes and fills the planes as `read` will. `cols` is the length of a row if x is a
  // matrix, else 1. Returns false when x holds NaN or Inf; something may have been appended then.
  virtual bool write(std::span<const float> x, std::size_t cols, const PlaneSpans& planes,
                     const Keys& keys, Buffer& out, StageScratch& scratch) const = 0;
  // Fills the planes of `count` > 0 entries from a whole section, written with these keys. Throws
  // DataError when it is anything else, or stands for values that are not finite.
  virtual void read(ByteView section, std::size_t count, const Keys& keys, const PlaneSpans& planes,
                    StageScratch& scratch) const = 0;
  // Bounds on a section of `count` > 0 entries. Fewer bytes than the least are refused before
  // memory is taken for the planes.
  virtual std::size_t min_size(std::size_t count) const = 0;
  virtual std::size_t max_size(std::size_t count) const = 0;

  const CodedQuantiser* coded() const final { return this; }
  // This, if blocks can be encoded one by one.
  virtual const CodedBlocks* by_blocks() const { return nullptr; }

  bool encode(std::span<const float> x, const PlaneSpans& planes, const Keys& keys,
              StageScratch& scratch) const final {
    Buffer bytes;
    return write(x, 1, planes, keys, bytes, scratch);
  }
  void check(const PlaneViews&, std::size_t) const final {}  // by read
};

// One whose planes are filled block by block, as those of a BlockQuantiser: what is said there of
// encode_block and encode_mixed holds here.
class CodedBlocks : public CodedQuantiser {
 public:
  virtual bool encode_block(std::span<const float> x, std::size_t from, const PlaneSpans& planes,
                            const Keys& keys) const = 0;
  virtual bool encode_mixed(const kernels::Mixed& block, std::size_t from, const PlaneSpans& planes,
                            const Keys& keys) const = 0;
  // Before the blocks of `count` entries, and after them: appends the planes as bytes.
  virtual void begin(std::size_t count, const PlaneSpans& planes, const Keys& keys) const = 0;
  virtual void end(const PlaneSpans& planes, Buffer& out) const = 0;

  const CodedBlocks* by_blocks() const final { return this; }

  bool write(std::span<const float> x, std::size_t, const PlaneSpans& planes, const Keys& keys,
             Buffer& out, StageScratch& scratch) const final {
    begin(x.size(), planes, keys);
    std::atomic<bool> finite = true;
    each_block(x.size(), scratch.pool, [&](std::size_t from, std::size_t count) {
      if (!encode_block(x.subspan(from, count), from, planes, keys)) finite = false;
    });
    if (finite) end(planes, out);
    return finite;
  }
};

}  // namespace laconic

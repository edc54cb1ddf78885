// Quantisers that must know something of all entries, such as a norm, before they can encode any,
// and then go block by block: both passes mix and read a block while it is in the first-level
// cache.
#pragma once

#include <atomic>

#include "laconic/kernels/reduce.h"
#include "laconic/operators/blocks.h"
#include "laconic/operators/stage.h"

namespace laconic {

class TwoPassQuantiser : public Quantiser {
 public:
  // The first pass: what is known of a block, at most kBlock entries from `from` on, a multiple of
  // kBlock. It may fill symbols that depend on nothing else.
  virtual kernels::Measures look(std::span<const float> x, std::size_t from,
                                 const PlaneSpans& planes) const = 0;
  // Between the passes: fills what comes before the symbols. `all` is of all entries, count > 0,
  // and finite.
  virtual void begin(const kernels::Measures& all, std::size_t count,
                     const PlaneSpans& planes) const = 0;
  // The second pass. Threads may look at and encode distinct blocks.
  virtual void encode_block(std::span<const float> x, std::size_t from, const PlaneSpans& planes,
                            const Keys& keys) const = 0;

  const TwoPassQuantiser* two_pass() const final { return this; }

  // Both passes over blocks that load(from, count, buffer) hands out; done(from, x) is called after
  // each block of the second. Returns false when some entry is NaN or Inf.
  template <class Load, class Done>
  bool encode_loaded(std::size_t size, Load load, const PlaneSpans& planes, const Keys& keys,
                     StageScratch& scratch, Done done) const {
    const auto blocks = scratch.measures.reset((size + kBlock - 1) / kBlock);
    each_block(size, scratch.pool, [&](std::size_t from, std::size_t count) {
      float buffer[kBlock];
      blocks[from / kBlock] = look({load(from, count, buffer), count}, from, planes);
    });
    kernels::Measures all = blocks[0];
    for (std::size_t i = 1; i < blocks.size(); ++i) all.join(blocks[i]);
    if (all.largest >= kernels::kInfinity) return false;
    begin(all, size, planes);
    each_block(size, scratch.pool, [&](std::size_t from, std::size_t count) {
      float buffer[kBlock];
      const std::span<const float> x(load(from, count, buffer), count);
      encode_block(x, from, planes, keys);
      done(from, x);
    });
    return true;
  }

  bool encode(std::span<const float> x, const PlaneSpans& planes, const Keys& keys,
              StageScratch& scratch) const final {
    if (x.size() <= kBlock) return x.empty() || encode_few(x, planes, keys);
    return encode_loaded(
        x.size(), [&](std::size_t from, std::size_t, float*) { return x.data() + from; }, planes,
        keys, scratch, [](std::size_t, std::span<const float>) {});
  }

  // The same for 1 to kBlock entries.
  bool encode_few(std::span<const float> x, const PlaneSpans& planes, const Keys& keys) const {
    const kernels::Measures all = look(x, 0, planes);
    if (all.largest >= kernels::kInfinity) return false;
    begin(all, x.size(), planes);
    encode_block(x, 0, planes, keys);
    return true;
  }
};

}  // namespace laconic

// Quantisers that sweep over all entries more than once, such as those that must know a norm before
// they can encode any: every sweep mixes and reads a block while it is in the first-level cache.
#pragma once

#include "laconic/kernels/reduce.h"
#include "laconic/kernels/stream.h"
#include "laconic/operators/block_quantiser.h"
#include "laconic/operators/blocks.h"
#include "laconic/operators/source.h"
#include "laconic/operators/stage.h"

namespace laconic {

// The entries, block by block, as often as a quantiser likes.
class Sweeps {
 public:
  explicit Sweeps(std::size_t size) : size_(size) {}
  virtual ~Sweeps() = default;
  std::size_t size() const { return size_; }
  // Entries from..from + count, at most kBlock of them: where they lie, or in `buffer`.
  virtual const float* load(std::size_t from, std::size_t count, float* buffer) const = 0;
  // Called for every block x after it was encoded: the last call counts.
  virtual void done(std::size_t /*from*/, std::span<const float> /*x*/) const {}
  // Whether `open` and `close`, as those of a Source, may stand for `load` and `done`.
  virtual bool mixes_and_leaves() const { return false; }
  virtual void open(std::size_t /*from*/, std::size_t /*count*/, MixedBlock& /*block*/) const {}
  virtual void close(std::size_t /*from*/, const MixedBlock& /*block*/) const {}
  // Whether a sweep before all others may leave x itself: after `kept`, `open` finds it there. From
  // `keep` on `load` does so, where it can.
  virtual bool keeps() const { return false; }
  virtual void keep() const {}
  virtual void kept() const {}

  // Calls use(from, x) for every block, on all threads.
  template <class Use>
  void each(Pool& pool, Use use, Order order = Order::forwards) const {
    each_block(
        size_, pool,
        [&](std::size_t from, std::size_t count) {
          float buffer[kBlock];
          use(from, std::span<const float>(load(from, count, buffer), count));
        },
        order);
  }
  // The same before all other sweeps, or use_mixed(from, block), which writes x as what is left.
  template <class Use, class UseMixed>
  void look_each(Pool& pool, Use use, UseMixed use_mixed) const {
    if (!keeps()) {
      keep();
      each(pool, use);
      return kept();
    }
    each_block(size_, pool, [&](std::size_t from, std::size_t count) {
      MixedBlock block;
      open(from, count, block);
      use_mixed(from, block.mixed);
      close(from, block);
    });
    kept();
  }
  // The same one after the other, on this thread, for what depends on the blocks before.
  template <class Use>
  void look_in_order(Use use) const {
    const bool keeps_x = keeps();
    for (std::size_t from = 0; from < size_; from += kBlock) {
      const std::size_t count = std::min(kBlock, size_ - from);
      float x[kBlock];
      if (!keeps_x) {
        use(from, std::span<const float>(load(from, count, x), count));
        continue;
      }
      MixedBlock block;
      open(from, count, block);
      block.mixed.x(x);
      use(from, std::span<const float>(x, count));
      block.mixed.keep(x);
      close(from, block);
    }
    if (!keeps_x) return;
    kernels::end_stream();
    kept();
  }

  // Every block is encoded, and what is left of it written: by encode(from, x), or by
  // encode_mixed(from, block), which does both. It goes backwards, as after a sweep of looking.
  template <class Encode, class EncodeMixed>
  void encode_each(Pool& pool, Encode encode, EncodeMixed encode_mixed) const {
    if (!mixes_and_leaves())
      return each(
          pool,
          [&](std::size_t from, std::span<const float> x) {
            encode(from, x);
            done(from, x);
          },
          Order::backwards);
    each_block(
        size_, pool,
        [&](std::size_t from, std::size_t count) {
          MixedBlock block;
          open(from, count, block);
          encode_mixed(from, block.mixed);
          close(from, block);
        },
        Order::backwards);
  }

 private:
  std::size_t size_;
};

// Those of an array.
class Plain : public Sweeps {
 public:
  explicit Plain(std::span<const float> x) : Sweeps(x.size()), x_(x.data()) {}
  const float* load(std::size_t from, std::size_t, float*) const override { return x_ + from; }

 private:
  const float* x_;
};

class SweepQuantiser : public Quantiser {
 public:
  // Fills the planes. Returns false when some entry is NaN or Inf.
  virtual bool encode_swept(const Sweeps& sweeps, const PlaneSpans& planes, const Keys& keys,
                            StageScratch& scratch) const = 0;
  // The same for 1 to kBlock entries.
  virtual bool encode_few(std::span<const float> x, const PlaneSpans& planes,
                          const Keys& keys) const = 0;
  // The same for what `block` mixes, writing block.left too.
  virtual bool encode_few_mixed(const kernels::Mixed& block, const PlaneSpans& planes,
                                const Keys& keys) const {
    return encode_then_leave(*this, block, 0, planes,
                             [&](std::span<const float> x) { return encode_few(x, planes, keys); });
  }

  const SweepQuantiser* sweeping() const final { return this; }

  bool encode(std::span<const float> x, const PlaneSpans& planes, const Keys& keys,
              StageScratch& scratch) const final {
    if (x.size() <= kBlock) return x.empty() || encode_few(x, planes, keys);
    return encode_swept(Plain(x), planes, keys, scratch);
  }
};

class TwoPassQuantiser : public SweepQuantiser {
 public:
  // The first pass: what is known of a block, at most kBlock entries from `from` on, a multiple of
  // kBlock. It may fill symbols that depend on nothing else.
  virtual kernels::Measures look(std::span<const float> x, std::size_t from,
                                 const PlaneSpans& planes) const = 0;
  // The same for what `block` mixes, writing x to block.left if there is one.
  virtual kernels::Measures look_mixed(const kernels::Mixed& block, std::size_t from,
                                       const PlaneSpans& planes) const {
    float x[kBlock];
    block.x(x);
    if (block.left) block.keep(x);
    return look({x, block.count}, from, planes);
  }
  // Between the passes: fills what comes before the symbols. `all` is of all entries, count > 0,
  // and finite.
  virtual void begin(const kernels::Measures& all, std::size_t count,
                     const PlaneSpans& planes) const = 0;
  // The second pass. Threads may look at and encode distinct blocks.
  virtual void encode_block(std::span<const float> x, std::size_t from, const PlaneSpans& planes,
                            const Keys& keys) const = 0;
  // The same for what `block` mixes, writing block.left too in one sweep; that may be block.fresh
  // itself. Returns false where it cannot, with nothing left yet.
  virtual bool encode_mixed(const kernels::Mixed& /*block*/, std::size_t /*from*/,
                            const PlaneSpans& /*planes*/, const Keys& /*keys*/) const {
    return false;
  }

  bool encode_swept(const Sweeps& sweeps, const PlaneSpans& planes, const Keys& keys,
                    StageScratch& scratch) const final {
    const auto blocks = scratch.measures.reset((sweeps.size() + kBlock - 1) / kBlock);
    sweeps.look_each(
        scratch.pool,
        [&](std::size_t from, std::span<const float> x) {
          blocks[from / kBlock] = look(x, from, planes);
        },
        [&](std::size_t from, const kernels::Mixed& block) {
          blocks[from / kBlock] = look_mixed(block, from, planes);
        });
    kernels::Measures all = blocks[0];
    for (std::size_t i = 1; i < blocks.size(); ++i) all.join(blocks[i]);
    if (all.largest >= kernels::kInfinity) return false;
    begin(all, sweeps.size(), planes);
    sweeps.encode_each(
        scratch.pool,
        [&](std::size_t from, std::span<const float> x) { encode_block(x, from, planes, keys); },
        [&](std::size_t from, const kernels::Mixed& block) {
          encode_and_leave(block, from, planes, keys);
        });
    return true;
  }

  bool encode_few(std::span<const float> x, const PlaneSpans& planes,
                  const Keys& keys) const final {
    if (!begin_few(look(x, 0, planes), x.size(), planes)) return false;
    encode_block(x, 0, planes, keys);
    return true;
  }

  bool encode_few_mixed(const kernels::Mixed& block, const PlaneSpans& planes,
                        const Keys& keys) const final {
    if (!begin_few(look_mixed(block.looked_at(), 0, planes), block.count, planes)) return false;
    encode_and_leave(block, 0, planes, keys);
    return true;
  }

 private:
  bool begin_few(const kernels::Measures& all, std::size_t count, const PlaneSpans& planes) const {
    if (all.largest >= kernels::kInfinity) return false;
    begin(all, count, planes);
    return true;
  }

  void encode_and_leave(const kernels::Mixed& block, std::size_t from, const PlaneSpans& planes,
                        const Keys& keys) const {
    if (encode_mixed(block, from, planes, keys)) return;
    encode_then_leave(*this, block, from, planes, [&](std::span<const float> x) {
      encode_block(x, from, planes, keys);
      return true;
    });
  }
};

}  // namespace laconic

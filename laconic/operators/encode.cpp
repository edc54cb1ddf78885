// Encoding: the entries through the stages of the chain, and what is left of them.
#include <algorithm>
#include <atomic>
#include <limits>

#include "laconic/base/errors.h"
#include "laconic/kernels/axpy.h"
#include "laconic/kernels/ones.h"
#include "laconic/kernels/reduce.h"
#include "laconic/kernels/stream.h"
#include "laconic/operators/block_quantiser.h"
#include "laconic/operators/chain.h"
#include "laconic/operators/coded_quantiser.h"
#include "laconic/operators/marked.h"
#include "laconic/operators/planes.h"
#include "laconic/operators/sweeps.h"

namespace laconic {
namespace {

// The entries as one array: where they lie, in what will be left, or in `memory`.
std::span<const float> materialise(const Source& source, Array<float>& memory, Pool& pool) {
  const std::size_t count = source.fresh.size();
  if (const float* x = source.as_it_lies()) return {x, count};
  float* to = source.left.array();
  if (!to) to = memory.reset(count).data();
  each_block(count, pool, [&](std::size_t from, std::size_t part) {
    const float* x = source.load(from, part, to + from);
    if (x != to + from) std::copy_n(x, part, to + from);
  });
  return {to, count};
}

// Makes what is left of one block: make(to, streams) writes `count` floats.
template <class Make>
void leave_block(const Floats& left, std::size_t from, std::size_t count, Make make) {
  float* array = left.array();
  if (array && left.size() >= kernels::kStreamed) return make(array + from, true);
  float buffer[kBlock];
  float* to = left.place(from, count, buffer);
  make(to, false);
  left.store(from, count, to);
}

// A source, scaled, and what is left of each block after it was encoded. What the first sweep mixes
// is kept where the rest will be left, and made into that in place: the second sweep then reads one
// array instead of two and finds the lines that it writes in the cache, which is worth more than
// writing twice costs.
class Mixing : public Sweeps {
 public:
  Mixing(const Source& source, float scale, const Quantiser& quantiser, const PlaneSpans& planes)
      : Sweeps(source.fresh.size()),
        source_(source),
        scale_(scale),
        quantiser_(quantiser),
        planes_(views(planes)) {}

  const float* load(std::size_t from, std::size_t count, float* buffer) const override {
    const float* x = whole(from, count, buffer);
    if (scale_ == 1) return x;
    if (keeping_)
      leave_block(source_.left, from, count, [&](float* to, bool streams) {
        streams ? kernels::stream_on(x, count, to) : void(std::copy_n(x, count, to));
      });
    kernels::scale(scale_, x, {buffer, count});
    return buffer;
  }

  bool mixes_and_leaves() const override { return scale_ == 1 && source_.mixes_and_leaves(); }
  void open(std::size_t from, std::size_t count, MixedBlock& block) const override {
    if (!kept_) return source_.open(from, count, block);
    float* x = source_.left.array() + from;
    block.mixed = kernels::Mixed{.count = count, .c = source_.c, .left = x}.again(x);
  }
  void close(std::size_t from, const MixedBlock& block) const override {
    if (!kept_) source_.close(from, block);
  }
  bool keeps() const override { return scale_ == 1 && leaves_array(); }
  void keep() const override { keeping_ = leaves_array(); }
  void kept() const override {
    keeping_ = false;
    kept_ = leaves_array();
  }

  void done(std::size_t from, std::span<const float> x) const override {
    if (source_.left.empty()) return;
    float buffer[kBlock];
    const std::span<const float> entries(scale_ == 1 ? x.data() : whole(from, x.size(), buffer),
                                         x.size());
    if (kept_) {
      const std::span left(source_.left.array() + from, x.size());
      quantiser_.add(planes_, from, -1, left);
      if (source_.c != 1) kernels::scale(source_.c, left.data(), left);
      return;
    }
    leave_block(source_.left, from, x.size(), [&](float* to, bool streams) {
      leave_of(quantiser_, planes_, from, source_.c, entries, streams, to);
    });
  }

 private:
  bool leaves_array() const { return source_.mixes_and_leaves() && source_.left.array(); }
  // Entries before they are scaled.
  const float* whole(std::size_t from, std::size_t count, float* buffer) const {
    return kept_ ? source_.left.array() + from : source_.load(from, count, buffer);
  }

  const Source& source_;
  float scale_;
  const Quantiser& quantiser_;
  PlaneViews planes_;
  mutable bool keeping_ = false, kept_ = false;  // set between two sweeps
};

// Fills the planes of a source, scaled, and writes what is left of it. Returns false when it holds
// NaN or Inf.
template <class Blocks>
bool each_encoded(const Blocks& quantiser, const Source& source, float scale,
                  const PlaneSpans& planes, const Keys& keys, Pool& pool) {
  const bool mixes = scale == 1 && source.mixes_and_leaves();
  std::atomic<bool> finite = true;
  each_block(source.fresh.size(), pool, [&](std::size_t from, std::size_t count) {
    if (mixes) {
      MixedBlock block;
      source.open(from, count, block);
      if (!quantiser.encode_mixed(block.mixed, from, planes, keys)) finite = false;
      return source.close(from, block);
    }
    float buffer[kBlock], scaled[kBlock];
    const float* x = source.load(from, count, buffer);
    if (scale != 1) kernels::scale(scale, x, {scaled, count});
    if (!quantiser.encode_block({scale != 1 ? scaled : x, count}, from, planes, keys))
      finite = false;
    else if (!source.left.empty())
      leave_block(source.left, from, count, [&](float* to, bool streams) {
        leave_of(quantiser, views(planes), from, source.c, {x, count}, streams, to);
      });
  });
  return finite;
}

// Planes at the end of a section.
PlaneSpans append(const PlaneShapes& shapes, Buffer& out) {
  const std::size_t size = shapes.size();
  return cut(std::span(out.grow(size), size), shapes);
}

}  // namespace

void Operator::require_few(std::size_t count) const {
  if (chain_->has_positions && count > kMostPositions)
    throw UsageError("'" + spec() + "' takes slices of up to " + std::to_string(kMostPositions) +
                     " entries, not " + std::to_string(count) + "; a layout can cut them");
}

// Appends the planes of x, and returns them for as long as nothing else is appended; nothing when x
// holds NaN or Inf: something may have been appended then.
std::optional<PlaneViews> Operator::encode_planes(std::span<const float> x, std::size_t cols,
                                                  Buffer& out, const Keys& keys,
                                                  Scratch& scratch) const {
  const auto shapes = chain_->quantiser->planes(x.size());
  if (const CodedQuantiser* coded = chain_->quantiser->coded()) {
    const auto planes = place(shapes, scratch.planes_);
    if (!x.empty() && !coded->write(x, cols, planes, keys, out, scratch)) return {};
    return views(planes);
  }
  const auto planes = chain_->coder ? place(shapes, scratch.planes_) : append(shapes, out);
  if (!chain_->quantiser->encode(x, planes, keys, scratch)) return {};
  if (chain_->coder) chain_->coder->encode(shapes, views(planes), out, scratch);
  return views(planes);
}

// Behind a selector: it looks at all entries, everything else at the few that it keeps.
bool Operator::encode_chosen(const Source& source, Buffer& out, const Keys& keys,
                             Scratch& scratch) const {
  const std::size_t count = source.fresh.size();
  Entries entries(source, chain_->scale(count), scratch.mixed_, scratch.parts, scratch.pool);
  Picked& kept = scratch.kept_;
  const std::size_t most = chain_->selector->most(count);
  kept.make_room(most);  // once: how many are kept differs from step to step
  scratch.candidates.make_room(most);
  if (!chain_->selector->select(entries, keys, kept, scratch)) return false;
  if (kept.marked) return encode_marked(entries, kept, out, keys, scratch);
  chain_->selector->write(kept.positions.view(), count, out);
  constexpr float kMost = std::numeric_limits<float>::max();
  if (const float factor = chain_->selector->factor(count); factor != 1)
    for (float& value : kept.values.span()) value = std::clamp(value * factor, -kMost, kMost);
  const auto planes = encode_planes(kept.values.view(), 1, out, keys, scratch);
  if (!planes) return false;
  if (source.left.empty()) return true;
  std::ranges::fill(kept.values.span(), 0.0F);
  if (kept.size() > 0) chain_->quantiser->add(*planes, 0, 1, kept.values.span());
  entries.leave(kept.positions.view(), kept.values.span());
  return true;
}

// The same for entries that are marked: what the quantiser sees of them is taken once their number
// is known, which says where in the section it goes.
bool Operator::encode_marked(Entries& entries, Picked& kept, Buffer& out, const Keys& keys,
                             Scratch& scratch) const {
  const std::size_t count = entries.size();
  const auto marks = kept.marks.view();
  index_marks(marks, count, kept.first);
  const std::size_t number = kept.first.view().back();
  chain_->selector->write_marks(marks, number, count, kept.positions, out);
  std::optional<PlaneViews> planes;
  if (chain_->plain && !chain_->coder) {
    const auto to = append(chain_->quantiser->planes(number), out);
    entries.take(marks, kept.first.view(), to[0].data());
    planes = views(to);
  } else {
    const auto values = kept.values.reset(number);
    entries.take(marks, kept.first.view(), reinterpret_cast<std::uint8_t*>(values.data()));
    planes = encode_planes(values, 1, out, keys, scratch);
  }
  if (!planes) return false;
  if (!entries.is_left() || number == 0) return true;
  if (float* left = entries.left_in_place()) {
    const Marked decoded{marks.data(), kept.first.view(), *chain_->quantiser, *planes};
    constexpr std::size_t kPiece = 16 * kBlock;  // entries one thread takes at a time
    scratch.pool.each((count + kPiece - 1) / kPiece, [&](std::size_t piece, unsigned) {
      const std::size_t from = piece * kPiece;
      decoded.add(from, std::min(count, from + kPiece), -1, left + from);
    });
    return true;
  }
  kernels::positions_of(marks, kept.positions.reset(number + kernels::kSpareOnes).data());
  const auto values = kept.values.reset(number);
  std::ranges::fill(values, 0.0F);
  chain_->quantiser->add(*planes, 0, 1, values);
  entries.leave(kept.positions.view().first(number), values);
  return true;
}

// Block by block: mixed, encoded and subtracted while it is in the first-level cache.
bool Operator::encode_blocks(const Source& source, Buffer& out, const Keys& keys,
                             Scratch& scratch) const {
  const BlockQuantiser& quantiser = *chain_->quantiser->blockwise();
  const std::size_t size = source.fresh.size();
  const auto shapes = quantiser.planes(size);
  const auto planes = chain_->coder ? place(shapes, scratch.planes_) : append(shapes, out);
  if (!each_encoded(quantiser, source, chain_->scale(size), planes, keys, scratch.pool))
    return false;
  if (chain_->coder) chain_->coder->encode(shapes, views(planes), out, scratch);
  return true;
}

// The same for one that writes its bytes itself.
bool Operator::encode_coded_blocks(const Source& source, Buffer& out, const Keys& keys,
                                   Scratch& scratch) const {
  const CodedBlocks& quantiser = *chain_->quantiser->coded()->by_blocks();
  const std::size_t size = source.fresh.size();
  const auto planes = place(quantiser.planes(size), scratch.planes_);
  quantiser.begin(size, planes, keys);
  if (!each_encoded(quantiser, source, chain_->scale(size), planes, keys, scratch.pool))
    return false;
  quantiser.end(planes, out);
  return true;
}

// Sweep by sweep, mixed anew each time unless the first keeps it.
bool Operator::encode_swept(const Source& source, Buffer& out, const Keys& keys,
                            Scratch& scratch) const {
  const SweepQuantiser& quantiser = *chain_->quantiser->sweeping();
  const std::size_t size = source.fresh.size();
  const auto shapes = quantiser.planes(size);
  const auto planes = chain_->coder ? place(shapes, scratch.planes_) : append(shapes, out);
  const Mixing mixing(source, chain_->scale(size), quantiser, planes);
  if (!quantiser.encode_swept(mixing, planes, keys, scratch)) return false;
  if (chain_->coder) chain_->coder->encode(shapes, views(planes), out, scratch);
  return true;
}

// As one array, for quantisers that must see all entries before they can encode any.
bool Operator::encode_whole(const Source& source, Buffer& out, const Keys& keys,
                            Scratch& scratch) const {
  const auto x = materialise(source, scratch.mixed_, scratch.pool);
  auto scaled = x;
  if (const float scale = chain_->scale(x.size()); scale != 1) {
    kernels::scale(scale, x.data(), scratch.scaled_.reset(x.size()));
    scaled = scratch.scaled_.view();
  }
  const auto planes = encode_planes(scaled, source.cols, out, keys, scratch);
  if (planes && !source.left.empty())
    each_block(x.size(), scratch.pool, [&](std::size_t from, std::size_t count) {
      leave_block(source.left, from, count, [&](float* to, bool streams) {
        leave_of(*chain_->quantiser, *planes, from, source.c, x.subspan(from, count), streams, to);
      });
    });
  return planes.has_value();
}

Encoded Operator::encode(const Source& source, Buffer& out, const Keys& keys,
                         Scratch& scratch) const {
  source.require_sizes();
  require_few(source.fresh.size());
  if (source.fresh.empty()) return {};
  const std::size_t start = out.size();
  const CodedQuantiser* coded = chain_->quantiser->coded();
  const bool finite = chain_->selector                 ? encode_chosen(source, out, keys, scratch)
                      : chain_->quantiser->blockwise() ? encode_blocks(source, out, keys, scratch)
                      : chain_->quantiser->sweeping()  ? encode_swept(source, out, keys, scratch)
                      : coded && coded->by_blocks()
                          ? encode_coded_blocks(source, out, keys, scratch)
                          : encode_whole(source, out, keys, scratch);
  if (!finite) out.truncate(start);
  return {.finite = finite};
}

bool Operator::encode(std::span<const float> x, Buffer& out, const Keys& keys,
                      Scratch& scratch) const {
  return encode(Source{.fresh = x}, out, keys, scratch).finite;
}

}  // namespace laconic

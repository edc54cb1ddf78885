// A quantiser around another: levels pass through a block on the stack.
#include "laconic/operators/packed_levels.h"

#include <algorithm>
#include <utility>

#include "laconic/codecs/levels.h"
#include "laconic/kernels/level_bits.h"
#include "laconic/kernels/stream.h"
#include "laconic/operators/block_quantiser.h"
#include "laconic/operators/sweeps.h"

namespace laconic {
namespace {

// The number of the plane of levels; none: kMostPlanes.
std::size_t levels_among(const PlaneShapes& shapes) {
  for (std::size_t i = 0; i < shapes.count; ++i)
    if (shapes.shape[i].most > 0) return i;
  return kMostPlanes;
}

template <class Base>
class Packed : public Base {
 public:
  Packed(std::shared_ptr<const Base> inner, unsigned bits)
      : inner_(std::move(inner)),
        bits_(bits),
        number_(levels_among(inner_->planes(1))),
        most_(inner_->planes(1).shape[number_].most),
        block_(inner_->planes(kBlock)) {}

  PlaneShapes planes(std::size_t count) const override {
    PlaneShapes shapes = inner_->planes(count);
    shapes.shape[number_].width = bits_;
    shapes.shape[number_].most = 0;
    return shapes;
  }

  void encode_levels(std::size_t from, std::size_t count, const std::int8_t* levels,
                     const PlaneSpans& planes) const {
    kernels::put_levels(levels, count, bits_, planes[number_].data() + from / 8 * bits_);
  }

  void check(const PlaneViews& planes, std::size_t count) const override {
    std::int8_t levels[kBlock];
    for (std::size_t from = 0; from < count; from += kBlock) {
      const std::size_t part = std::min(kBlock, count - from);
      require_within(take(planes, from, part, levels), most_);
      inner_->check(of_block(planes, from, part, std::as_const(levels)), part);
    }
  }

  void add(const PlaneViews& planes, std::size_t from, float weight,
           std::span<float> y) const override {
    in_blocks(from, from + y.size(), kBlock,
              [&](std::size_t block, std::size_t begin, std::size_t count) {
                std::int8_t levels[kBlock];
                const std::size_t start = block * kBlock, skipped = (begin - start) / 8 * 8;
                const std::size_t end = begin - start + count;
                take(planes, start + skipped, end - skipped, levels + skipped);
                inner_->add(of_block(planes, start, end, std::as_const(levels)), begin - start,
                            weight, y.subspan(begin - from, count));
              });
  }

  bool encode_mixed(const kernels::Mixed& block, std::size_t from, const PlaneSpans& planes,
                    const Keys& keys) const override {
    std::int8_t levels[kBlock];
    if (!inner_->encode_mixed(block, 0, of_block(planes, from, block.count, levels),
                              keys.at(keys.first + from)))
      return false;
    encode_levels(from, block.count, levels, planes);
    return true;
  }

  Traits traits(std::size_t count) const override { return inner_->traits(count); }

 protected:
  // The planes of entries from a block's first on, whose levels are `levels`. What a quantiser of
  // two passes has beside levels is of all entries.
  template <class Planes, class Level>
  Planes of_block(const Planes& planes, std::size_t from, std::size_t count, Level* levels) const {
    using Byte = typename Planes::value_type::element_type;
    Planes mine = planes;
    for (std::size_t i = 0; this->blockwise() && i < block_.count; ++i)
      if (i != number_) mine[i] = mine[i].subspan(from / kBlock * block_.shape[i].size());
    mine[number_] = {reinterpret_cast<Byte*>(levels), count};
    return mine;
  }

  std::shared_ptr<const Base> inner_;
  unsigned bits_;
  std::size_t number_;
  std::int32_t most_;
  PlaneShapes block_;  // of a whole block

 private:
  // Returns the largest symbol. Bits after the last are not looked at.
  std::uint8_t take(const PlaneViews& planes, std::size_t from, std::size_t count,
                    std::int8_t* levels) const {
    const std::uint8_t* packed = planes[number_].data() + from / 8 * bits_;
    for (std::size_t at = 0; at < count / 8 * bits_; at += 64)  // of the block after the next
      kernels::fetch_ahead(packed + kBlock / 4 * bits_ + at);
    return kernels::take_levels(packed, count, bits_, levels);
  }
};

class PackedBlocks : public Packed<BlockQuantiser> {
 public:
  using Packed::Packed;

  bool encode_block(std::span<const float> x, std::size_t from, const PlaneSpans& planes,
                    const Keys& keys) const override {
    std::int8_t levels[kBlock];
    if (!inner_->encode_block(x, 0, of_block(planes, from, x.size(), levels),
                              keys.at(keys.first + from)))
      return false;
    encode_levels(from, x.size(), levels, planes);
    return true;
  }
};

class PackedSweeps : public Packed<TwoPassQuantiser> {
 public:
  using Packed::Packed;

  // Levels wait for the norm.
  kernels::Measures look(std::span<const float> x, std::size_t from,
                         const PlaneSpans&) const override {
    return inner_->look(x, from, {});
  }
  kernels::Measures look_mixed(const kernels::Mixed& block, std::size_t from,
                               const PlaneSpans&) const override {
    return inner_->look_mixed(block, from, {});
  }
  void begin(const kernels::Measures& all, std::size_t count,
             const PlaneSpans& planes) const override {
    inner_->begin(all, count, planes);
  }

  void encode_block(std::span<const float> x, std::size_t from, const PlaneSpans& planes,
                    const Keys& keys) const override {
    std::int8_t levels[kBlock];
    inner_->encode_block(x, 0, of_block(planes, from, x.size(), levels),
                         keys.at(keys.first + from));
    encode_levels(from, x.size(), levels, planes);
  }
};

}  // namespace

std::shared_ptr<const Quantiser> packed_levels(const std::shared_ptr<const Quantiser>& inner,
                                               unsigned bits) {
  if (const auto* blocks = inner->blockwise())
    return std::make_shared<PackedBlocks>(std::shared_ptr<const BlockQuantiser>(inner, blocks),
                                          bits);
  if (const auto sweeps = std::dynamic_pointer_cast<const TwoPassQuantiser>(inner))
    return std::make_shared<PackedSweeps>(sweeps, bits);
  return {};
}

}  // namespace laconic

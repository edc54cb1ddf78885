// A quantiser around another: levels pass through a block on the stack.
#include "laconic/operators/packed_levels.h"

#include <algorithm>
#include <utility>

#include "laconic/codecs/levels.h"
#include "laconic/kernels/level_bits.h"
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
        most_(inner_->planes(1).shape[number_].most) {}

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

  Traits traits(std::size_t count) const override { return inner_->traits(count); }

 protected:
  // The planes of the block's entries alone, whose levels are `levels`. What a quantiser of two
  // passes has beside levels is of all entries.
  template <class Planes, class Level>
  Planes of_block(const Planes& planes, std::size_t from, std::size_t count, Level* levels) const {
    using Byte = typename Planes::value_type::element_type;
    Planes mine = planes;
    if (this->blockwise() && from > 0) {
      const PlaneShapes before = inner_->planes(from);
      for (std::size_t i = 0; i < before.count; ++i)
        if (i != number_) mine[i] = mine[i].subspan(before.shape[i].size());
    }
    if (this->blockwise()) {
      const PlaneShapes here = inner_->planes(count);
      for (std::size_t i = 0; i < here.count; ++i)
        if (i != number_) mine[i] = mine[i].first(here.shape[i].size());
    }
    mine[number_] = {reinterpret_cast<Byte*>(levels), count};
    return mine;
  }

  std::shared_ptr<const Base> inner_;
  unsigned bits_;
  std::size_t number_;
  std::int32_t most_;

 private:
  // Returns the largest symbol. Bits after the last are not looked at.
  std::uint8_t take(const PlaneViews& planes, std::size_t from, std::size_t count,
                    std::int8_t* levels) const {
    return kernels::take_levels(planes[number_].data() + from / 8 * bits_, count, bits_, levels);
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

  bool encode_mixed(const kernels::Mixed& block, std::size_t from, const PlaneSpans& planes,
                    const Keys& keys) const override {
    std::int8_t levels[kBlock];
    if (!inner_->encode_mixed(block, 0, of_block(planes, from, block.count, levels),
                              keys.at(keys.first + from)))
      return false;
    encode_levels(from, block.count, levels, planes);
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

  bool encode_mixed(const kernels::Mixed& block, std::size_t from, const PlaneSpans& planes,
                    const Keys& keys) const override {
    std::int8_t levels[kBlock];
    if (!inner_->encode_mixed(block, 0, of_block(planes, from, block.count, levels),
                              keys.at(keys.first + from)))
      return false;
    encode_levels(from, block.count, levels, planes);
    return true;
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

// entropy: each plane Huffman-coded, or left as it is where that is not smaller. Lossless.
//
// On real gradients the exponent plane of natural compression holds about 3.1 bits of entropy in
// its 8, and the signs of zeros are left out, so natural+entropy takes about 4.2 bits per entry
// instead of 9.
//
// Levels become symbols in zigzag order, as narrow as the largest one there is allows: 1, 2, 4, 8,
// 16 or 32 bits, so that a byte of small ones holds several and Huffman's least of one bit is for
// all of them together.
#include "laconic/codecs/entropy.h"

#include <algorithm>
#include <bit>

#include "laconic/base/errors.h"
#include "laconic/codecs/levels.h"
#include "laconic/codecs/masked.h"
#include "laconic/codecs/varint.h"
#include "laconic/operators/stage.h"

namespace laconic {
namespace {

// Byte `lane` of every symbol of 2 or 4 bytes, and back. Compilers make vector code of these loops.
template <std::size_t kLanes>
void take_lane(const std::uint8_t* __restrict symbols, std::size_t lane,
               std::span<std::uint8_t> bytes) {
  std::uint8_t* __restrict to = bytes.data();
  for (std::size_t i = 0; i < bytes.size(); ++i) to[i] = symbols[i * kLanes + lane];
}
template <std::size_t kLanes>
void put_lanes(const std::uint8_t* __restrict bytes, std::size_t count,
               std::uint8_t* __restrict symbols) {
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t lane = 0; lane < kLanes; ++lane)
      symbols[i * kLanes + lane] = bytes[lane * count + i];
}

// Planes of 16 or 32 bits are coded a byte position at a time: exponents are predictable, low
// mantissa bytes are not.
class EntropyCoder : public Coder {
 public:
  std::size_t min_size(const PlaneShapes& shapes) const override {
    std::size_t sum = 0;
    for (std::size_t i = 0; i < shapes.count; ++i) {
      const PlaneShape& shape = shapes.shape[i];
      if (shape.wide) continue;
      if (shape.most > 0)
        sum += shape.count > 0 ? 1 : 0;
      else if (shape.only_where < 0)
        sum += Entropy::min_size(shape.size());
    }
    return sum;
  }

  std::size_t max_size(const PlaneShapes& shapes) const override {
    std::size_t sum = 0;
    for (std::size_t i = 0; i < shapes.count; ++i) {
      const PlaneShape& shape = shapes.shape[i];
      if (shape.wide) continue;
      const std::size_t lanes = shape.most > kernels::kMostSmall ? 4 : lanes_of(shape);
      sum += lanes * Entropy::max_size(shape.most > 0 ? shape.count : shape.size() / lanes);
      if (shape.most > 0) sum += varint_size(~std::uint32_t{0});
    }
    return sum;
  }

  void encode(const PlaneShapes& shapes, const PlaneViews& planes, Buffer& out,
              StageScratch& scratch) const override {
    for (std::size_t i = 0; i < shapes.count; ++i) {
      const PlaneShape& shape = shapes.shape[i];
      if (shape.wide) continue;
      if (shape.most > 0) {
        encode_levels({levels_of(planes, i), shape.count, shape.most}, out, scratch);
        continue;
      }
      const std::size_t lanes = lanes_of(shape);
      for (std::size_t lane = 0; lane < lanes; ++lane) {
        if (lanes > 1) {
          const std::uint8_t* symbols = planes[i].data();
          scratch.entropy.encode_made(
              shape.count,
              [&](std::size_t from, std::span<std::uint8_t> bytes) {
                (lanes == 2 ? take_lane<2> : take_lane<4>)(symbols + from * lanes, lane, bytes);
              },
              out, scratch.pool);
          continue;
        }
        ByteView bytes = planes[i];
        if (shape.only_where >= 0) {
          scratch.spare.clear();
          compact_bits(planes[i], planes[static_cast<std::size_t>(shape.only_where)],
                       scratch.spare);
          bytes = scratch.spare.view();
        }
        scratch.entropy.encode(bytes, out, scratch.pool);
      }
    }
  }

  void decode(ByteView section, const PlaneShapes& shapes, const PlaneSpans& planes,
              StageScratch& scratch) const override {
    for (std::size_t i = 0; i < shapes.count; ++i) {
      const PlaneShape& shape = shapes.shape[i];
      const std::size_t lanes = lanes_of(shape);
      if (shape.wide) continue;
      if (shape.most > 0) {
        section = decode_levels(section, {levels_of(planes, i), shape.count, shape.most}, scratch);
      } else if (shape.only_where >= 0) {
        const ByteView mask = planes[static_cast<std::size_t>(shape.only_where)];
        const auto bits = scratch.spare.reset(packed_size(1, count_nonzero(mask)));
        section = scratch.entropy.decode(section, bits, scratch.pool);
        expand_bits(bits, mask, planes[i]);
      } else if (lanes == 1) {
        section = scratch.entropy.decode(section, planes[i], scratch.pool);
      } else {
        const auto all = scratch.spare.reset(lanes * shape.count);
        for (std::size_t lane = 0; lane < lanes; ++lane)
          section = scratch.entropy.decode(section, all.subspan(lane * shape.count, shape.count),
                                           scratch.pool);
        (lanes == 2 ? put_lanes<2> : put_lanes<4>)(all.data(), shape.count, planes[i].data());
      }
    }
    if (!section.empty())
      throw DataError("an entropy-coded section has " + std::to_string(section.size()) +
                      " bytes after its end");
  }

 private:
  // The narrowest of the widths that symbols up to `largest` fit in.
  static unsigned width_of(std::uint32_t largest) {
    const auto bits = static_cast<unsigned>(std::bit_width(largest));
    return bits <= 2 ? bits : std::bit_ceil(bits);
  }

  static void encode_levels(const Levels& levels, Buffer& out, StageScratch& scratch) {
    if (levels.count == 0) return;
    std::uint32_t largest = 0;
    for (std::size_t from = 0; from < levels.count; from += kLevelPiece) {
      std::uint8_t symbols[kLevelPiece];
      const std::size_t part = std::min(kLevelPiece, levels.count - from);
      largest = std::max<std::uint32_t>(largest, zigzag(levels.at.small + from, part, symbols));
    }
    if (largest == 255)
      for (std::size_t i = 0; i < levels.count; ++i) largest = std::max(largest, zigzag(levels[i]));
    put_varint(largest, out);
    const unsigned width = width_of(largest), part = std::min(width, 8U);
    for (unsigned lane = 0; lane < width; lane += 8) {
      const auto packed = scratch.spare.reset(packed_size(part, levels.count));
      if (width <= 8) {
        pack_levels(levels, width, packed.data(), scratch.pool);
      } else {
        for (std::size_t i = 0; i < levels.count; ++i)
          packed[i] = static_cast<std::uint8_t>(zigzag(levels[i]) >> lane);
      }
      scratch.entropy.encode(packed, out, scratch.pool);
    }
  }

  static ByteView decode_levels(ByteView section, const LevelsTo& levels, StageScratch& scratch) {
    if (levels.count == 0) return section;
    ByteReader in(section);
    const std::uint64_t claimed = in.varint("the largest level"),
                        most = 2 * static_cast<std::uint64_t>(levels.most);
    section = in.rest();
    if (claimed > most)
      throw DataError("a largest level of " + std::to_string(claimed) + "; allowed: up to " +
                      std::to_string(most));
    const unsigned width = width_of(static_cast<std::uint32_t>(claimed)),
                   part = std::min(width, 8U);
    const std::size_t size = packed_size(part, levels.count), lanes = (width + 7) / 8;
    const auto packed = scratch.spare.reset(lanes * size);
    for (std::size_t lane = 0; lane < lanes; ++lane)
      section = scratch.entropy.decode(section, packed.subspan(lane * size, size), scratch.pool);
    const std::uint32_t largest = width == 0   ? 0
                                  : width <= 8 ? unpack_levels(packed, width, levels)
                                               : unpack_wide(packed, lanes, claimed, levels);
    if (width == 0) std::ranges::fill(levels.small(), std::int8_t{0});
    if (largest != claimed)
      throw DataError("the largest level is " + std::to_string(largest) + ", not " +
                      std::to_string(claimed) + " as the section says");
    return section;
  }

  // Returns the largest symbol; what is beyond that claimed is not a level.
  static std::uint32_t unpack_wide(ByteView packed, std::size_t lanes, std::uint64_t claimed,
                                   const LevelsTo& levels) {
    std::uint32_t largest = 0;
    for (std::size_t i = 0; i < levels.count; ++i) {
      std::uint32_t symbol = 0;
      for (std::size_t lane = 0; lane < lanes; ++lane)
        symbol |= static_cast<std::uint32_t>(packed[lane * levels.count + i]) << (8 * lane);
      largest = std::max(largest, symbol);
      if (symbol <= claimed) levels.at.set(i, unzigzag(symbol));
    }
    return largest;
  }

  static std::size_t lanes_of(const PlaneShape& shape) {
    return shape.width > 8 ? shape.width / 8 : 1;
  }
};

const RegisterStage entropy{{
    .name = "entropy",
    .role = Role::coder,
    .summary = "Huffman-codes each plane of symbols, never larger by more than three bytes per "
               "262144.",
    .paper = "lossless; Huffman, A Method for the Construction of Minimum-Redundancy Codes (1952)",
    .parameters = {},
    .bits = "each plane's Huffman code, at most the plane + 24 per 262,144 bytes",
    .examples = {"natural+entropy", "entropy", "grid:0.125+entropy", "qsgd:64+entropy",
                 "terngrad+entropy"},
    .make = [](const Args&) -> Stage { return std::make_shared<EntropyCoder>(); },
}};

}  // namespace
}  // namespace laconic

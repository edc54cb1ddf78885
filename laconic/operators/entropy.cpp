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

// Planes of 16 or 32 bits are coded a byte position at a time: exponents are predictable, low
// mantissa bytes are not.
class EntropyCoder : public Coder {
 public:
  std::size_t min_size(const PlaneShapes& shapes) const override {
    std::size_t sum = 0;
    for (std::size_t i = 0; i < shapes.count; ++i) {
      const PlaneShape& shape = shapes.shape[i];
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
      const std::size_t lanes = lanes_of(shapes.shape[i]);
      sum += lanes * Entropy::max_size(shapes.shape[i].size() / lanes);
      if (shapes.shape[i].most > 0) sum += varint_size(~std::uint32_t{0});
    }
    return sum;
  }

  void encode(const PlaneShapes& shapes, const PlaneViews& planes, Buffer& out,
              StageScratch& scratch) const override {
    for (std::size_t i = 0; i < shapes.count; ++i) {
      const PlaneShape& shape = shapes.shape[i];
      if (shape.most > 0) {
        encode_levels(levels_of(planes[i]), out, scratch);
        continue;
      }
      const std::size_t lanes = lanes_of(shape);
      for (std::size_t lane = 0; lane < lanes; ++lane) {
        ByteView bytes = planes[i];
        if (shape.only_where >= 0) {
          scratch.spare.clear();
          compact_bits(planes[i], planes[static_cast<std::size_t>(shape.only_where)],
                       scratch.spare);
          bytes = scratch.spare.view();
        } else if (lanes > 1) {
          const auto one = scratch.spare.reset(shape.count);
          for (std::size_t j = 0; j < one.size(); ++j) one[j] = planes[i][j * lanes + lane];
          bytes = one;
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
      if (shape.most > 0) {
        section = decode_levels(section, shape.most, {levels_of(planes[i]), shape.count}, scratch);
      } else if (shape.only_where >= 0) {
        const ByteView mask = planes[static_cast<std::size_t>(shape.only_where)];
        const auto bits = scratch.spare.reset(packed_size(1, count_nonzero(mask)));
        section = scratch.entropy.decode(section, bits, scratch.pool);
        expand_bits(bits, mask, planes[i]);
      } else if (lanes == 1) {
        section = scratch.entropy.decode(section, planes[i], scratch.pool);
      } else {
        const auto one = scratch.spare.reset(shape.count);
        for (std::size_t lane = 0; lane < lanes; ++lane) {
          section = scratch.entropy.decode(section, one, scratch.pool);
          for (std::size_t j = 0; j < one.size(); ++j) planes[i][j * lanes + lane] = one[j];
        }
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

  static void encode_levels(std::span<const std::int32_t> levels, Buffer& out,
                            StageScratch& scratch) {
    if (levels.empty()) return;
    std::uint32_t largest = 0;
    for (const std::int32_t level : levels) largest = std::max(largest, zigzag(level));
    put_varint(largest, out);
    const unsigned width = width_of(largest);
    for (unsigned lane = 0; lane < width; lane += 8) {
      scratch.spare.clear();
      scratch.spare.reserve(packed_size(std::min(width, 8U), levels.size()));
      BitWriter bits(scratch.spare);
      const unsigned part = std::min(width, 8U);
      for (const std::int32_t level : levels)
        bits.put(zigzag(level) >> lane & ((1U << part) - 1), part);
      bits.finish();
      scratch.entropy.encode(scratch.spare.view(), out, scratch.pool);
    }
  }

  static ByteView decode_levels(ByteView section, std::int32_t most, std::span<std::int32_t> levels,
                                StageScratch& scratch) {
    if (levels.empty()) return section;
    ByteReader in(section);
    const std::uint64_t claimed = in.varint("the largest level");
    section = in.rest();
    if (claimed > 2 * static_cast<std::uint64_t>(most))
      throw DataError("a largest level of " + std::to_string(claimed) + "; allowed: up to " +
                      std::to_string(2 * static_cast<std::uint64_t>(most)));
    const unsigned width = width_of(static_cast<std::uint32_t>(claimed));
    std::ranges::fill(levels, 0);
    for (unsigned lane = 0; lane < width; lane += 8) {
      const unsigned part = std::min(width, 8U);
      const auto packed = scratch.spare.reset(packed_size(part, levels.size()));
      section = scratch.entropy.decode(section, packed, scratch.pool);
      BitReader bits(packed);
      for (std::int32_t& level : levels) level |= static_cast<std::int32_t>(bits.get(part) << lane);
      bits.expect_end();
    }
    std::uint32_t largest = 0;
    for (std::int32_t& level : levels) {
      const auto symbol = static_cast<std::uint32_t>(level);
      largest = std::max(largest, symbol);
      level = unzigzag(symbol);
    }
    if (largest != claimed)
      throw DataError("the largest level is " + std::to_string(largest) + ", not " +
                      std::to_string(claimed) + " as the section says");
    return section;
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

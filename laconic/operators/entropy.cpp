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
#include <atomic>
#include <bit>

#include "laconic/base/errors.h"
#include "laconic/codecs/levels.h"
#include "laconic/codecs/masked.h"
#include "laconic/codecs/varint.h"
#include "laconic/kernels/lanes.h"
#include "laconic/kernels/split_bytes.h"
#include "laconic/kernels/wide_bits.h"
#include "laconic/operators/stage.h"

namespace laconic {
namespace {

// Planes of 16 or 32 bits are coded a byte position at a time, turned so that the sign is lowest:
// exponents are predictable, signs and low mantissa bytes are not.
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
        sum += Entropy::min_size(symbols_of(shape), lanes_of(shape));
    }
    return sum;
  }

  std::size_t max_size(const PlaneShapes& shapes) const override {
    std::size_t sum = 0;
    for (std::size_t i = 0; i < shapes.count; ++i) {
      const PlaneShape& shape = shapes.shape[i];
      if (shape.wide) continue;
      const std::size_t lanes = shape.most > kernels::kMostSmall ? 4 : lanes_of(shape);
      sum += Entropy::max_size(shape.most > 0 ? shape.count : symbols_of(shape), lanes);
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
      if (const std::size_t lanes = lanes_of(shape); lanes > 1) {
        const std::uint8_t* symbols = planes[i].data();
        scratch.entropy.encode_lanes(
            shape.count, lanes,
            [&](std::size_t from, std::size_t number, const Entropy::Lanes& to) {
              kernels::take_lanes(symbols + from * lanes, number, lanes, to.data());
            },
            out, scratch.pool);
        continue;
      }
      if (is_apart(shape)) {
        encode_apart(shape, planes[i], out, scratch);
        continue;
      }
      ByteView bytes = planes[i];
      if (shape.only_where >= 0) {
        scratch.spare.clear();
        compact_bits(planes[i], planes[static_cast<std::size_t>(shape.only_where)], scratch.spare);
        bytes = scratch.spare.view();
      }
      scratch.entropy.encode(bytes, out, scratch.pool);
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
        section = decode_compacted(section, mask, planes[i], scratch);
      } else if (is_apart(shape)) {
        section = decode_apart(section, shape, planes[i], scratch);
      } else if (lanes == 1) {
        section = scratch.entropy.decode(section, planes[i], scratch.pool);
      } else {
        std::uint8_t* symbols = planes[i].data();
        section = scratch.entropy.decode_lanes(
            section, shape.count, lanes,
            [&](std::size_t from, std::size_t number, const Entropy::LaneViews& lane) {
              kernels::put_lanes(lane.data(), number, lanes, symbols + from * lanes);
            },
            scratch.pool);
      }
    }
    if (!section.empty())
      throw DataError("an entropy-coded section has " + std::to_string(section.size()) +
                      " bytes after its end");
  }

 private:
  // Symbols that lie across bytes are coded a byte each, if they are so many that their codes are
  // worth a table.
  static bool is_apart(const PlaneShape& shape) {
    return shape.width < 8 && !std::has_single_bit(shape.width) && shape.count >= kLevelPiece;
  }

  static void encode_apart(const PlaneShape& shape, ByteView plane, Buffer& out,
                           StageScratch& scratch) {
    const unsigned width = shape.width;
    scratch.entropy.encode_made(
        shape.count,
        [&](std::size_t start, std::span<std::uint8_t> symbols) {
          kernels::open_bits(plane.data() + start / 8 * width, symbols.size(), width,
                             symbols.data());
        },
        out, scratch.pool);
  }

  static ByteView decode_apart(ByteView section, const PlaneShape& shape,
                               std::span<std::uint8_t> plane, StageScratch& scratch) {
    const unsigned width = shape.width;
    return scratch.entropy.decode_used(
        section, shape.count,
        [&](std::size_t start, ByteView symbols) {
          for (std::size_t at = 0; at < symbols.size(); at += kLevelPiece) {
            std::uint8_t above[kLevelPiece];
            if (kernels::split_bytes(symbols.data() + at,
                                     std::min(kLevelPiece, symbols.size() - at), {.low = width},
                                     plane.data() + (start + at) / 8 * width, above) > 0)
              throw DataError("an entropy-coded plane of " + std::to_string(width) +
                              " bits has a symbol of more");
          }
        },
        scratch.pool);
  }

  // Bits beside the bytes of the mask that are not 0. Usually these are all, and no bit is moved.
  static ByteView decode_compacted(ByteView section, ByteView mask, std::span<std::uint8_t> plane,
                                   StageScratch& scratch) {
    const std::size_t nonzero = count_nonzero(mask);
    const bool all = nonzero == mask.size();
    const auto bits = all ? plane : scratch.spare.reset(packed_size(1, nonzero));
    section = scratch.entropy.decode(section, bits, scratch.pool);
    if (!all)
      expand_bits(bits, mask, plane);
    else if (!padding_is_zero(plane, 1, nonzero))
      throw DataError("an entropy-coded plane has bits set after its last entry");
    return section;
  }

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
    const unsigned width = width_of(largest);
    if (width == 0) return;
    if (width <= 8) {
      const std::size_t per_byte = 8 / width;
      scratch.entropy.encode_made(
          packed_size(width, levels.count),
          [&](std::size_t start, std::span<std::uint8_t> packed) {
            const std::size_t from = start * per_byte;
            pack_levels(levels.at.small + from,
                        std::min(levels.count - from, packed.size() * per_byte), width,
                        packed.data());
          },
          out, scratch.pool);
      return;
    }
    const std::size_t lanes = width / 8;
    scratch.entropy.encode_lanes(
        levels.count, lanes,
        [&](std::size_t from, std::size_t number, const Entropy::Lanes& to) {
          if (lanes == 2)
            return void(kernels::split_wide_levels(levels.at.from(from), number, to[0], to[1]));
          for (std::size_t i = 0; i < number; ++i) {
            const std::uint32_t symbol = zigzag(levels[from + i]);
            for (unsigned lane = 0; lane < lanes; ++lane)
              to[lane][i] = static_cast<std::uint8_t>(symbol >> (8 * lane));
          }
        },
        out, scratch.pool);
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
    const unsigned width = width_of(static_cast<std::uint32_t>(claimed));
    std::atomic<std::uint32_t> largest = 0;
    const auto raise = [&](std::uint32_t symbol) {
      std::uint32_t known = largest;
      while (symbol > known && !largest.compare_exchange_weak(known, symbol)) {
      }
    };
    if (width == 0) {
      std::ranges::fill(levels.small(), std::int8_t{0});
    } else if (width <= 8) {
      const std::size_t per_byte = 8 / width;
      section = scratch.entropy.decode_used(
          section, packed_size(width, levels.count),
          [&](std::size_t start, ByteView packed) {
            const std::size_t from = start * per_byte,
                              number = std::min(levels.count - from, packed.size() * per_byte);
            raise(unpack_levels(packed, width, {levels.at.from(from), number, levels.most}));
          },
          scratch.pool);
    } else {
      const std::size_t lanes = width / 8;
      section = scratch.entropy.decode_lanes(
          section, levels.count, lanes,
          [&](std::size_t from, std::size_t number, const Entropy::LaneViews& lane) {
            const kernels::LevelSpan to = levels.at.from(from);
            raise(lanes == 2 ? kernels::join_wide_levels(lane[0], lane[1], number, to)
                             : join_lanes(lane, number, claimed, to));
          },
          scratch.pool);
    }
    if (largest != claimed)
      throw DataError("the largest level is " + std::to_string(largest) + ", not " +
                      std::to_string(claimed) + " as the section says");
    return section;
  }

  // Returns the largest symbol; what is beyond that claimed is not a level.
  static std::uint32_t join_lanes(const Entropy::LaneViews& lane, std::size_t count,
                                  std::uint64_t claimed, const kernels::LevelSpan& levels) {
    std::uint32_t largest = 0;
    for (std::size_t i = 0; i < count; ++i) {
      std::uint32_t symbol = 0;
      for (unsigned l = 0; l < Entropy::kMostLanes; ++l)
        symbol |= static_cast<std::uint32_t>(lane[l][i]) << (8 * l);
      largest = std::max(largest, symbol);
      if (symbol <= claimed) levels.set(i, unzigzag(symbol));
    }
    return largest;
  }

  // What is coded as one: a byte, or a byte of each lane.
  static std::size_t symbols_of(const PlaneShape& shape) {
    return is_apart(shape) ? shape.count : shape.size() / lanes_of(shape);
  }

  static std::size_t lanes_of(const PlaneShape& shape) {
    return shape.width > 8 ? shape.width / 8 : 1;
  }
};

const RegisterStage entropy{{
    .name = "entropy",
    .role = Role::coder,
    .summary = "Huffman-codes each plane of symbols but for bits that are next to random, never "
               "larger by more than three bytes per 262144.",
    .paper = "lossless; Huffman, A Method for the Construction of Minimum-Redundancy Codes (1952)",
    .parameters = {},
    .bits = "each plane's Huffman code, at most the plane + 32 per 262,144 bytes",
    .examples = {"natural+entropy", "entropy", "grid:0.125+entropy", "qsgd:64+entropy",
                 "terngrad+entropy"},
    .make = [](const Args&) -> Stage { return std::make_shared<EntropyCoder>(); },
}};

}  // namespace
}  // namespace laconic

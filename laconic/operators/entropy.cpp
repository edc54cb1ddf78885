// entropy: each plane Huffman-coded by zstd, or left as it is where that is not smaller. Lossless.
//
// On real gradients the exponent plane of natural compression holds about 3.1 bits of entropy in
// its 8, and the signs of zeros are left out, so natural+entropy takes about 4.2 bits per entry
// instead of 9.
#include "laconic/codecs/entropy.h"

#include "laconic/base/errors.h"
#include "laconic/codecs/masked.h"
#include "laconic/operators/stage.h"

namespace laconic {
namespace {

// Planes of 16 or 32 bits are coded a byte position at a time: exponents are predictable, low
// mantissa bytes are not.
class EntropyCoder : public Coder {
 public:
  std::size_t min_size(const PlaneShapes& shapes) const override {
    std::size_t sum = 0;
    for (std::size_t i = 0; i < shapes.count; ++i)
      if (shapes.shape[i].only_where < 0) sum += Entropy::min_size(shapes.shape[i].size());
    return sum;
  }

  std::size_t max_size(const PlaneShapes& shapes) const override {
    std::size_t sum = 0;
    for (std::size_t i = 0; i < shapes.count; ++i) {
      const std::size_t lanes = lanes_of(shapes.shape[i]);
      sum += lanes * Entropy::max_size(shapes.shape[i].size() / lanes);
    }
    return sum;
  }

  void encode(const PlaneShapes& shapes, const PlaneViews& planes, Buffer& out,
              Scratch& scratch) const override {
    for (std::size_t i = 0; i < shapes.count; ++i) {
      const PlaneShape& shape = shapes.shape[i];
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
              Scratch& scratch) const override {
    for (std::size_t i = 0; i < shapes.count; ++i) {
      const PlaneShape& shape = shapes.shape[i];
      const std::size_t lanes = lanes_of(shape);
      if (shape.only_where >= 0) {
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
  static std::size_t lanes_of(const PlaneShape& shape) {
    return shape.width > 8 ? shape.width / 8 : 1;
  }
};

const RegisterStage entropy{{
    .name = "entropy",
    .role = Role::coder,
    .summary = "Huffman-codes each plane of symbols (zstd), never larger by more than three bytes "
               "per 262144.",
    .paper = "lossless; zstd's literal mode (RFC 8878, section 4.2)",
    .parameters = {},
    .examples = {"entropy"},
    .make = [](const Args&) -> Stage { return std::make_shared<EntropyCoder>(); },
}};

}  // namespace
}  // namespace laconic

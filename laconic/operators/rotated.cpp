// drive and eden: one bit per entry after a random rotation, as baselines. Vargaftik et al., DRIVE
// (arXiv 2105.08339) and EDEN (arXiv 2108.08842), one bit.
//
// Blocks of 4096 entries, the last filled up with zeros to a power of two d, become z = H S x:
// signs S drawn from the rank's own key, and the Hadamard matrix H of +-1, so that z / sqrt d is a
// rotation. Sent are the signs of z and one scale; decoded is S H sign(z) times the scale, whole
// numbers up to d times a float. drive's scale, sum |z| / d^2, has the least error; eden's, |x|^2 /
// sum |z|, keeps the inner product with x exactly.
//
// For rotations drawn from all there are, eden is unbiased; for these it is so in the limit of many
// entries none of which is large: (2, 1, 0, 0) becomes (2.5, 0, 0, 0) whatever is drawn. Traits
// therefore promise nothing of it.
#include <algorithm>
#include <bit>
#include <limits>

#include "laconic/kernels/reduce.h"
#include "laconic/kernels/rotation.h"
#include "laconic/kernels/signs.h"
#include "laconic/operators/coded_quantiser.h"

namespace laconic {
namespace {

constexpr float kMost = std::numeric_limits<float>::max();

// What is known of a section beside its scales and bits.
struct Known {
  Key key;
  std::uint64_t first = 0, count = 0;
};

class Rotated : public CodedBlocks {
 public:
  explicit Rotated(bool least) : least_(least) {}

  // Scales, bits and what is known of the section.
  PlaneShapes planes(std::size_t count) const override {
    return {{.width = 32, .count = blocks(count)},
            {.width = 1, .count = bits(count)},
            {.width = 8, .count = sizeof(Known)}};
  }

  void begin(std::size_t count, const PlaneSpans& planes, const Keys& keys) const override {
    store(planes[2].data(), Known{keys.own, keys.first, count});
  }
  bool encode_block(std::span<const float> x, std::size_t from, const PlaneSpans& planes,
                    const Keys& keys) const override {
    std::uint8_t turns[kBlock / 8];
    return encode_turned(x, from, planes, keys, turns);
  }
  bool encode_mixed(const kernels::Mixed& block, std::size_t from, const PlaneSpans& planes,
                    const Keys& keys) const override {
    float x[kBlock];
    std::uint8_t turns[kBlock / 8];
    block.x(x);
    if (!encode_turned({x, block.count}, from, planes, keys, turns)) return false;
    kernels::leave_rotated(planes[1].data() + from / 8, std::bit_ceil(block.count),
                           scale_of(planes[0], from / kBlock), turns, {x, block.count}, block.c,
                           block.streams, block.left);
    return true;
  }
  void end(const PlaneSpans& planes, Buffer& out) const override {
    out.append(planes[0]);
    out.append(planes[1]);
  }

  void read(ByteView section, std::size_t count, const Keys& keys, const PlaneSpans& planes,
            StageScratch&) const override {
    if (section.size() != max_size(count))
      throw DataError("a section of " + std::to_string(count) + " entries after a rotation has " +
                      std::to_string(section.size()) +
                      " bytes; allowed: " + std::to_string(max_size(count)));
    const ByteView scales = section.first(planes[0].size()), signs = section.subspan(scales.size());
    for (std::size_t block = 0; block < blocks(count); ++block)
      if (const float scale = scale_of(scales, block); !(scale >= 0 && scale <= kMost))
        throw DataError("a section after a rotation has a scale of " + std::to_string(scale) +
                        "; allowed: finite ones, not below 0");
    if (!padding_is_zero(signs, 1, bits(count)))
      throw DataError("a section after a rotation has bits set after its last");
    std::ranges::copy(scales, planes[0].begin());
    std::ranges::copy(signs, planes[1].begin());
    store(planes[2].data(), Known{keys.own, keys.first, count});
  }

  void add(const PlaneViews& planes, std::size_t from, float weight,
           std::span<float> y) const override {
    const auto known = load<Known>(planes[2].data());
    in_blocks(from, from + y.size(), kBlock,
              [&](std::size_t block, std::size_t begin, std::size_t count) {
                kernels::add_rotated(planes[1].data() + begin / 8,
                                     std::bit_ceil(std::min(kBlock, known.count - begin)),
                                     scale_of(planes[0], block), known.key, known.first + begin,
                                     weight, y.subspan(begin - from, count));
              });
  }

  std::size_t min_size(std::size_t count) const override { return max_size(count); }
  std::size_t max_size(std::size_t count) const override {
    return blocks(count) * sizeof(float) + packed_size(1, bits(count));
  }

  // sum |z| is at least |z|_2, so a block keeps at least 1 / d of |x|^2.
  Traits traits(std::size_t count) const override {
    const auto d = static_cast<double>(std::bit_ceil(std::clamp<std::size_t>(count, 1, kBlock)));
    return {.random = true,
            .keeps_signs = false,
            .delta = least_ ? std::optional(1 / d) : std::nullopt};
  }

 private:
  static std::size_t blocks(std::size_t count) { return (count + kBlock - 1) / kBlock; }
  static std::size_t bits(std::size_t count) {
    const std::size_t last = count % kBlock;
    return count / kBlock * kBlock + (last > 0 ? std::bit_ceil(last) : 0);
  }

  static float scale_of(ByteView scales, std::size_t block) {
    return load<float>(scales.data() + block * sizeof(float));
  }

  // A block, and which of its entries were turned round.
  bool encode_turned(std::span<const float> x, std::size_t from, const PlaneSpans& planes,
                     const Keys& keys, std::uint8_t* turns) const {
    float memory[kBlock];
    const std::span<const float> z(memory, std::bit_ceil(x.size()));
    const float factor = kernels::rotate(x, keys.own, keys.first + from, {memory, z.size()}, turns);
    if (factor == 0) return false;
    kernels::pack_signs(z, planes[1].data() + from / 8);
    const double magnitudes = kernels::sum_of_magnitudes(z) / static_cast<double>(factor);
    const auto d = static_cast<double>(z.size());
    const double scale = magnitudes == 0 ? 0
                         : least_        ? magnitudes / d / d
                                         : kernels::sum_of_squares(x) / magnitudes;
    store(planes[0].data() + from / kBlock * sizeof(float),
          static_cast<float>(std::min(scale, static_cast<double>(kMost))));
    return true;
  }

  bool least_;
};

const RegisterStage drive{{
    .name = "drive",
    .role = Role::quantiser,
    .summary = "One bit per entry after a random rotation, and the scale of the least error.",
    .paper = "Vargaftik et al., DRIVE (arXiv 2105.08339)",
    .parameters = {},
    .bits = "n and 32 for each 4096 entries",
    .examples = {"drive"},
    .make = [](const Args&) -> Stage { return std::make_shared<Rotated>(true); },
}};

const RegisterStage eden{{
    .name = "eden",
    .role = Role::quantiser,
    .summary = "One bit per entry after a random rotation, at the scale that is unbiased for many "
               "entries of which none is large.",
    .paper = "Vargaftik et al., EDEN (arXiv 2108.08842)",
    .parameters = {},
    .bits = "n and 32 for each 4096 entries",
    .examples = {"eden"},
    .make = [](const Args&) -> Stage { return std::make_shared<Rotated>(false); },
}};

}  // namespace
}  // namespace laconic

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
#include <atomic>
#include <bit>
#include <limits>

#include "laconic/kernels/rotation.h"
#include "laconic/operators/blocks.h"
#include "laconic/operators/coded_quantiser.h"

namespace laconic {
namespace {

constexpr float kMost = std::numeric_limits<float>::max();
constexpr std::size_t kTogether = kernels::kSideBySide * kBlock;  // whose sums go side by side

// What is known of a section beside its scales and bits.
struct Known {
  Key key;
  std::uint64_t first = 0, count = 0;
};

class Rotated : public CodedQuantiser {
 public:
  explicit Rotated(bool least) : least_(least) {}

  // Scales, bits and what is known of the section.
  PlaneShapes planes(std::size_t count) const override {
    return {{.width = 32, .count = blocks(count)},
            {.width = 1, .count = bits(count)},
            {.width = 8, .count = sizeof(Known)}};
  }

  bool write(std::span<const float> x, std::size_t, const PlaneSpans& planes, const Keys& keys,
             Buffer& out, StageScratch& scratch) const override {
    const std::size_t count = x.size();
    const auto memory = scratch.sums.reset(scratch.pool.threads() * kTogether);
    std::atomic<bool> finite = true;
    scratch.pool.each((count + kTogether - 1) / kTogether, [&](std::size_t group, unsigned thread) {
      const std::size_t from = group * kTogether;
      if (!write_blocks(x.subspan(from, std::min(kTogether, count - from)), from, planes, keys,
                        memory.subspan(thread * kTogether, kTogether)))
        finite = false;
    });
    if (!finite) return false;
    store(planes[2].data(), Known{keys.own, keys.first, count});
    out.append(planes[0]);
    out.append(planes[1]);
    return true;
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

  // Up to kTogether entries, of which the last block may be shorter.
  bool write_blocks(std::span<const float> x, std::size_t from, const PlaneSpans& planes,
                    const Keys& keys, std::span<double> memory) const {
    for (std::size_t at = 0; at < x.size(); at += kBlock) {
      const auto block = x.subspan(at, std::min(kBlock, x.size() - at));
      const auto z = memory.subspan(at, std::bit_ceil(block.size()));
      if (!kernels::rotate(block, keys.own, keys.first + from + at, z)) return false;
      kernels::pack_negative(z, planes[1].data() + (from + at) / 8);
    }
    std::uint8_t* scales = planes[0].data() + from / kBlock * sizeof(float);
    if (x.size() == kTogether) {
      store_scales(x, memory, kernels::kSideBySide, scales);
      return true;
    }
    for (std::size_t at = 0; at < x.size(); at += kBlock, scales += sizeof(float)) {
      const auto block = x.subspan(at, std::min(kBlock, x.size() - at));
      store_scales(block, memory.subspan(at, std::bit_ceil(block.size())), 1, scales);
    }
    return true;
  }

  // Those of blocks as long as each other, kSideBySide of them or one.
  void store_scales(std::span<const float> x, std::span<const double> z, std::size_t blocks,
                    std::uint8_t* scales) const {
    const std::size_t d = z.size() / blocks, count = x.size() / blocks;
    kernels::SidesOfFloats entries;
    kernels::SidesOfDoubles rotated;
    for (std::size_t i = 0; i < kernels::kSideBySide; ++i) {
      entries[i] = x.data() + i % blocks * count;
      rotated[i] = z.data() + i % blocks * d;
    }
    const kernels::Sums magnitudes = kernels::sums_of_magnitudes(rotated, d);
    const kernels::Sums squares =
        least_ ? kernels::Sums{} : kernels::sums_of_squares(entries, count);
    const auto size = static_cast<double>(d);
    for (std::size_t i = 0; i < blocks; ++i) {
      const double scale = magnitudes[i] == 0 ? 0
                           : least_           ? magnitudes[i] / size / size
                                              : squares[i] / magnitudes[i];
      store(scales + i * sizeof(float),
            static_cast<float>(std::min(scale, static_cast<double>(kMost))));
    }
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

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
#include <cmath>
#include <limits>

#include "laconic/kernels/axpy.h"
#include "laconic/kernels/reduce.h"
#include "laconic/operators/blocks.h"
#include "laconic/operators/coded_quantiser.h"

namespace laconic {
namespace {

constexpr float kMost = std::numeric_limits<float>::max();

// H times x, of a power of two entries, in place and in this order on every machine.
template <class T>
void hadamard(std::span<T> x) {
  for (std::size_t half = 1; half < x.size(); half *= 2)
    for (std::size_t at = 0; at < x.size(); at += 2 * half)
      for (std::size_t i = at; i < at + half; ++i) {
        const T a = x[i], b = x[i + half];
        x[i] = a + b;
        x[i + half] = a - b;
      }
}

bool flips(const Keys& keys, std::size_t entry) {
  return keys.own.bits32(keys.first + entry) >> 31 != 0;
}

class Rotated : public CodedQuantiser {
 public:
  explicit Rotated(bool least) : least_(least) {}

  // The decoded entries.
  PlaneShapes planes(std::size_t count) const override { return {{.width = 32, .count = count}}; }

  bool write(std::span<const float> x, std::size_t, const PlaneSpans& planes, const Keys& keys,
             Buffer& out, StageScratch& scratch) const override {
    if (!kernels::all_finite(x)) return false;
    const std::size_t size = max_size(x.size());
    const std::span<std::uint8_t> section(out.grow(size), size);
    std::ranges::fill(section, std::uint8_t{0});
    each_block(x.size(), scratch.pool, [&](std::size_t from, std::size_t count) {
      write_block(x.subspan(from, count), from, section, x.size(), keys);
      read_block(section, from, count, x.size(), keys, planes[0].data());
    });
    return true;
  }

  void read(ByteView section, std::size_t count, const Keys& keys, const PlaneSpans& planes,
            StageScratch& scratch) const override {
    if (section.size() != max_size(count))
      throw DataError("a section of " + std::to_string(count) + " entries after a rotation has " +
                      std::to_string(section.size()) +
                      " bytes; allowed: " + std::to_string(max_size(count)));
    for (std::size_t block = 0; block < blocks(count); ++block) {
      const auto scale = load<float>(section.data() + block * sizeof(float));
      if (!(scale >= 0 && scale <= kMost))
        throw DataError("a section after a rotation has a scale of " + std::to_string(scale) +
                        "; allowed: finite ones, not below 0");
    }
    if (!padding_is_zero(section.subspan(blocks(count) * sizeof(float)), 1, bits(count)))
      throw DataError("a section after a rotation has bits set after its last");
    each_block(count, scratch.pool, [&](std::size_t from, std::size_t part) {
      read_block(section, from, part, count, keys, planes[0].data());
    });
  }

  void add(const PlaneViews& planes, std::size_t from, float weight,
           std::span<float> y) const override {
    kernels::add_scaled(planes[0].data() + from * sizeof(float), weight, y);
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

  void write_block(std::span<const float> x, std::size_t from, std::span<std::uint8_t> section,
                   std::size_t all, const Keys& keys) const {
    double memory[kBlock] = {};
    const std::span<double> z(memory, std::bit_ceil(x.size()));
    double squares = 0, magnitudes = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      z[i] = flips(keys, from + i) ? -static_cast<double>(x[i]) : static_cast<double>(x[i]);
      squares += z[i] * z[i];
    }
    hadamard(z);
    std::uint8_t* signs = section.data() + blocks(all) * sizeof(float) + from / 8;
    for (std::size_t i = 0; i < z.size(); ++i) {
      magnitudes += std::abs(z[i]);
      if (z[i] < 0) signs[i / 8] |= static_cast<std::uint8_t>(1U << i % 8);
    }
    const auto d = static_cast<double>(z.size());
    const double scale = magnitudes == 0 ? 0 : least_ ? magnitudes / d / d : squares / magnitudes;
    store(section.data() + from / kBlock * sizeof(float),
          static_cast<float>(std::min(scale, static_cast<double>(kMost))));
  }

  static void read_block(ByteView section, std::size_t from, std::size_t count, std::size_t all,
                         const Keys& keys, std::uint8_t* to) {
    std::int32_t memory[kBlock];
    const std::span<std::int32_t> z(memory, std::bit_ceil(count));
    const std::uint8_t* signs = section.data() + blocks(all) * sizeof(float) + from / 8;
    for (std::size_t i = 0; i < z.size(); ++i) z[i] = signs[i / 8] >> i % 8 & 1 ? -1 : 1;
    hadamard(z);
    const auto scale = load<float>(section.data() + from / kBlock * sizeof(float));
    for (std::size_t i = 0; i < count; ++i) {
      const float value = std::clamp(static_cast<float>(z[i]) * scale, -kMost, kMost);
      store(to + (from + i) * sizeof(float), flips(keys, from + i) ? -value : value);
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

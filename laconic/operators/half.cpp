// half: 16 bits per entry, rounded to the nearest. fp16 with a power-of-two scale per 4096 entries,
// or bf16.
#include "laconic/kernels/half.h"

#include <algorithm>

#include "laconic/base/errors.h"
#include "laconic/operators/block_quantiser.h"

namespace laconic {
namespace {

std::size_t blocks_of(std::size_t count) { return (count + kBlock - 1) / kBlock; }

// Plain fp16 loses gradients below 6e-8 and overflows above 65504; with the scale neither happens.
class Fp16 : public BlockQuantiser {
 public:
  PlaneShapes planes(std::size_t count) const override {
    return {{.width = 8, .count = blocks_of(count)}, {.width = 16, .count = count}};
  }

  bool encode_block(std::span<const float> x, std::size_t from, const PlaneSpans& planes,
                    const Keys&) const override {
    const unsigned top = kernels::fp16_top(x);
    planes[0][from / kBlock] = static_cast<std::uint8_t>(top);
    if (top == 255) return false;
    kernels::fp16_encode(x, top, planes[1].data() + 2 * from);
    return true;
  }

  bool encode_mixed(const kernels::Mixed& block, std::size_t from, const PlaneSpans& planes,
                    const Keys&) const override {
    const unsigned top = kernels::fp16_top(block.looked_at());
    planes[0][from / kBlock] = static_cast<std::uint8_t>(top);
    if (top == 255) return false;
    kernels::fp16_encode_mixed(block.ahead(), top, planes[1].data() + 2 * from);
    return true;
  }

  // Halves beyond what their top allows are read as its limit: every one is finite.
  void check(const PlaneViews& planes, std::size_t) const override {
    for (const unsigned top : planes[0])
      if (top < 1 || top > 254)
        throw DataError("a section by 'half' has a block scale of " + std::to_string(top) +
                        "; allowed: 1 to 254");
  }

  void add(const PlaneViews& planes, std::size_t from, float weight,
           std::span<float> y) const override {
    in_blocks(from, from + y.size(), kBlock,
              [&](std::size_t block, std::size_t begin, std::size_t count) {
                kernels::fp16_add(planes[1].data() + 2 * begin, planes[0][block], weight,
                                  y.subspan(begin - from, count));
              });
  }

  // Relative error at most 2^-11 per entry in the normal range; below it, at most 2^-40 of the
  // block's largest entry, which over 4096 entries adds less than 2^-66.
  Traits traits(std::size_t) const override { return {.delta = 1 - 0x1p-22 - 0x1p-60}; }
};

class Bf16 : public BlockQuantiser {
 public:
  PlaneShapes planes(std::size_t count) const override { return {{.width = 16, .count = count}}; }

  bool encode_block(std::span<const float> x, std::size_t from, const PlaneSpans& planes,
                    const Keys&) const override {
    return kernels::bf16_encode(x, planes[0].data() + 2 * from);
  }

  bool encode_mixed(const kernels::Mixed& block, std::size_t from, const PlaneSpans& planes,
                    const Keys&) const override {
    return kernels::bf16_encode_mixed(block, planes[0].data() + 2 * from);
  }

  // Every one stands for a finite value: NaN and Inf are read as the largest.
  void check(const PlaneViews&, std::size_t) const override {}

  void add(const PlaneViews& planes, std::size_t from, float weight,
           std::span<float> y) const override {
    kernels::bf16_add(planes[0].data() + 2 * from, weight, y);
  }

  Traits traits(std::size_t) const override { return {.delta = 1 - 0x1p-16}; }
};

const RegisterStage half{{
    .name = "half",
    .role = Role::quantiser,
    .summary =
        "16-bit floats, rounded to the nearest; fp16 is scaled by a power of two per 4096 entries.",
    .paper = "IEEE 754 binary16; bfloat16",
    .parameters = {{.name = "format",
                    .fallback = "fp16",
                    .choices = {"fp16", "bf16"},
                    .help = "16-bit format"}},
    .bits = "16 n + 8 ceil(n / 4096); bf16: 16 n",
    .examples = {"half", "half:bf16", "half+entropy"},
    .make = [](const Args& args) -> Stage {
      if (args.text("format") == "bf16") return std::make_shared<Bf16>();
      return std::make_shared<Fp16>();
    },
}};

}  // namespace
}  // namespace laconic

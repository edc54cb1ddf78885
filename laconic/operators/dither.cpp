// dither: subtractive dither with steps that follow the size of rows and columns, and a variance
// that is known in closed form. Both ends draw u, uniform in (-1/2, 1/2), from the sender's key; q
// = round(x / D + u) is sent, and (q - u) D is uniform in x +- D/2 whatever x is. So it is
// unbiased, and E|C(x) - x|^2 = sum D^2 / 12 exactly. docs/dither.md has the derivation and the
// figures.
//
// An entry of variance s^2 gets the noise N = (sqrt(s^4 + 4 c s^2) - s^2) / 2, which minimises sum
// log(1 + s^2 / N) for a given sum of N, with c such that the sum is omega |x|^2. s^2 is a power of
// two for the row times one for the column of a matrix; else one for every 64 entries.
//
// Of a matrix that is nearly a sum of few outer products, x is what is left when a product of two
// thin factors was taken off, which stands beside the levels; c stays as it was. Receivers add it
// again: mean and variance are the same facts, and levels take fewer bits.
//
// Steps below the least normal float are 0: such entries are not sent, and there neither the mean
// nor the variance holds.
#include <cmath>

#include "laconic/codecs/varint.h"
#include "laconic/operators/coded_quantiser.h"
#include "laconic/operators/dither_factors.h"
#include "laconic/operators/dither_levels.h"
#include "laconic/operators/dither_scales.h"

namespace laconic {
namespace {

class Dither : public CodedQuantiser {
 public:
  explicit Dither(const Args& args) : omega_(args.number("omega")) {}

  PlaneShapes planes(std::size_t count) const override { return class_planes(count, kDitherRank); }

  bool write(std::span<const float> x, std::size_t cols, const PlaneSpans& planes, const Keys& keys,
             Buffer& out, StageScratch& scratch) const override {
    const DitherShape shape = DitherShape::of(x.size(), cols);
    DitherKnown& known = known_of(planes);
    known = {keys.own, keys.first, shape.cols, shape.matrix, true, 0, {}};
    const auto scales = planes[1].first(shape.scales());
    DitherRest rest{.x = x};
    const auto squares = measure_scales({.x = x}, shape, scales, rest.loudness.exponent, scratch);
    if (!squares) return false;
    rest.entries = entries_of(shape, scales);
    if (*squares > 0) {
      rest.loudness.c = solved_noise(rest.entries, rest.loudness, omega_ * *squares);
      take_product_off(rest, shape, *squares, omega_, scales, factors_of(planes[0]), scratch);
    }
    known.rank = rest.rank;
    known.steps = dither_steps(rest.loudness);
    const std::uint32_t classes = *squares > 0 ? classes_of(rest.entries, known.steps) : 0;
    if (classes == 0) return write_zeros(planes, out);
    put_varint(shape.form(rest.rank), out);
    out.append_number(rest.loudness.exponent);
    out.append_number(rest.loudness.c);
    write_scales(shape, scales, out, scratch);
    if (rest.rank > 0) out.append(scratch.coded.view());
    write_levels(rest.x, planes, classes, out, scratch);
    return true;
  }

  void read(ByteView section, std::size_t count, const Keys& keys, const PlaneSpans& planes,
            StageScratch& scratch) const override {
    DitherKnown& known = known_of(planes);
    ByteReader reader(section);
    const std::uint64_t form = reader.varint("the length of a row");
    section = reader.rest();
    const DitherShape shape = DitherShape::of(count, static_cast<std::size_t>(form % count));
    const std::uint64_t rank = shape.matrix ? form / count : 0;
    known = {keys.own, keys.first, shape.cols, shape.matrix, true, 0, {}};
    if (form == 0 && section.empty()) {
      Buffer nothing;
      write_zeros(planes, nothing);
      return;
    }
    if (rank > kDitherRank || form != shape.form(static_cast<std::size_t>(rank)))
      throw DataError("a section by 'dither' has a form of " + std::to_string(form) +
                      ", which cannot be of " + std::to_string(count) + " entries");
    known.rank = static_cast<std::size_t>(rank);
    const Loudness loudness = read_loudness(section);
    const auto scales = planes[1].first(shape.scales());
    section = read_scales(section, shape, scales, scratch);
    section = read_factors(section, shape, known.rank, scales, factors_of(planes[0]), scratch);
    known.steps = dither_steps(loudness);
    const std::uint32_t classes = classes_of(entries_of(shape, scales), known.steps);
    if (classes == 0) throw DataError("a section by 'dither' has scales, and no entry has one");
    read_levels(section, count, planes, classes, scratch);
  }

  void add(const PlaneViews& planes, std::size_t from, float weight,
           std::span<float> y) const override {
    const DitherSection section(planes, planes[2].size());
    const DitherKnown& known = section.known();
    const auto add = [&](auto product_at) {
      section.in_scales(from, from + y.size(),
                        [&](std::size_t at, std::size_t count, kernels::DitherScales scales) {
                          kernels::add_dithered(section.levels().from(at), known.steps, scales,
                                                known.own, known.first + at, product_at(at, count),
                                                weight, y.subspan(at - from, count));
                        });
    };
    if (known.rank == 0) return add([](std::size_t, std::size_t) { return nullptr; });
    float product[kBlock];
    add([&](std::size_t at, std::size_t count) {
      section.product().fill(at, std::span(product, count));
      return product;
    });
  }

  std::size_t min_size(std::size_t) const override { return 1; }
  std::size_t max_size(std::size_t count) const override {
    return 64 + 2 * Entropy::max_size(DitherShape::most_scales(count)) + most_factor_bytes(count) +
           most_level_bytes(count);
  }

  Traits traits(std::size_t) const override {
    return {.unbiased = true,
            .random = true,
            .keeps_signs = false,
            .omega = omega_,
            .delta = omega_ < 1 ? std::optional(1 - omega_) : std::nullopt};
  }

 private:
  static Loudness read_loudness(ByteView& section) {
    ByteReader reader(section);
    const std::int16_t exponent = read_exponent(reader);
    const Loudness loudness{exponent, reader.number<float>("the noise")};
    section = reader.rest();
    if (!(loudness.c > 0) || !std::isfinite(loudness.c))
      throw DataError("a section by 'dither' has a noise of " + std::to_string(loudness.c) +
                      " times 4^" + std::to_string(loudness.exponent) + ", which cannot be");
    return loudness;
  }

  double omega_;
};

const RegisterStage dither{{
    .name = "dither",
    .role = Role::quantiser,
    .summary = "Rounds to steps by row and column with a dither that receivers take off again; "
               "the variance is omega |x|^2, by a closed form.",
    .paper =
        "Laconic's own (docs/dither.md): subtractive dither (Roberts 1962; Zamir and Feder 1992) "
        "at rate-optimal noise",
    .parameters = {{.name = "omega",
                    .fallback = "0.125",
                    .min = 0.001,
                    .max = 16,
                    .help = "variance, as a share of |x|^2"}},
    .bits = "levels in contexts of their dither: 1.9 n of a bell curve at omega = 1/8, and scales",
    .examples = {"dither", "dither:0.01", "dither:1", "topk:0.1+dither", "shrink+dither:2"},
    .costly = true,
    .make = [](const Args& args) -> Stage { return std::make_shared<Dither>(args); },
}};

}  // namespace
}  // namespace laconic

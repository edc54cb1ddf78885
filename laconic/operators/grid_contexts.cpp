// grid in contexts: the levels that `grid` makes, each coded by the class of its scale over the
// step (docs/dither.md). Step, rounding and certificate are those of `grid`.
#include "laconic/operators/grid_contexts.h"

#include <cmath>

#include "laconic/codecs/varint.h"
#include "laconic/operators/coded_quantiser.h"
#include "laconic/operators/dither_levels.h"
#include "laconic/operators/dither_model.h"
#include "laconic/operators/dither_scales.h"

namespace laconic {
namespace {

// Classes of scales over one step.
kernels::DitherSteps classes_of_step(float step, int exponent) {
  kernels::DitherSteps steps{};
  for (int k = 0; k <= 2 * kMostSteps; ++k) {
    const double ratio = std::ldexp(1.0, 2 * exponent - k) / (static_cast<double>(step) * step);
    steps.step[k] = step;
    steps.code[k] = static_cast<std::uint32_t>(dither_class(ratio) * kernels::kDitherBins);
  }
  return steps;
}

class GridInContexts : public CodedQuantiser {
 public:
  explicit GridInContexts(std::shared_ptr<const SweepQuantiser> grid) : grid_(std::move(grid)) {}

  PlaneShapes planes(std::size_t count) const override { return class_planes(count, 0); }

  bool write(std::span<const float> x, std::size_t cols, const PlaneSpans& planes, const Keys& keys,
             Buffer& out, StageScratch& scratch) const override {
    const DitherShape shape = DitherShape::of(x.size(), cols);
    DitherKnown& known = known_of(planes);
    known = {keys.own, keys.first, shape.cols, shape.matrix, false, 0, {}};
    if (!grid_->encode(x, of_grid(planes), keys, scratch)) return false;
    const float step = known.steps.step[0];
    const auto scales = planes[1].first(shape.scales());
    std::int16_t exponent = 0;
    const auto squares = measure_scales({.x = x}, shape, scales, exponent, scratch);
    if (!squares) return false;
    if (*squares == 0 || step == 0) return write_zeros(planes, out);
    known.steps = classes_of_step(step, exponent);
    put_varint(shape.form(), out);
    out.append_number(exponent);
    out.append_number(step);
    write_scales(shape, scales, out, scratch);
    write_levels(x, planes, classes_of(entries_of(shape, scales), known.steps), out, scratch);
    return true;
  }

  void read(ByteView section, std::size_t count, const Keys& keys, const PlaneSpans& planes,
            StageScratch& scratch) const override {
    DitherKnown& known = known_of(planes);
    ByteReader reader(section);
    const std::uint64_t form = reader.varint("the length of a row");
    const DitherShape shape = DitherShape::of(count, static_cast<std::size_t>(form));
    known = {keys.own, keys.first, shape.cols, shape.matrix, false, 0, {}};
    if (form == 0 && reader.left() == 0) {
      Buffer nothing;
      write_zeros(planes, nothing);
      return;
    }
    if (form != shape.form())
      throw DataError("a section by 'grid' has rows of " + std::to_string(form) +
                      " entries, which cannot be of " + std::to_string(count));
    const int exponent = read_exponent(reader);
    const auto step = reader.number<float>("the step");
    if (!(step >= std::numeric_limits<float>::min()) || !std::isfinite(step))
      throw DataError("a section by 'grid' has a step of " + std::to_string(step));
    const auto scales = planes[1].first(shape.scales());
    section = read_scales(reader.rest(), shape, scales, scratch);
    known.steps = classes_of_step(step, exponent);
    const std::uint32_t classes = classes_of(entries_of(shape, scales), known.steps);
    if (classes == 0) throw DataError("a section by 'grid' has scales, and no entry has one");
    read_levels(section, count, planes, classes, scratch);
    grid_->check(of_grid(views(planes)), count);
  }

  void add(const PlaneViews& planes, std::size_t from, float weight,
           std::span<float> y) const override {
    grid_->add(of_grid(planes), from, weight, y);
  }

  std::size_t min_size(std::size_t) const override { return 1; }
  std::size_t max_size(std::size_t count) const override {
    return 64 + 2 * Entropy::max_size(DitherShape::most_scales(count)) + most_level_bytes(count);
  }

  Traits traits(std::size_t count) const override { return grid_->traits(count); }

 private:
  // The planes that `grid` fills: its step is that of all scales.
  static PlaneSpans of_grid(const PlaneSpans& planes) {
    auto* const step = reinterpret_cast<std::uint8_t*>(known_of(planes).steps.step);
    return {std::span(step, sizeof(float)), planes[2], planes[3]};
  }
  static PlaneViews of_grid(const PlaneViews& planes) {
    const auto& known = *reinterpret_cast<const DitherKnown*>(planes[0].data());
    const auto* const step = reinterpret_cast<const std::uint8_t*>(known.steps.step);
    return {ByteView(step, sizeof(float)), planes[2], planes[3]};
  }

  std::shared_ptr<const SweepQuantiser> grid_;
};

}  // namespace

std::shared_ptr<const Quantiser> in_contexts(std::shared_ptr<const SweepQuantiser> grid) {
  return std::make_shared<GridInContexts>(std::move(grid));
}

}  // namespace laconic

// sbc: sparse binary compression. The k largest and the k smallest entries are averaged; the side
// with the larger mean survives, all its entries as that mean. One float and positions: no sign, no
// values. Sattler et al., Sparse Binary Compression, algorithm 2.
//
// Decisions the paper leaves open: each side takes entries of its own sign only (fewer than k when
// there are fewer), so a mean is never drawn to zero by entries that point the other way; exactly
// the k chosen entries are sent, ties by lowest position; equal means send the positive side.
//
// With S the entries sent and mu their mean, |x - C(x)|^2 = |x|^2 - |S| mu^2.
#include <algorithm>
#include <cmath>
#include <optional>

#include "laconic/kernels/reduce.h"
#include "laconic/operators/indexed.h"
#include "laconic/operators/largest.h"
#include "laconic/operators/norms.h"
#include "laconic/operators/sides.h"

namespace laconic {
namespace {

class OneSide : public IndexedSelector {
 public:
  explicit OneSide(const Args& args)
      : IndexedSelector(args, true), density_(args.number("density")) {}

  std::size_t most(std::size_t count) const override { return kept_at(density_, count); }

  bool select(Entries& x, const Keys&, Picked& kept, StageScratch& scratch) const override {
    if (const auto marked = mark_one_side(x, most(x.size()), kept, scratch)) return *marked;
    Picked& negative = scratch.other;
    if (!keep_largest_by_sign(x, most(x.size()), kept, negative, scratch)) return false;
    if (positive_wins(kept, negative)) return true;
    // Copied, not swapped: each keeps the memory that suits it.
    std::ranges::copy(negative.positions.view(), kept.positions.reset(negative.size()).begin());
    std::ranges::copy(negative.values.view(), kept.values.reset(negative.size()).begin());
    return true;
  }

  // One of two means is at least M / k with M the largest magnitude, and |x|^2 is at most n M^2.
  Traits traits(std::size_t count) const override {
    const auto k = static_cast<double>(count == 0 ? 1 : most(count));
    return {.delta = 1 / (k * k * static_cast<double>(std::max<std::size_t>(count, 1)))};
  }

 private:
  // Whether the mean of the positive side is at least that of the other. Sums in any order are
  // within a share of 2^-20 of each other (double has 2^-53, and there are fewer than 2^32
  // entries), so only means that are closer are added up one by one.
  static bool positive_wins(const Picked& positive, const Picked& negative) {
    const auto mean_of = [](const Picked& chosen, double sum) {
      return chosen.size() == 0 ? 0 : sum / static_cast<double>(chosen.size());
    };
    const auto mean = [&](const Picked& chosen) {
      return mean_of(chosen, kernels::sum_of_magnitudes(chosen.values.view()));
    };
    const double a = mean(positive), b = mean(negative);
    if (std::abs(a - b) > 0x1p-19 * std::max(a, b)) return a > b;
    const auto in_order = [&](const Picked& chosen) {
      double sum = 0;
      for (const float value : chosen.values.view()) sum += std::abs(value);
      return mean_of(chosen, sum);
    };
    return in_order(positive) >= in_order(negative);
  }

  // The same where far more is kept than a list is good for: the side is known before any entry is
  // kept. Nothing where the means are too close to tell.
  static std::optional<bool> mark_one_side(Entries& x, std::size_t k, Picked& kept,
                                           StageScratch& scratch) {
    constexpr std::size_t kFewest = 16384, kShare = 5;
    if (x.size() < kFewest || k < x.size() / kShare) return {};
    const auto all = x.array();
    const auto sides = cut_sides(all, k, take_sample(x, scratch), scratch);
    if (sides.largest >= kernels::kInfinity) return false;
    if (!sides.known) return {};
    const double a = sides.positive.mean(), b = sides.negative.mean();
    if (!(std::abs(a - b) > 0x1p-17 * std::max(a, b))) return {};  // also where they overflow
    kernels::Cut above = kernels::Cut::none(), below = above;
    (a > b ? above : below) = a > b ? sides.positive.cut : sides.negative.cut;
    return x.mark(above, below, kept);
  }

  double density_;
};

// All entries as their mean: one float, whatever their number.
class Mean : public Quantiser {
 public:
  PlaneShapes planes(std::size_t count) const override { return {scale_plane(count)}; }

  bool encode(std::span<const float> x, const PlaneSpans& planes, const Keys&,
              StageScratch&) const override {
    if (!x.empty()) store(planes[0].data(), mean(x));
    return true;
  }

  void check(const PlaneViews& planes, std::size_t) const override {
    if (!std::isfinite(load_scale(planes[0])))
      throw DataError("a section by 'sbc' has a mean that is not finite");
  }

  void add(const PlaneViews& planes, std::size_t, float weight, std::span<float> y) const override {
    const float value = weight * load_scale(planes[0]);
    for (float& entry : y) entry += value;
  }

  Traits traits(std::size_t) const override { return {.delta = 1.0}; }  // counted by the selector

 private:
  // Of entries of one sign, in double, added one by one. Sums in other orders are within n 2^-52 of
  // that: where all of these give one float, adding on vector lanes is a fifth of the time.
  static float mean(std::span<const float> x) {
    const auto n = static_cast<double>(x.size());
    const double sum = std::copysign(kernels::sum_of_magnitudes(x), static_cast<double>(x[0]));
    const auto least = static_cast<float>(sum * (1 - n * 0x1p-51) / n);
    if (least == static_cast<float>(sum * (1 + n * 0x1p-51) / n)) return least;
    double in_order = 0;
    for (const float value : x) in_order += static_cast<double>(value);
    return static_cast<float>(in_order / n);
  }
};

const RegisterStage sbc{{
    .name = "sbc",
    .role = Role::sparse_quantiser,
    .summary = "Keeps the largest entries of one sign, all as their mean; made for feedback.",
    .paper = "Sattler et al., Sparse Binary Compression (arXiv 1805.08768)",
    .parameters = {density_parameter(), index_parameter()},
    .bits = "8 + P + 32, k = ceil(density n)",
    .examples = {"sbc:0.01", "sbc:0.001,rice", "sbc:0.5"},
    .make = [](const Args& args) -> Stage {
      return SparseQuantiser{std::make_shared<OneSide>(args), std::make_shared<Mean>()};
    },
}};

}  // namespace
}  // namespace laconic

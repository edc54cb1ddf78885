// adaptive: the entries of at least 1/factor of the largest magnitude. With factor 2 the adaptive
// threshold that Dutta et al. ran: |2 x_i| >= max |x|, values in full precision.
#include <algorithm>
#include <bit>
#include <cmath>

#include "laconic/kernels/select.h"
#include "laconic/operators/indexed.h"
#include "laconic/operators/largest.h"

namespace laconic {
namespace {

class Adaptive : public IndexedSelector {
 public:
  explicit Adaptive(const Args& args)
      : IndexedSelector(args, false), factor_(static_cast<float>(args.number("factor"))) {}

  std::size_t most(std::size_t count) const override { return count; }

  // The largest entry is known after the first pass, and with it what is kept. That pass has found
  // it already unless the hint was too high; on its way the bound rises with the largest so far.
  bool select(Entries& x, const Keys&, Picked& kept, StageScratch& scratch) const override {
    Hint* hint = x.hint();
    const std::uint32_t first = hint && hint->above > 0 ? hint->above : guess(x, scratch);
    if (x.many_reach(first, scratch.sample)) return mark(x, first, kept);
    const bool finite = x.collect_runs(kBlock, kept, [&](auto look, Stretch& part) {
      const std::uint32_t bound = std::max(first, least_of(part.largest));
      look(kernels::Bounds{bound, bound});
    });
    if (!finite) return false;
    const std::uint32_t least = least_of(x.largest());
    if (first > least) {
      x.collect({least, least}, kept);
    } else {
      kernels::Cut cut{least - 1, 0};
      kept.truncate(
          kernels::keep_above(kept.positions.data(), kept.values.data(), kept.size(), cut, cut));
    }
    if (hint) {
      hint->margin = margin_after(hint->margin, first <= least);
      hint->above = hint->below = lowered(least, hint->margin);
    }
    return true;
  }

  // The largest entry M is kept and each dropped one is below M / factor: of |x|^2 at least
  // M^2 / (M^2 + (n - 1) M^2 / factor^2) is kept. (1e-6 of it for the rounding of the division.)
  Traits traits(std::size_t count) const override {
    const double f = static_cast<double>(factor_) * (1 - 1e-6);
    const double dropped = count > 1 ? static_cast<double>(count - 1) / (f * f) : 0;
    return {.delta = 1 / (1 + dropped)};
  }

 private:
  // The same where many are kept: marked again once the largest is known, unless the guess was it.
  bool mark(Entries& x, std::uint32_t first, Picked& kept) const {
    kernels::Cut cut{first - 1, 0};
    if (!x.mark(cut, cut, kept)) return false;
    const std::uint32_t least = least_of(x.largest());
    cut.value = least - 1;
    if (least != first) x.mark(cut, cut, kept);
    if (Hint* hint = x.hint()) hint->above = hint->below = lowered(least, hint->margin);
    return true;
  }

  std::uint32_t least_of(std::uint32_t largest) const {
    const float least = std::bit_cast<float>(largest) / factor_;
    return std::max(std::bit_cast<std::uint32_t>(least), 1U);
  }

  // No entry of a sample exceeds the largest of all.
  std::uint32_t guess(Entries& x, StageScratch& scratch) const {
    std::uint32_t largest = 0;
    for (const float value : take_sample(x, scratch))
      if (std::isfinite(value)) largest = std::max(largest, magnitude(value));
    return least_of(largest);
  }

  float factor_;
};

const RegisterStage adaptive{{
    .name = "adaptive",
    .role = Role::selector,
    .summary = "Keeps the entries of at least 1/factor of the slice's largest magnitude.",
    .paper = "Dutta et al. (arXiv 1911.08250), after Chen et al., AdaComp (arXiv 1712.02679)",
    .parameters = {{.name = "factor",
                    .fallback = "2",
                    .min = 1,
                    .max = 1e9,
                    .help = "entries below the largest divided by this are dropped"},
                   index_parameter()},
    .bits = "varint(8 k + codec) + P, and the quantiser on k",
    .examples = {"adaptive", "adaptive:16+natural"},
    .make = [](const Args& args) -> Stage { return std::make_shared<Adaptive>(args); },
}};

}  // namespace
}  // namespace laconic

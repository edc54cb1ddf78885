// threshold: the entries of magnitude v or more. How many travel depends on the data. Dutta et al.,
// section 5; magnitudes, not values, are compared (other code compares with the largest value and
// so sends an all-negative tensor whole).
//
// Layer-wise and entire-model keep the same entries. No share of |x|^2 is promised, but no entry's
// error reaches v: with feedback the residual stays below v.
#include <bit>

#include "laconic/operators/indexed.h"

namespace laconic {
namespace {

class Threshold : public IndexedSelector {
 public:
  explicit Threshold(const Args& args)
      : IndexedSelector(args, false), value_(static_cast<float>(args.number("value"))) {}

  std::size_t most(std::size_t count) const override { return count; }

  bool select(Entries& x, const Keys&, Picked& kept, StageScratch& scratch) const override {
    const auto least = std::bit_cast<std::uint32_t>(value_);
    if (x.many_reach(least, scratch.sample)) {
      kernels::Cut cut{least - 1, 0};
      return x.mark(cut, cut, kept);
    }
    return x.collect({least, least}, kept);
  }

  Traits traits(std::size_t) const override {
    return {.delta = 1.0, .absolute = static_cast<double>(value_)};
  }

 private:
  float value_;
};

const RegisterStage threshold{{
    .name = "threshold",
    .role = Role::selector,
    .summary = "Keeps the entries of at least this magnitude.",
    .paper = "Strom (2015); Dutta et al. (arXiv 1911.08250)",
    .parameters = {{.name = "value",
                    .fallback = "",
                    .min = 1e-30,
                    .max = 1e30,
                    .help = "least magnitude that is kept"},
                   index_parameter()},
    .bits = "varint(8 k + codec) + P, and the quantiser on k",
    .examples = {"threshold:0.01", "threshold:1,rice+natural"},
    .make = [](const Args& args) -> Stage { return std::make_shared<Threshold>(args); },
}};

}  // namespace
}  // namespace laconic

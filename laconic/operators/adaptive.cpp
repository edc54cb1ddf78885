// adaptive: the entries of at least 1/factor of the largest magnitude. With factor 2 the adaptive
// threshold that Dutta et al. ran: |2 x_i| >= max |x|, values in full precision.
#include <algorithm>
#include <bit>

#include "laconic/kernels/reduce.h"
#include "laconic/kernels/select.h"
#include "laconic/operators/indexed.h"

namespace laconic {
namespace {

class Adaptive : public IndexedSelector {
 public:
  explicit Adaptive(const Args& args)
      : IndexedSelector(args, false), factor_(static_cast<float>(args.number("factor"))) {}

  std::size_t most(std::size_t count) const override { return count; }

  void select(std::span<const float> x, const Keys&, Positions& kept,
              StageScratch&) const override {
    const float least = std::bit_cast<float>(kernels::largest_magnitude(x)) / factor_;
    kernels::at_least(x, std::max(std::bit_cast<std::uint32_t>(least), 1U), kernels::Side::both,
                      kept);
  }

  // The largest entry M is kept and each dropped one is below M / factor: of |x|^2 at least
  // M^2 / (M^2 + (n - 1) M^2 / factor^2) is kept. (1e-6 of it for the rounding of the division.)
  Traits traits(std::size_t count) const override {
    const double f = static_cast<double>(factor_) * (1 - 1e-6);
    const double dropped = count > 1 ? static_cast<double>(count - 1) / (f * f) : 0;
    return {.delta = 1 / (1 + dropped)};
  }

 private:
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

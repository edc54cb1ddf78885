// none: nothing is remembered; what an operator drops is lost.
#include "laconic/memory/memory.h"

namespace laconic {
namespace {

class None : public Memory {
 public:
  Source source(const Slice&, const Floats& gradient) override { return {.fresh = gradient}; }
  void commit(const Tensors&) override {}
  void rest(const Slice&) override {}
  double residual_norm() const override { return 0; }
  State save() const override { return {}; }
  void load(const State& state) override { expect_state(state, {}, {}); }
};

const RegisterMemory none{{
    .name = "none",
    .summary = "Nothing is remembered: right for unbiased operators.",
    .paper = "compressed SGD without feedback",
    .parameters = {},
    .examples = {"none"},
    .make = [](const Model&, const Args&) -> std::unique_ptr<Memory> {
      return std::make_unique<None>();
    },
}};

}  // namespace
}  // namespace laconic

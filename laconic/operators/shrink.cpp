// shrink: divides the entries by 1 + omega before the rest of the chain, which turns any unbiased
// operator into a contraction with delta = 1 / (1 + omega). Error feedback diverges without it when
// omega is 1 or more.
//
// With a = 1 / (1 + omega): E|C(a x) - x|^2 <= omega a^2 |x|^2 + (1 - a)^2 |x|^2 = (1 - a) |x|^2.
// Behind a selector that is a projection, omega is the quantiser's alone.
#include "laconic/operators/stage.h"

namespace laconic {
namespace {

const RegisterStage shrink{{
    .name = "shrink",
    .role = Role::scaler,
    .summary = "Divides by 1 + omega: makes a contraction of what follows, as feedback needs.",
    .paper = "Stich et al., Sparsified SGD with Memory; Koloskova et al., CHOCO (arXiv 1907.09356)",
    .parameters = {},
    .bits = "0",
    .examples = {"shrink+qsgd:1", "shrink+randomk:0.01", "shrink+topk:0.1+terngrad"},
    .make = [](const Args&) -> Stage { return Shrink{}; },
}};

}  // namespace
}  // namespace laconic

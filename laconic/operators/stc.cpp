// stc: sparse ternary compression. The k entries of largest magnitude, each as plus or minus the
// mean of those magnitudes. Sattler et al., Robust and Communication-Efficient Federated Learning.
//
// It is topk followed by sign, and is made of these two: |x - C(x)|^2 = |x|^2 - k mu^2. The
// authors' code keeps all ties at the threshold; here k is exact.
#include "laconic/operators/made.h"

namespace laconic {
namespace {

const RegisterStage stc{{
    .name = "stc",
    .role = Role::sparse_quantiser,
    .summary = "Keeps the largest magnitudes, each as plus or minus their mean.",
    .paper = "Sattler et al., Sparse Ternary Compression (arXiv 1903.02891)",
    .parameters = {density_parameter(), index_parameter()},
    .bits = "8 + P + 32 + k, k = ceil(density n)",
    .examples = {"stc:0.01", "stc:0.0025,rice"},
    .make = [](const Args& args) -> Stage {
      return SparseQuantiser{make_topk(args), make_sign()};
    },
}};

}  // namespace
}  // namespace laconic

// tensor: one slice per tensor, the layer-wise choice.
#include "laconic/layout/layout.h"

namespace laconic {
namespace {

const RegisterLayout tensor{{
    .name = "tensor",
    .summary = "One slice per tensor: layer-wise compression.",
    .paper = "Dutta et al., layer-wise versus entire-model compression (arXiv 1911.08250)",
    .parameters = {},
    .cut = [](std::span<const Slice> tensors, const Args&,
              Layout& out) { out.insert(out.end(), tensors.begin(), tensors.end()); },
}};

}  // namespace
}  // namespace laconic

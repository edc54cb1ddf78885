// whole: all tensors as one slice, the entire-model choice.
#include "laconic/layout/layout.h"

namespace laconic {
namespace {

const RegisterLayout whole{{
    .name = "whole",
    .summary = "The whole model as one slice: entire-model compression.",
    .paper = "Dutta et al., layer-wise versus entire-model compression (arXiv 1911.08250)",
    .parameters = {},
    .cut = [](std::span<const Slice> tensors, const Args&,
              Layout& out) { out.push_back(merge(tensors)); },
}};

}  // namespace
}  // namespace laconic

// fused: neighbouring tensors gathered until they have so many bytes, as bucketed training systems
// do.
#include "laconic/layout/layout.h"

namespace laconic {
namespace {

const RegisterLayout fused{{
    .name = "fused",
    .summary = "Neighbouring tensors together, up to so many bytes of float32; a larger tensor "
               "stays alone.",
    .paper = "bucketing, as in PyTorch DistributedDataParallel",
    .parameters = {{.name = "bytes",
                    .fallback = "4M",
                    .choices = {},
                    .min = 4,
                    .max = 0x1p40,
                    .whole = true,
                    .help = "most bytes of a slice that holds several tensors"}},
    .cut =
        [](std::span<const Slice> tensors, const Args& args, Layout& out) {
          const std::size_t most = args.whole("bytes") / sizeof(float);
          for (std::size_t from = 0, to = 0; from < tensors.size(); from = to) {
            std::size_t count = 0;
            do count += tensors[to++].count;
            while (to < tensors.size() && count + tensors[to].count <= most);
            out.push_back(merge(tensors.subspan(from, to - from)));
          }
        },
}};

}  // namespace
}  // namespace laconic

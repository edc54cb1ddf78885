// split: the whole model cut in slices of equal count, whatever the tensors.
#include <algorithm>

#include "laconic/layout/layout.h"

namespace laconic {
namespace {

const RegisterLayout split{{
    .name = "split",
    .summary = "The whole model in slices of so many entries; the last may be shorter.",
    .paper = "block-wise compression",
    .parameters = {{.name = "count",
                    .fallback = "1M",
                    .choices = {},
                    .min = 1,
                    .max = 0x1p40,
                    .whole = true,
                    .help = "entries of a slice"}},
    .cut =
        [](std::span<const Slice> tensors, const Args& args, Layout& out) {
          const Slice all = merge(tensors);
          const std::size_t most = args.whole("count");
          for (std::size_t from = 0; from < all.count; from += most) {
            const std::size_t count = std::min(most, all.count - from);
            out.push_back(
                {all.name + "@" + std::to_string(from), all.offset + from, count, count, 1});
          }
        },
}};

}  // namespace
}  // namespace laconic

// chunk: the k largest magnitudes of every run of `size` entries, as SparseLoCo sends them. Chunks
// bound an index to 12 bits at 4096; the smallest codec needs 7.5 of them.
#include <algorithm>

#include "laconic/base/errors.h"
#include "laconic/kernels/reduce.h"
#include "laconic/kernels/select.h"
#include "laconic/operators/indexed.h"

namespace laconic {
namespace {

class Chunk : public IndexedSelector {
 public:
  explicit Chunk(const Args& args)
      : IndexedSelector(args, true),
        size_(static_cast<std::size_t>(args.whole("size"))),
        kept_(static_cast<std::size_t>(args.whole("kept"))) {
    if (kept_ > size_)
      throw UsageError("chunk: kept = " + std::to_string(kept_) + " of " + std::to_string(size_) +
                       " entries; allowed: up to the size");
  }

  std::size_t most(std::size_t count) const override { return space(count).evenly(); }

  bool select(Entries& entries, const Keys&, Picked& kept, StageScratch& scratch) const override {
    const auto x = entries.array();
    if (!kernels::all_finite(x)) return false;
    kept.clear();
    for (std::size_t from = 0; from < x.size(); from += size_) {
      const std::size_t before = kept.size();
      kernels::largest(x.subspan(from, std::min(size_, x.size() - from)), kept_,
                       kernels::Side::both, kept.positions, scratch.magnitudes);
      for (std::uint32_t& position : kept.positions.span().subspan(before))
        position += static_cast<std::uint32_t>(from);
    }
    kernels::gather(x, kept.positions.view(), 1, kept.values.reset(kept.size()).data());
    return true;
  }

  Traits traits(std::size_t count) const override {
    const std::size_t size = std::min(size_, count);
    if (kept_ >= size) return {.delta = 1.0};
    return {.delta = static_cast<double>(kept_) / static_cast<double>(size)};
  }

 private:
  IndexSpace space(std::size_t count) const override {
    return {.count = count, .chunk = size_, .per_chunk = kept_};
  }

  std::size_t size_, kept_;
};

const RegisterStage chunk{{
    .name = "chunk",
    .role = Role::selector,
    .summary = "Keeps the entries of largest magnitude in every run of so many entries.",
    .paper = "Sarfi et al., SparseLoCo (arXiv 2508.15706)",
    .parameters = {{.name = "size",
                    .fallback = "4096",
                    .min = 2,
                    .max = 1 << 30,
                    .whole = true,
                    .help = "entries in a run"},
                   {.name = "kept",
                    .fallback = "64",
                    .min = 1,
                    .max = 1 << 30,
                    .whole = true,
                    .help = "entries kept of each"},
                   index_parameter()},
    .bits = "8 + P, and the quantiser on k; k = kept for each run of size entries",
    .examples = {"chunk", "chunk:64,kept=4,fixed+uniform:2"},
    .make = [](const Args& args) -> Stage { return std::make_shared<Chunk>(args); },
}};

}  // namespace
}  // namespace laconic

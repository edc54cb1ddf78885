// chunk: the k largest magnitudes of every run of `size` entries, as SparseLoCo sends them. Chunks
// bound an index to 12 bits at 4096; the smallest codec needs 7.5 of them.
#include <algorithm>
#include <bit>

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

  // All that reach a bound are collected and chosen among. The bound is a little below the least
  // magnitude kept of the runs before; one that is too high costs another look at the run.
  bool select(Entries& x, const Keys&, Picked& kept, StageScratch&) const override {
    return x.collect_runs(size_, kept, [&](auto look, Stretch& part) {
      const std::size_t before = part.found.size();
      kernels::Bounds bounds = part.bounds;
      look(bounds);
      if (part.found.size() - before < kept_ && bounds.above > 1) {
        part.found.truncate(before);
        bounds = {};
        look(bounds);
      }
      if (part.found.size() - before <= kept_) return;
      const float least = std::bit_cast<float>(keep_largest(part, before, bounds.above));
      part.usual += (least - part.usual) / (part.usual > 0 ? 4 : 1);
      const auto next = std::max(std::bit_cast<std::uint32_t>(kLowered * part.usual), 1U);
      part.bounds = {next, next};
    });
  }

  Traits traits(std::size_t count) const override {
    const std::size_t size = std::min(size_, count);
    if (kept_ >= size) return {.delta = 1.0};
    return {.delta = static_cast<double>(kept_) / static_cast<double>(size)};
  }

 private:
  // Keeps the largest of what was found from `before` on; returns about the least of them.
  std::uint32_t keep_largest(Stretch& part, std::size_t before, std::uint32_t bound) const {
    const auto values = part.found.values.span().subspan(before);
    kernels::Cut cut = kernels::cut_after(kept_, values, kernels::Side::both, bound, part.largest,
                                          part.magnitudes);
    const std::uint32_t least = cut.least();
    part.found.truncate(before + kernels::keep_above(part.found.positions.data() + before,
                                                     values.data(), values.size(), cut, cut));
    return least;
  }

  // Of a bell curve's runs of 4096 of which 64 are kept, 1 of 40 has fewer above 0.95 of the usual
  // bound.
  static constexpr float kLowered = 0.95F;

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

// topk: the entries of largest magnitude. Exactly k of them, the lowest position first among
// equals, so that all ranks and all machines choose the same; zeros are never sent.
//
// The code that came with Dutta et al. keeps one more and all ties; here k is exact.
#include "laconic/operators/largest.h"
#include "laconic/operators/made.h"

namespace laconic {
namespace {

class TopK : public IndexedSelector {
 public:
  explicit TopK(const Args& args) : IndexedSelector(args, true), density_(args.number("density")) {}

  std::size_t most(std::size_t count) const override { return kept_at(density_, count); }

  bool select(Entries& x, const Keys&, Picked& kept, StageScratch& scratch) const override {
    return keep_largest(x, most(x.size()), kept, scratch);
  }

  // k / n, attained when all magnitudes are equal.
  Traits traits(std::size_t count) const override {
    if (count == 0) return {.delta = 1.0};
    return {.delta = static_cast<double>(most(count)) / static_cast<double>(count)};
  }

 private:
  double density_;
};

const RegisterStage topk{{
    .name = "topk",
    .role = Role::selector,
    .summary = "Keeps the entries of largest magnitude, exactly so many, ties by lowest position.",
    .paper = "Aji and Heafield (arXiv 1704.05021); Dutta et al., layer-wise versus entire-model "
             "(arXiv 1911.08250)",
    .parameters = {density_parameter(), index_parameter()},
    .bits = "8 + P, and the quantiser on k = ceil(density n)",
    .examples = {"topk:0.01", "topk:0.1,rice", "topk:0.1,fano", "topk:0.1,bitmap",
                 "topk:0.1,varint", "topk:0.1,fixed", "topk:0.1,omega", "topk:0.01+natural",
                 "topk:0.01+qsgd:4", "topk:0.05+half+entropy", "topk:1"},
    .make = [](const Args& args) -> Stage { return make_topk(args); },
}};

}  // namespace

std::shared_ptr<const Selector> make_topk(const Args& args) { return std::make_shared<TopK>(args); }

}  // namespace laconic

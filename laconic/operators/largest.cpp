// How the largest entries are found.
#include "laconic/operators/largest.h"

#include "laconic/kernels/reduce.h"
#include "laconic/kernels/select.h"

namespace laconic {
namespace {

using kernels::Bounds;
using kernels::Cut;
using kernels::Side;

// One search for the k largest: of both signs together, or of each.
class Search {
 public:
  Search(Entries& x, std::size_t k, bool by_sign, StageScratch& scratch)
      : x_(x),
        k_(k),
        by_sign_(by_sign),
        scratch_(scratch),
        enough_((by_sign ? 6 : 3) * k + 4 * kBlock) {}

  // Makes `kept` the largest of both signs. Returns false for NaN and Inf.
  bool run(Picked& kept) {
    if (!find(kept)) return false;
    const std::uint32_t least = cut_one(kept, bounds_.above);
    remember(least, least);
    return true;
  }

  // The same for either sign.
  bool run(Picked& above, Picked& below) {
    if (!find(above)) return false;
    std::ranges::copy(above.positions.view(), below.positions.reset(above.size()).begin());
    std::ranges::copy(above.values.view(), below.values.reset(above.size()).begin());
    keep(above, Cut(), Cut::none());
    keep(below, Cut::none(), Cut());
    const std::uint32_t least = cut_one(above, bounds_.above);
    remember(least, cut_one(below, bounds_.below));
    return true;
  }

 private:
  // Collects candidates enough.
  bool find(Picked& found) {
    if (Hint* hint = x_.hint(); hint && hint->above > 0 && hint->below > 0 && k_ < x_.size()) {
      bounds_ = {hint->above, hint->below};
      if (!by_sign_) bounds_.above = bounds_.below = std::min(hint->above, hint->below);
      if (!collect(found)) return false;
      const bool are_enough = enough(found);
      hint->margin = margin_after(hint->margin, are_enough);
      if (are_enough) return true;
    }
    bounds_ = by_sample();
    if (!collect(found)) return false;
    if (enough(found)) return true;
    bounds_ = by_tally();
    return collect(found);
  }

  // In one pass. Where far more reach the bounds than are wanted, the best so far are kept and the
  // bounds raised to what can still be among them, so that few distinct values, or bounds far too
  // low, cost little more than usual.
  bool collect(Picked& found) {
    return x_.collect_runs(kBlock, found, [this](auto look, Stretch& part) {
      const Bounds bounds{std::max(part.bounds.above, bounds_.above),
                          std::max(part.bounds.below, bounds_.below)};
      look(bounds);
      if (part.found.size() <= enough_) return;
      const Bounds least = cut_part(part);
      part.bounds = {std::max(bounds.above, least.above + 1),
                     std::max(bounds.below, least.below + 1)};
    });
  }

  // What is known of the least magnitudes kept, for the next step; 0: nothing.
  void remember(std::uint32_t above, std::uint32_t below) {
    Hint* hint = x_.hint();
    if (!hint) return;
    hint->above = above > 0 ? lowered(above, hint->margin) : 0;
    hint->below = below > 0 ? lowered(below, hint->margin) : 0;
  }

  static void keep(Picked& found, Cut above, Cut below) {
    found.truncate(kernels::keep_above(found.positions.data(), found.values.data(), found.size(),
                                       above, below));
  }

  // Keeps the k best of candidates that all count. Returns a magnitude that none of them is below;
  // 0 when they are fewer than k or all.
  std::uint32_t cut_one(Picked& found, std::uint32_t bound) {
    if (found.size() < k_ || k_ >= x_.size()) return 0;
    Cut cut = kernels::cut_after(k_, found.values.view(), Side::both, bound, x_.largest(),
                                 scratch_.magnitudes);
    const std::uint32_t least = cut.least();
    found.truncate(
        kernels::keep_above(found.positions.data(), found.values.data(), found.size(), cut, cut));
    return least;
  }

  // The same for what a thread has found so far, of both signs or of each.
  Bounds cut_part(Stretch& part) const {
    const auto values = part.found.values.view();
    const auto made = [&](Side side, std::size_t count, std::uint32_t bound) {
      return count < k_
                 ? Cut()
                 : kernels::cut_after(k_, values, side, bound, part.largest, part.magnitudes);
    };
    const auto least = [](const Cut& cut) { return cut.value > 0 ? cut.least() : 0; };
    if (!by_sign_) {
      Cut both = made(Side::both, values.size(), bounds_.above);
      const Bounds kept{least(both), least(both)};
      part.found.truncate(kernels::keep_above(part.found.positions.data(), part.found.values.data(),
                                              values.size(), both, both));
      return kept;
    }
    const std::size_t positive = kernels::count_on(values, Side::positive);
    const Cut above = made(Side::positive, positive, bounds_.above);
    const Cut below = made(Side::negative, values.size() - positive, bounds_.below);
    keep(part.found, above, below);
    return {least(above), least(below)};
  }

  bool enough(const Picked& found) const {
    const std::size_t size = found.size();
    if (!by_sign_) return bounds_.above == 1 || size >= k_;
    const std::size_t above = kernels::count_on(found.values.view(), Side::positive);
    return (bounds_.above == 1 || above >= k_) && (bounds_.below == 1 || size - above >= k_);
  }

  Bounds by_sample() {
    if (k_ >= x_.size()) return {};
    const auto sample = take_sample(x_, scratch_);
    if (sample.empty()) return {};
    const auto guess = [&](Side side) {
      return kernels::guess_kth(sample, side, x_.size(), k_, scratch_.magnitudes);
    };
    if (by_sign_) return {guess(Side::positive), guess(Side::negative)};
    const std::uint32_t both = guess(Side::both);
    return {both, both};
  }

  // The least magnitude of the eighth of a binade that the k-th lies in: reached for sure.
  Bounds by_tally() {
    Entries::Tally tally;
    x_.tally(tally);
    const auto floor = [&](const auto& counts) {
      std::size_t k = k_;
      std::uint32_t bin = 2047;
      for (; bin > 0 && k > counts[bin]; --bin) k -= counts[bin];
      return std::max(bin << 20, 1U);
    };
    if (by_sign_) return {floor(tally.above), floor(tally.below)};
    for (std::size_t bin = 0; bin < tally.above.size(); ++bin) tally.above[bin] += tally.below[bin];
    const std::uint32_t both = floor(tally.above);
    return {both, both};
  }

  Entries& x_;
  std::size_t k_;
  bool by_sign_;
  StageScratch& scratch_;
  std::size_t enough_;  // candidates of one thread, beyond which it chooses among them
  Bounds bounds_;
};

}  // namespace

std::span<const float> take_sample(const Entries& x, StageScratch& scratch) {
  const auto positions = scratch.positions.reset(kernels::sample_size(x.size()));
  if (!positions.empty()) kernels::sample_positions(x.size(), positions);
  x.gather(positions, scratch.sample);
  return scratch.sample.view();
}

bool keep_largest(Entries& x, std::size_t k, Picked& kept, StageScratch& scratch) {
  if (k >= x.size() && x.many_reach(1, scratch.sample)) {
    Cut all;
    return x.mark(all, all, kept);
  }
  return Search(x, k, false, scratch).run(kept);
}

bool keep_largest_by_sign(Entries& x, std::size_t k, Picked& above, Picked& below,
                          StageScratch& scratch) {
  return Search(x, k, true, scratch).run(above, below);
}

}  // namespace laconic

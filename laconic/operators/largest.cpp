// How the largest entries are found.
#include "laconic/operators/largest.h"

#include "laconic/kernels/reduce.h"
#include "laconic/kernels/select.h"

namespace laconic {
namespace {

using kernels::Bounds;
using kernels::Side;

// What an entry counts on this side; 0 when it is of the other.
std::uint32_t counts_as(float value, Side side) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const bool negative = bits >> 31 != 0;
  if (side == (negative ? Side::positive : Side::negative)) return 0;
  return bits & 0x7fffffffU;
}

// Fills scratch.magnitudes with what the values count on this side.
std::span<std::uint32_t> magnitudes_of(std::span<const float> values, Side side,
                                       StageScratch& scratch) {
  const auto to = scratch.magnitudes.reset(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) to[i] = counts_as(values[i], side);
  return to;
}

// One search for the k largest: of both signs together, or of each.
class Search {
 public:
  Search(Entries& x, std::size_t k, bool by_sign, StageScratch& scratch)
      : x_(x), k_(k), by_sign_(by_sign), scratch_(scratch) {}

  // Collects candidates enough. Returns false for NaN and Inf.
  bool find() {
    if (Hint* hint = x_.hint(); hint && hint->above > 0 && hint->below > 0 && k_ < x_.size()) {
      bounds_ = {hint->above, hint->below};
      if (!by_sign_) bounds_.above = bounds_.below = std::min(hint->above, hint->below);
      if (!collect()) return false;
      hint->margin = margin_after(hint->margin, enough());
      if (enough()) return true;
    }
    bounds_ = by_sample();
    if (!collect()) return false;
    if (enough()) return true;
    bounds_ = by_tally();
    return collect();
  }

  // Makes `kept` the k largest of one side. Returns a bound for the next step; 0: none known.
  std::uint32_t keep(Side side, Picked& kept) {
    const std::uint32_t bound = side == Side::negative ? bounds_.below : bounds_.above;
    const Picked& found = scratch_.candidates;
    const auto magnitudes = magnitudes_of(found.values.view(), side, scratch_);
    const auto counted = static_cast<std::size_t>(
        std::ranges::count_if(magnitudes, [](std::uint32_t m) { return m > 0; }));
    kernels::Kth kth;  // all of them
    if (counted > k_) kth = kernels::kth_largest_of(scratch_.magnitudes, bound, k_);
    // Written first and counted afterwards: what is kept is as good as random to a branch.
    std::uint32_t* position = kept.positions.reset(found.size()).data();
    float* value = kept.values.reset(found.size()).data();
    std::size_t size = 0, ties = 0;
    std::uint32_t least = kernels::kInfinity;
    for (std::size_t j = 0; j < found.size(); ++j) {
      const std::uint32_t m = scratch_.magnitudes[j];
      const bool tie = m == kth.value;
      const bool keeps = (m > kth.value) | (tie & (ties < kth.rank));
      position[size] = found.positions[j];
      value[size] = found.values[j];
      size += keeps;
      ties += tie;
      least = std::min(least, keeps ? m : least);
    }
    kept.positions.truncate(size);
    kept.values.truncate(size);
    return counted < k_ || !x_.hint() ? 0 : lowered(least, x_.hint()->margin);
  }

 private:
  bool collect() { return x_.collect(bounds_, scratch_.candidates); }

  bool enough() const {
    const auto values = scratch_.candidates.values.view();
    std::size_t below = 0;
    for (const float value : values) below += std::bit_cast<std::uint32_t>(value) >> 31;
    const std::size_t above = values.size() - below;
    if (!by_sign_) return bounds_.above == 1 || above + below >= k_;
    return (bounds_.above == 1 || above >= k_) && (bounds_.below == 1 || below >= k_);
  }

  Bounds by_sample() {
    if (k_ >= x_.size()) return {};
    const auto sample = take_sample(x_, scratch_);
    if (sample.empty()) return {};
    const auto guess = [&](Side side) {
      return kernels::guess_kth(magnitudes_of(sample, side, scratch_), x_.size(), k_);
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
  Bounds bounds_;
};

}  // namespace

std::span<const float> take_sample(const Entries& x, StageScratch& scratch) {
  const auto positions = scratch.positions.reset(kernels::sample_size(x.size()));
  for (std::size_t i = 0; i < positions.size(); ++i)
    positions[i] = static_cast<std::uint32_t>(kernels::sample_position(i, x.size()));
  x.gather(positions, scratch.sample);
  return scratch.sample.view();
}

bool keep_largest(Entries& x, std::size_t k, Picked& kept, StageScratch& scratch) {
  Search search(x, k, false, scratch);
  if (!search.find()) return false;
  const std::uint32_t next = search.keep(Side::both, kept);
  if (Hint* hint = x.hint()) hint->above = hint->below = next;
  return true;
}

bool keep_largest_by_sign(Entries& x, std::size_t k, Picked& above, Picked& below,
                          StageScratch& scratch) {
  Search search(x, k, true, scratch);
  if (!search.find()) return false;
  const std::uint32_t bound_above = search.keep(Side::positive, above);
  const std::uint32_t bound_below = search.keep(Side::negative, below);
  if (Hint* hint = x.hint()) {
    hint->above = bound_above;
    hint->below = bound_below;
  }
  return true;
}

}  // namespace laconic

// chunk: the k largest magnitudes of every run of `size` entries, as SparseLoCo sends them. Chunks
// bound an index to 12 bits at 4096; the smallest codec needs 7.5 of them.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "laconic/base/errors.h"
#include "laconic/kernels/ranks.h"
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

  bool select(Entries& x, const Keys&, Picked& kept, StageScratch&) const override {
    return size_ <= kShort ? select_short(x, kept) : select_long(x, kept);
  }

  Traits traits(std::size_t count) const override {
    const std::size_t size = std::min(size_, count);
    if (kept_ >= size) return {.delta = 1.0};
    return {.delta = static_cast<double>(kept_) / static_cast<double>(size)};
  }

 private:
  // All that reach a bound are collected and chosen among. The bound is a little below the least
  // magnitude kept of the runs before; one that is too high costs another look at the run.
  bool select_long(Entries& x, Picked& kept) const {
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

  // The same for as many runs at a time as a block has. The bound is such that one run of 32 or so
  // has too few above it.
  bool select_short(Entries& x, Picked& kept) const {
    return x.collect_runs(kBlock / size_ * size_, kept, [&](auto look, Stretch& part) {
      constexpr std::size_t kMissed = 32;
      const std::size_t before = part.found.size();
      look(part.bounds);
      put_aside(part, before);
      part.found.truncate(before);
      const std::size_t runs = (part.to - part.from + size_ - 1) / size_;
      const std::size_t missed = keep_in_runs(x, part);
      if (part.found.size() - before < runs * std::min(kept_, size_)) {
        part.usual *= 0.7F;  // of those that were sought in vain some are zeros
      } else if (part.usual == 0) {
        float sum = 0;
        for (const float value : part.found.values.view().subspan(before)) sum += std::abs(value);
        part.usual = sum / static_cast<float>(2 * (part.found.size() - before));
      } else {
        part.usual *= missed * kMissed > runs ? 0.9F : 1.02F;
      }
      if (!std::isfinite(part.usual)) part.usual = 0;
      const auto next = std::max(std::bit_cast<std::uint32_t>(part.usual), 1U);
      part.bounds = {next, next};
    });
  }

  // Copies what was found from `before` on, and after it as many positions of no run as are looked
  // at at once.
  static void put_aside(Stretch& part, std::size_t before) {
    const std::size_t number = part.found.size() - before, room = number + kernels::kRanked;
    const auto positions = part.aside.positions.reset(room);
    std::ranges::copy(part.found.positions.view().subspan(before), positions.begin());
    std::ranges::fill(positions.subspan(number), ~0U);
    const auto values = part.aside.values.reset(room);
    std::ranges::copy(part.found.values.view().subspan(before), values.begin());
    std::ranges::fill(values.subspan(number), 0.0F);
  }

  // Appends the largest of each run that is aside. Returns how many runs had to be looked at again.
  std::size_t keep_in_runs(const Entries& x, Stretch& part) const {
    const std::span<const std::uint32_t> positions = part.aside.positions.view();
    std::size_t at = 0, missed = 0;
    for (std::size_t from = part.from; from < part.to; from += size_) {
      const std::size_t to = std::min(part.to, from + size_), first = at;
      if (kept_ < kernels::kRanked && keep_ranked(part, at, from, to)) continue;
      while (positions[at] < to) ++at;
      if (at - first < std::min(kept_, to - from) && part.bounds.above > 1) {
        part.again.clear();
        x.look_again(from, to, {}, part.again);
        keep_of_run(part.again.positions.view(), part.again.values.view(), part);
        ++missed;
      } else {
        keep_of_run(positions.subspan(first, at - first),
                    part.aside.values.view().subspan(first, at - first), part);
      }
    }
    return missed;
  }

  // The same for the run from..to, whose candidates are those aside from `at` on, which then is
  // past them. Returns false, with nothing appended, where they are too few or many.
  bool keep_ranked(Stretch& part, std::size_t& at, std::size_t from, std::size_t to) const {
    const std::size_t before = part.found.size();
    const kernels::Ranked ranked = kernels::keep_by_rank(
        part.aside.positions.data() + at, part.aside.values.data() + at,
        static_cast<std::uint32_t>(to), kept_, part.found.positions.grow(kernels::kRanked),
        part.found.values.grow(kernels::kRanked));
    const bool few = ranked.run < std::min(kept_, to - from) && part.bounds.above > 1;
    const bool kept = !few && (ranked.run < kernels::kRanked || size_ <= kernels::kRanked);
    part.found.truncate(before + (kept ? ranked.number : 0));
    at += kept ? ranked.run : 0;
    return kept;
  }

  void keep_of_run(std::span<const std::uint32_t> positions, std::span<const float> values,
                   Stretch& part) const {
    constexpr std::size_t kMany = 64, kRounds = 8;
    const std::size_t before = part.found.size(), count = positions.size();
    if (count > kept_ && count <= kMany && kept_ <= kRounds)
      return keep_in_rounds<kMany>(positions, values, part);
    std::ranges::copy(positions, part.found.positions.grow(count));
    std::ranges::copy(values, part.found.values.grow(count));
    if (count > kept_) keep_largest(part, before, 1);
  }

  // The largest magnitude, the largest below that and so on, until as many as are wanted reach it:
  // no branch depends on an entry. `positions` are more than kept_.
  template <std::size_t kRoom>
  void keep_in_rounds(std::span<const std::uint32_t> positions, std::span<const float> values,
                      Stretch& part) const {
    const std::size_t count = positions.size(), before = part.found.size();
    std::int32_t magnitudes[kRoom] = {};
    for (std::size_t i = 0; i < count; ++i)
      magnitudes[i] = std::bit_cast<std::int32_t>(std::abs(values[i]));
    std::int32_t least = std::numeric_limits<std::int32_t>::max();
    auto wanted = static_cast<std::int32_t>(kept_);  // of those equal to the least
    for (std::size_t round = 0; round < kept_; ++round) {
      std::int32_t next = 0, equal = 0;
      for (const std::int32_t m : magnitudes) next = std::max(next, m < least ? m : 0);
      for (const std::int32_t m : magnitudes) equal += m == next;
      least = next;
      if (equal >= wanted) break;
      wanted -= equal;
    }
    std::uint32_t* const to = part.found.positions.grow(count);
    float* const to_value = part.found.values.grow(count);
    std::size_t number = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const bool tie = magnitudes[i] == least && wanted > 0;
      wanted -= tie;
      to[number] = positions[i];
      to_value[number] = values[i];
      number += tie || magnitudes[i] > least;
    }
    part.found.truncate(before + number);
  }

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
  static constexpr std::size_t kShort = 512;  // entries of a run that is not looked at by itself

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

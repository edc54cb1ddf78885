// Who adds up what.
#include "laconic/exchange/shards.h"

#include <algorithm>
#include <numeric>

namespace laconic {
namespace {

constexpr std::size_t kLarge = 65536;  // entries of a slice that is always cut

// Where the p-th of n about equal parts of `total` begins; no product here can overflow.
std::size_t part_of(std::size_t total, std::size_t p, std::size_t n) {
  const std::size_t at = total / n * p + total % n * p / n;
  return total < kLarge ? at : (at + kBlock / 2) / kBlock * kBlock;
}

Slice part_of(const Slice& slice, std::size_t from, std::size_t to) {
  if (from == slice.offset && to == slice.offset + slice.count) return slice;
  return {slice.name + "@" + std::to_string(from - slice.offset), from, to - from, to - from, 1};
}

// The owner of each slice that is not cut.
std::vector<int> deal(const Layout& layout, std::span<const std::size_t> whole, int ranks) {
  std::vector<std::size_t> order(whole.begin(), whole.end());
  std::ranges::stable_sort(order, std::greater(), [&](std::size_t i) { return layout[i].count; });
  std::vector<std::size_t> load(static_cast<std::size_t>(ranks));
  std::vector<int> owners(layout.size());
  for (const std::size_t i : order) {
    const auto least = std::ranges::min_element(load);
    owners[i] = static_cast<int>(least - load.begin());
    *least += layout[i].count;
  }
  return owners;
}

}  // namespace

void Shards::add(std::size_t end, int owner) {
  if (end == bounds.back()) return;
  if (!owners.empty() && owners.back() == owner) {
    bounds.back() = end;
    return;
  }
  bounds.push_back(end);
  owners.push_back(owner);
}

int Shards::owner_at(std::size_t entry) const {
  return owners[static_cast<std::size_t>(std::ranges::upper_bound(bounds, entry) - bounds.begin()) -
                1];
}

Shards even_shards(const Layout& layout, int ranks) {
  const std::size_t total = layout.empty() ? 0 : layout.back().offset + layout.back().count;
  const auto n = static_cast<std::size_t>(ranks);
  const auto is_cut = [&](const Slice& slice) {
    return slice.count >= kLarge || slice.count > (total + n - 1) / n;
  };
  std::vector<std::size_t> whole;
  for (std::size_t i = 0; i < layout.size(); ++i)
    if (!is_cut(layout[i])) whole.push_back(i);
  const auto owners = deal(layout, whole, ranks);
  Shards shards;
  for (std::size_t i = 0; i < layout.size(); ++i) {
    const Slice& slice = layout[i];
    if (!is_cut(slice)) {
      shards.add(slice.offset + slice.count, owners[i]);
      continue;
    }
    for (std::size_t p = 1; p < n; ++p)
      shards.add(slice.offset + std::min(slice.count, part_of(slice.count, p, n)),
                 static_cast<int>(p) - 1);
    shards.add(slice.offset + slice.count, ranks - 1);
  }
  return shards;
}

Shards one_owner(std::size_t count) {
  Shards shards;
  shards.add(count, 0);
  return shards;
}

Plan cut_at(const Plan& plan, std::span<const std::size_t> bounds) {
  Plan cut{.layout = {}, .operators = plan.operators, .operator_of = {}};
  for (std::size_t i = 0; i < plan.layout.size(); ++i) {
    const Slice& slice = plan.layout[i];
    const std::size_t end = slice.offset + slice.count;
    for (std::size_t from = slice.offset; from < end;) {
      const auto next = std::ranges::upper_bound(bounds, from);
      const std::size_t to = next == bounds.end() ? end : std::min(end, *next);
      cut.layout.push_back(part_of(slice, from, to));
      cut.operator_of.push_back(plan.operator_of[i]);
      from = to;
    }
  }
  return cut;
}

void ByOwner::sort(const Layout& layout, const Shards& shards, Slices slices, int ranks) {
  slices_.resize(static_cast<std::size_t>(ranks));
  for (auto& of_rank : slices_) of_rank.clear();
  places_.clear();
  for (const std::size_t i : slices) {
    const int owner = shards.owner_at(layout[i].offset);
    auto& of_owner = slices_[static_cast<std::size_t>(owner)];
    places_.push_back({owner, of_owner.size()});
    of_owner.push_back(i);
  }
}

void SumsOfOwners::open(const Step& step, const Leg& leg, const ByOwner& owners, int owner,
                        ByteView bytes, bool own) {
  FrameIn& frame = frames_[static_cast<std::size_t>(owner)];
  frame.open(leg, owner, owners.of(owner), bytes, step.scratch, own);
  inputs_ = hash_of(inputs_, frame.crc());
  step.stats.finite &= frame.finite();
  step.stats.down_bytes += bytes.size();
}

void SumsOfOwners::mean(const ByOwner& owners, std::size_t place, std::size_t from,
                        std::span<float> block) const {
  const ByOwner::Place at = owners.place(place);
  const Decoder* sum = &frames_[static_cast<std::size_t>(at.owner)].slice(at.place);
  sum_of({&sum, 1}, from, from + block.size(), 1.0F / static_cast<float>(frames_.size()),
         block.data());
}

}  // namespace laconic

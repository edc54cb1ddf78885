// Frames without peers.
#include "laconic/exchange/foresight.h"

#include <algorithm>

#include "laconic/base/registry.h"
#include "laconic/exchange/aggregator.h"

namespace laconic {
namespace {

Registry<ForesightInfo>& registry() {
  static Registry<ForesightInfo> foresights("exchange that foresees what it sends");
  return foresights;
}

constexpr std::uint64_t kSeed = 1;
constexpr std::size_t kSenders = 5;  // whose draws are in a sum, at most: more change sizes little

}  // namespace

Rehearsal::Rehearsal(const Model& model, Plan plan, std::optional<Plan> down, int ranks,
                     std::span<const float> gradient, bool zeros_rest, std::string memory)
    : plan(std::move(plan)),
      down(std::move(down)),
      ranks(ranks),
      memory(std::move(memory)),
      gradient_(gradient),
      places_(model) {
  for (std::size_t i = 0; i < places_.tensors(); ++i)
    rests_.push_back(zeros_rest &&
                     zeros({.name = {}, .offset = places_.begin(i), .count = places_.count(i)}));
}

bool Rehearsal::zeros(const Slice& slice) const {
  return std::ranges::all_of(gradient_.subspan(slice.offset, slice.count),
                             [](float value) { return value == 0; });
}

bool Rehearsal::rests(const Slice& slice) const {
  bool all = slice.count > 0;
  places_.each(slice, [&](std::size_t tensor, std::size_t, std::size_t) { all &= rests_[tensor]; });
  return all;
}

Leg Rehearsal::leg_of(const Plan& plan, std::uint64_t seed) const {
  return {plan, seed, kForeseenStep, gradient_.size(), static_cast<std::size_t>(ranks)};
}

void Rehearsal::write(const Plan& plan, Slices slices, std::size_t rank) {
  Leg leg = leg_of(plan, kSeed);
  leg.strata = true;
  out_.begin(leg, static_cast<int>(rank), written_);
  for (const std::size_t i : slices) {
    const Slice& slice = plan.layout[i];
    if (rests(slice))
      out_.rest(i);
    else
      out_.add(i, Floats(gradient_.subspan(slice.offset, slice.count)), scratch_);
  }
  out_.finish();
}

std::uint64_t Rehearsal::frame(const Plan& plan, Slices slices) {
  write(plan, slices, 0);
  return written_.size();
}

std::uint64_t Rehearsal::way_back(const Plan& up, const Plan& down, Slices slices) {
  const bool drawn = std::ranges::any_of(
      slices, [&](std::size_t i) { return up.op(i).traits(up.layout[i].count).random; });
  const std::size_t senders = drawn ? std::min<std::size_t>(ranks, kSenders) : 1;
  const float weight = static_cast<float>(ranks) / static_cast<float>(senders);
  sum_.assign(entries_of(down, slices), 0.0F);
  for (std::size_t rank = 0; rank < senders; ++rank) {
    if (rank > 0) write(up, slices, rank);
    in_.open(leg_of(up, kSeed), static_cast<int>(rank), slices, written_.view(), scratch_, true);
    float* y = sum_.data();
    for (std::size_t place = 0; place < slices.size(); ++place) {
      const std::size_t count = down.layout[slices[place]].count;
      if (!in_.rests(place)) in_.slice(place).add(0, count, weight, y);
      y += count;
    }
  }
  const Leg leg = leg_of(down, seed_of_way_back(kSeed));
  back_.begin(leg, 0, returned_);
  std::span<const float> rest = sum_;
  for (std::size_t place = 0; place < slices.size(); ++place) {
    const auto x = rest.first(down.layout[slices[place]].count);
    rest = rest.subspan(x.size());
    if (in_.rests(place))
      back_.rest(slices[place]);
    else
      back_.add(slices[place], Floats(x), scratch_);
  }
  back_.finish();
  return returned_.size();
}

RegisterForesight::RegisterForesight(ForesightInfo info) { registry().add(std::move(info)); }

std::unique_ptr<Foresight> foresee(std::string_view exchange, Rehearsal& rehearsal) {
  const auto stages = split_chain(exchange);
  if (stages.size() != 1)
    throw UsageError("an exchange is one word, not '" + std::string(exchange) + "'");
  const ForesightInfo& info = registry().at(stages[0].name);
  const auto known = std::ranges::find(exchanges(), info.name, &ExchangeInfo::name);
  return info.make(rehearsal, Args(info.name, known->parameters, stages[0].args));
}

}  // namespace laconic

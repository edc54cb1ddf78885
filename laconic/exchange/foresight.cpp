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

}  // namespace

Rehearsal::Rehearsal(const Model& model, Plan plan, std::optional<Plan> down, int ranks,
                     std::span<const float> gradient, bool zeros_rest)
    : plan(std::move(plan)),
      down(std::move(down)),
      ranks(ranks),
      gradient_(gradient),
      places_(model) {
  for (std::size_t i = 0; i < places_.tensors(); ++i)
    rests_.push_back(zeros_rest &&
                     std::ranges::all_of(gradient.subspan(places_.begin(i), places_.count(i)),
                                         [](float value) { return value == 0; }));
}

bool Rehearsal::rests(const Slice& slice) const {
  bool all = slice.count > 0;
  places_.each(slice, [&](std::size_t tensor, std::size_t, std::size_t) { all &= rests_[tensor]; });
  return all;
}

Leg Rehearsal::leg_of(const Plan& plan, std::uint64_t seed) const {
  return {plan, seed, kForeseenStep, gradient_.size(), static_cast<std::size_t>(ranks)};
}

std::uint64_t Rehearsal::frame(const Plan& plan, Slices slices) {
  Leg leg = leg_of(plan, kSeed);
  leg.strata = true;
  out_.begin(leg, 0, written_);
  for (const std::size_t i : slices) {
    const Slice& slice = plan.layout[i];
    if (rests(slice))
      out_.rest(i);
    else
      out_.add(i, Floats(gradient_.subspan(slice.offset, slice.count)), scratch_);
  }
  out_.finish();
  return written_.size();
}

std::uint64_t Rehearsal::way_back(const Plan& up, const Plan& down, Slices slices) {
  in_.open(leg_of(up, kSeed), 0, slices, written_.view(), scratch_, true);
  const Leg leg = leg_of(down, seed_of_way_back(kSeed));
  back_.begin(leg, 0, returned_);
  for (std::size_t place = 0; place < slices.size(); ++place) {
    if (in_.rests(place)) {
      back_.rest(slices[place]);
      continue;
    }
    sum_.assign(down.layout[slices[place]].count, 0.0F);
    in_.slice(place).add(0, sum_.size(), static_cast<float>(ranks), sum_.data());
    back_.add(slices[place], Floats(std::span<const float>(sum_)), scratch_);
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

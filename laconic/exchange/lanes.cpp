// A unit by a lane. A slice that goes as it is takes with it all that is remembered of it, by the
// rank and, where sums are compressed too, by their owner: nothing is owed of it afterwards.
#include "laconic/exchange/lanes.h"

#include <algorithm>
#include <limits>

#include "laconic/exchange/floats_unit.h"
#include "laconic/exchange/two_way.h"
#include "laconic/kernels/reduce.h"
#include "laconic/operators/lighter.h"

namespace laconic {
namespace {

constexpr double kTight = 0.75;  // of the recipe's usual bytes: else the lane is not worth having

ByteView bytes_of(std::span<const float> values) {
  return {reinterpret_cast<const std::uint8_t*>(values.data()), values.size_bytes()};
}

class PlainUnit : public FloatsUnit {
 public:
  PlainUnit(Exchange& exchange, const Transport& transport, std::uint64_t seed)
      : FloatsUnit(transport, transport.reduces() && transport.size() > 1),
        exchange_(exchange),
        seed_(seed) {}

  void open(const Step& step) override {
    const Timed timed(step.stats.decompress_seconds);
    step.stats.finite &= kernels::all_finite(values());
    inputs_ = crc32c(bytes_of(values()));
  }

  std::uint32_t inputs() const override { return inputs_; }

 private:
  // NaN stands for a slice that is not finite, and so does every sum it goes into: that tells all
  // ranks.
  void write(const Step& step, std::size_t i, std::span<float> out) override {
    const Slice& slice = step.plan.layout[i];
    const Floats gradient = step.gradient.floats(slice);
    Memory* const owed = exchange_.owed(&slice);
    if (step.gradient.rests(slice)) {
      std::ranges::fill(out, 0.0F);
      if (!exchange_.lets_rest()) exchange_.memory()->rest(slice);
      if (owed) owed->rest(slice);
      return;
    }
    bool finite = take(step, i, gradient, *exchange_.memory(), out);
    if (owed && finite) finite = take(step, i, Floats(std::span<const float>(out)), *owed, out);
    if (!finite) std::ranges::fill(out, std::numeric_limits<float>::quiet_NaN());
  }

  // What memory wants sent for x, as it is; whether it is finite.
  bool take(const Step& step, std::size_t i, const Floats& x, Memory& memory,
            std::span<float> out) {
    const Slice& slice = step.plan.layout[i];
    const Operator& op = step.plan.op(i);
    const Keys keys =
        make_keys(seed_, step.info.step, static_cast<std::uint64_t>(rank())).at(slice.offset);
    section_.clear();
    if (!op.encode(memory.source(slice, x), section_, keys, step.scratch).finite) return false;
    memory.sent(slice, {op, section_.view(), keys, step.scratch, own_});
    std::memcpy(out.data(), section_.data(), out.size_bytes());
    return true;
  }

  Exchange& exchange_;
  std::uint64_t seed_;
  Buffer section_;
  Decoder own_;
  std::uint32_t inputs_ = 0;
};

// One of several, by the lane of the step.
class LaneUnit : public Unit {
 public:
  explicit LaneUnit(Lanes& lanes) : lanes_(lanes) {}

  void reset() override {
    auto& unit = units_[static_cast<std::size_t>(lanes_.lane())];
    if (!unit) unit = lanes_.make_unit(lanes_.lane());
    unit->slices = slices;
    unit->reset();
    unit_ = unit.get();
  }
  Move next(const Step& step, Transfer& transfer) override { return unit_->next(step, transfer); }
  std::span<float> values() override { return unit_->values(); }
  void open(const Step& step) override { unit_->open(step); }
  void mean(const Step& step, std::size_t place, std::size_t from,
            std::span<float> block) override {
    unit_->mean(step, place, from, block);
  }
  std::uint32_t inputs() const override { return unit_->inputs(); }

 private:
  Lanes& lanes_;
  std::array<std::unique_ptr<Unit>, kLanes> units_;
  Unit* unit_ = nullptr;
};

std::size_t index(Lane lane) { return static_cast<std::size_t>(lane); }

std::size_t entries_of(const Plan& plan) {
  std::size_t entries = 0;
  for (const Slice& slice : plan.layout) entries += slice.count;
  return entries;
}

Plan with_operator(const Plan& plan, const char* spec) {
  return {.layout = plan.layout,
          .operators = {parse_operator(spec)},
          .operator_of = std::vector<std::size_t>(plan.layout.size())};
}

// Of the slices that one of its operators has.
std::vector<std::size_t> counts_of(const Plan& plan, std::size_t op) {
  std::vector<std::size_t> counts;
  for (std::size_t i = 0; i < plan.layout.size(); ++i)
    if (plan.operator_of[i] == op) counts.push_back(plan.layout[i].count);
  return counts;
}

// One of those that find another operator with the same promise.
using Find = std::optional<Operator> (*)(const Operator& op, std::span<const std::size_t> counts);

// Each operator of a plan by another, where there is one. Nothing: there is none at all.
std::optional<Plan> replaced(const Plan& plan, Find find) {
  Plan other = plan;
  bool any = false;
  for (std::size_t op = 0; op < plan.operators.size(); ++op)
    if (const auto found = find(plan.operators[op], counts_of(plan, op))) {
      other.operators[op] = *found;
      any = true;
    }
  return any ? std::optional(other) : std::nullopt;
}

std::unique_ptr<Route> with_plan(const Plan& plan, Find find, const Setup& setup,
                                 Exchange& exchange) {
  Setup other = setup;
  other.plan = plan;
  if (setup.down)
    if (auto down = replaced(*setup.down, find)) other.down = std::move(down);
  return exchange.beside(other);
}

double most_bytes(const Plan& plan) {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < plan.layout.size(); ++i)
    bytes += plan.op(i).max_size(plan.layout[i].count);
  return static_cast<double>(bytes);
}

double usual_bytes(const Plan& plan) {
  double bytes = 0;
  for (std::size_t op = 0; op < plan.operators.size(); ++op)
    bytes += usual_of(plan.operators[op], counts_of(plan, op)).bytes;
  return bytes;
}

}  // namespace

bool has_guard(const Setup& setup) {
  return setup.guard.mode != GuardOptions::Mode::off && setup.transport.size() > 1;
}

// The lanes of 16 bits and of other operators. A warm-up sends more than what comes after it, and
// has none of these last.
Lanes::Others Lanes::make_others(const Setup& setup, Exchange& exchange) {
  Others others;
  const double n = setup.transport.size();
  if (exchange.takes_half() && !adds_up_means(setup.memory)) {
    Setup with_half = setup;
    with_half.plan = with_operator(setup.plan, "half:bf16");
    with_half.warmup.clear();
    with_half.down.reset();
    others[index(Lane::half)] = {
        make_two_way(with_half, even_shards(setup.plan.layout, setup.transport.size()), exchange),
        2 * (n - 1) / n * 2 * static_cast<double>(entries_of(setup.plan))};
  }
  if (!setup.warmup.empty()) return others;
  if (const auto light = replaced(setup.plan, lighter))
    others[index(Lane::light)] = {with_plan(*light, lighter, setup, exchange),
                                  exchange.copies() * most_bytes(*light)};
  if (const auto tight = replaced(setup.plan, tighter);
      tight && usual_bytes(*tight) <= kTight * usual_bytes(setup.plan))
    others[index(Lane::tight)] = {with_plan(*tight, tighter, setup, exchange),
                                  exchange.copies() * usual_bytes(*tight)};
  return others;
}

Lanes::Lanes(const Setup& setup, std::unique_ptr<Exchange> inner, Others others)
    : Around(std::move(inner)),
      transport_(setup.transport),
      seed_(setup.seed),
      others_(std::move(others)) {}

std::unique_ptr<Lanes> Lanes::make(const Setup& setup, std::unique_ptr<Exchange>& exchange) {
  if (!exchange->memory()) return nullptr;
  Others others;
  if (has_guard(setup)) others = make_others(setup, *exchange);
  return std::unique_ptr<Lanes>(new Lanes(setup, std::move(exchange), std::move(others)));
}

std::array<bool, kLanes> Lanes::there() const {
  std::array<bool, kLanes> there;
  for (std::size_t lane = 0; lane < kLanes; ++lane) there[lane] = others_[lane].route != nullptr;
  there[index(Lane::recipe)] = there[index(Lane::dense)] = true;
  return there;
}

std::array<double, kLanes> Lanes::bytes() const {
  std::array<double, kLanes> bytes;
  for (std::size_t lane = 0; lane < kLanes; ++lane) bytes[lane] = others_[lane].bytes;
  const double n = transport_.size();
  bytes[index(Lane::dense)] =
      2 * (n - 1) / n * 4 * static_cast<double>(entries_of(inner_->plan_at(0)));
  return bytes;
}

const Plan& Lanes::plan_at(std::uint64_t step) const {
  const Plan& own = inner_->plan_at(step);
  if (lane_ == Lane::recipe) return own;
  if (Route* const route = others_[index(lane_)].route.get()) return route->plan_at(step);
  const auto at = plain_.find(&own);
  return at != plain_.end() ? at->second
                            : plain_.emplace(&own, with_operator(own, "identity")).first->second;
}

std::unique_ptr<Unit> Lanes::make_unit() { return std::make_unique<LaneUnit>(*this); }

std::unique_ptr<Unit> Lanes::make_unit(Lane lane) {
  if (lane == Lane::recipe) return inner_->make_unit();
  if (Route* const route = others_[index(lane)].route.get()) return route->make_unit();
  return std::make_unique<PlainUnit>(*inner_, transport_, seed_);
}

}  // namespace laconic

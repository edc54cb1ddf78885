// summed: sections that are plain floats at positions all ranks share are added on their way by an
// all-reduce, and decoded once. No frame is needed: there is nothing to tell but values.
#include <algorithm>
#include <limits>

#include "laconic/base/errors.h"
#include "laconic/exchange/aggregator.h"
#include "laconic/exchange/conversation.h"
#include "laconic/kernels/reduce.h"

namespace laconic {
namespace {

void require_sums(const Plan& plan) {
  for (const Operator& op : plan.operators)
    if (!op.adds_up())
      throw UsageError(
          "exchange 'summed' needs an operator whose sections can be added, such as randomk:0.01; "
          "'" +
          op.spec() + "' is none");
}

class Summed : public Aggregator {
 public:
  explicit Summed(Setup setup)
      : setup_(std::move(setup)),
        memory_(make_memory(setup_.memory, setup_.model, setup_.plan)),
        scratch_(setup_.threads),
        sum_(count_of(setup_.model)) {
    require_sums(setup_.plan);
    for (const Phase& phase : setup_.warmup) {
      require_sums(phase.plan);
      require_fit(setup_.memory, phase.plan);
    }
  }

  StepStats average(std::span<float> gradient, const StepInfo& given) override {
    require_count(gradient, setup_.model);
    StepInfo info = given;
    info.ranks = static_cast<std::size_t>(setup_.transport.size());
    StepStats stats{.dense_bytes = gradient.size_bytes()};
    const Plan& plan = setup_.plan_at(info.step);
    const Keys keys =
        make_keys(setup_.seed, info.step, 0);  // operators here draw from `common` only
    Stopwatch watch;
    Transaction step(*memory_);

    write(plan, keys, gradient, info);
    stats.payload_bytes = stats.wire_bytes = stats.up_bytes = values_.size() * sizeof(float);
    stats.compress_seconds = watch.lap();

    const TrafficMeter meter(setup_.transport);
    Conversation(setup_.transport, Deadline::in(setup_.timeout_seconds, "all_reduce of values"))
        .all_reduce(values_);
    meter.into(stats);
    stats.exchange_seconds = watch.lap();

    stats.finite = add(plan, keys);
    std::ranges::copy(sum_, gradient.begin());
    if (stats.finite) {
      memory_->finish(gradient, info);
      step.commit();
    }
    stats.decompress_seconds = watch.lap();
    stats.residual_norm = memory_->residual_norm();
    return stats;
  }

  State save() const override { return memory_->save(); }
  void load(const State& state) override { memory_->load(state); }

 private:
  static constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

  // All slices' values, one after the other. Those of a slice that is not finite are NaN, and so is
  // every sum they go into: that tells all ranks.
  void write(const Plan& plan, const Keys& keys, std::span<const float> gradient,
             const StepInfo& info) {
    memory_->begin(gradient, info);
    values_.clear();
    for (std::size_t i = 0; i < plan.layout.size(); ++i) {
      const Slice& slice = plan.layout[i];
      const Keys here = keys.at(slice.offset);
      const auto x = memory_->compensate(slice, gradient.subspan(slice.offset, slice.count), info);
      const std::size_t at = values_.size();
      values_.resize(at + plan.op(i).max_size(slice.count) / sizeof(float), kNan);
      section_.clear();
      if (!plan.op(i).encode(x, section_, here, scratch_)) continue;
      std::memcpy(values_.data() + at, section_.data(), section_.size());
      memory_->absorb(slice, {plan.op(i), section_.view(), here, scratch_});
    }
  }

  // The mean, and whether it is finite.
  bool add(const Plan& plan, const Keys& keys) {
    bool finite = true;
    const float weight = 1.0F / static_cast<float>(setup_.transport.size());
    std::span<const float> rest = values_;
    std::ranges::fill(sum_, 0.0F);
    for (std::size_t i = 0; i < plan.layout.size(); ++i) {
      const Slice& slice = plan.layout[i];
      const auto y = std::span(sum_).subspan(slice.offset, slice.count);
      const auto values = rest.first(plan.op(i).max_size(slice.count) / sizeof(float));
      rest = rest.subspan(values.size());
      if (kernels::all_finite(values)) {
        plan.op(i).add({reinterpret_cast<const std::uint8_t*>(values.data()), values.size_bytes()},
                       weight, y, keys.at(slice.offset), scratch_);
        continue;
      }
      finite = false;
      std::ranges::fill(y, kNan);
    }
    return finite;
  }

  Setup setup_;
  std::unique_ptr<Memory> memory_;
  Scratch scratch_;
  std::vector<float> values_, sum_;
  Buffer section_;
};

const RegisterExchange summed{{
    .name = "summed",
    .summary =
        "All-reduce of values at positions that all ranks share; sends 2 (ranks - 1) / ranks "
        "of a section.",
    .paper = "common random sparsification, as in Vogels et al., PowerSGD (arXiv 1905.13727), "
             "random-k",
    .parameters = {},
    .follows_warmup = true,
    .make = [](Setup setup, const Args&) -> std::unique_ptr<Aggregator> {
      return std::make_unique<Summed>(std::move(setup));
    },
}};

}  // namespace
}  // namespace laconic

// summed: sections that are plain floats at positions all ranks share are added up on their way,
// and decoded once. No frame is needed: there is nothing to tell but values.
#include <algorithm>
#include <limits>

#include "laconic/base/errors.h"
#include "laconic/exchange/exchange.h"
#include "laconic/exchange/sums.h"
#include "laconic/kernels/reduce.h"

namespace laconic {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

void require_sums(const Plan& plan) {
  for (const Operator& op : plan.operators)
    if (!op.adds_up())
      throw UsageError(
          "exchange 'summed' needs an operator whose sections can be added, such as randomk:0.01; "
          "'" +
          op.spec() + "' is none");
}

// Values that a section of a slice has.
std::size_t values_of(const Plan& plan, std::size_t slice) {
  return plan.op(slice).max_size(plan.layout[slice].count) / sizeof(float);
}

class SummedUnit : public Unit {
 public:
  SummedUnit(const Setup& setup, Memory& memory)
      : setup_(setup), memory_(memory), ranks_(setup.transport.size()) {}

  void reset() override { begun_ = false; }

  Move next(const Step& step, Transfer& transfer) override {
    if (!std::exchange(begun_, true)) {
      write(step);
      sum_.begin(values_.span(), setup_.transport.rank(), ranks_);
    }
    return sum_.next(transfer) ? Move::messages : Move::none;
  }

  void open(const Step& step) override {
    const Timed timed(step.stats.decompress_seconds);
    std::span<const float> rest = values_.view();
    if (decoders_.size() < slices.size()) decoders_.resize(slices.size());
    finite_.assign(slices.size(), 1);
    for (std::size_t place = 0; place < slices.size(); ++place) {
      const std::size_t i = slices[place];
      const auto values = rest.first(values_of(step.plan, i));
      rest = rest.subspan(values.size());
      finite_[place] = kernels::all_finite(values);
      step.stats.finite &= finite_[place] != 0;
      if (finite_[place])
        step.plan.op(i).open(bytes_of(values), step.plan.layout[i].count, keys(step, i),
                             step.scratch, decoders_[place]);
    }
  }

  void mean(const Step&, std::size_t place, std::size_t from, std::span<float> block) override {
    if (!finite_[place]) {
      std::ranges::fill(block, kNan);
      return;
    }
    const Decoder* sum = &decoders_[place];
    sum_of({&sum, 1}, from, from + block.size(), 1.0F / static_cast<float>(ranks_), block.data());
  }

  std::uint32_t inputs() const override { return sum_.hash(); }

 private:
  static ByteView bytes_of(std::span<const float> values) {
    return {reinterpret_cast<const std::uint8_t*>(values.data()), values.size_bytes()};
  }

  // Operators here draw from `common` only.
  Keys keys(const Step& step, std::size_t slice) const {
    return make_keys(setup_.seed, step.info.step, 0).at(step.plan.layout[slice].offset);
  }

  // All slices' values, one after the other. Those of a slice that is not finite are NaN, and so is
  // every sum they go into: that tells all ranks.
  void write(const Step& step) {
    const Timed timed(step.stats.compress_seconds);
    values_.clear();
    for (const std::size_t i : slices) {
      const Slice& slice = step.plan.layout[i];
      const std::span<float> values(values_.grow(values_of(step.plan, i)), values_of(step.plan, i));
      step.sent[i] += values.size_bytes();
      const bool rests = step.gradient.rests(slice);
      std::ranges::fill(values, rests ? 0.0F : kNan);
      if (!rests) encode(step, i, values);
    }
    const std::size_t bytes = values_.size() * sizeof(float);
    step.stats.payload_bytes += bytes;
    step.stats.wire_bytes += bytes;
    step.stats.up_bytes += bytes;
  }

  void encode(const Step& step, std::size_t i, std::span<float> values) {
    const Slice& slice = step.plan.layout[i];
    const Operator& op = step.plan.op(i);
    section_.clear();
    const Source source = memory_.source(slice, step.gradient.floats(slice));
    if (!op.encode(source, section_, keys(step, i), step.scratch).finite) return;
    std::memcpy(values.data(), section_.data(), section_.size());
    memory_.sent(slice, {op, section_.view(), keys(step, i), step.scratch, own_});
  }

  const Setup& setup_;
  Memory& memory_;
  int ranks_;
  bool begun_ = false;
  Array<float> values_;
  Buffer section_;
  Sum sum_;
  Decoder own_;
  std::vector<Decoder> decoders_;
  std::vector<std::uint8_t> finite_;
};

class Summed : public WithMemory {
 public:
  explicit Summed(const Setup& setup) : WithMemory(setup, setup.plan), setup_(setup) {
    require_sums(setup_.plan);
    for (const Phase& phase : setup_.warmup) require_sums(phase.plan);
  }

  const Plan& plan_at(std::uint64_t step) const override { return setup_.plan_at(step); }
  std::unique_ptr<Unit> make_unit() override {
    return std::make_unique<SummedUnit>(setup_, *memory_);
  }
  bool takes_half() const override { return true; }

 private:
  Setup setup_;
};

class SummedForesight : public Foresight {
 public:
  explicit SummedForesight(Rehearsal& rehearsal) : rehearsal_(rehearsal) {
    require_sums(rehearsal.plan);
  }

  const Plan& plan() const override { return rehearsal_.plan; }
  ForeseenUnit unit(Slices slices) override {
    std::size_t values = 0;
    for (const std::size_t i : slices) values += values_of(plan(), i);
    const double entries = static_cast<double>(entries_of(plan(), slices));
    ForeseenUnit unit{.added = entries};
    foresee_sum(values, rehearsal_.ranks, entries, unit.legs);
    return unit;
  }

 private:
  Rehearsal& rehearsal_;
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
    .make = [](const Setup& setup, const Args&) -> std::unique_ptr<Exchange> {
      return std::make_unique<Summed>(setup);
    },
}};

const RegisterForesight foresight{{
    .name = "summed",
    .make = [](Rehearsal& rehearsal, const Args&) -> std::unique_ptr<Foresight> {
      return std::make_unique<SummedForesight>(rehearsal);
    },
}};

}  // namespace
}  // namespace laconic

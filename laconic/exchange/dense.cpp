// dense: the uncompressed baseline, an all-reduce of float32.
#include "laconic/exchange/exchange.h"
#include "laconic/exchange/sums.h"

namespace laconic {
namespace {

class DenseUnit : public Unit {
 public:
  DenseUnit(Transport& transport, bool native)
      : rank_(transport.rank()), ranks_(transport.size()), native_(native) {}

  void reset() override { begun_ = false; }

  Move next(const Step& step, Transfer& transfer) override {
    const bool first = !std::exchange(begun_, true);
    if (first) copy(step);
    // Without tags ranks must start them in one order, which steps side by side have not.
    if (native_ && step.whole) return first ? Move::reduce : Move::none;
    if (first) sum_.begin(values_.span(), rank_, ranks_);
    return sum_.next(transfer) ? Move::messages : Move::none;
  }

  std::span<float> values() override { return values_.span(); }
  void open(const Step&) override {}

  void mean(const Step& step, std::size_t place, std::size_t from,
            std::span<float> block) override {
    static_cast<void>(step);
    const float weight = 1.0F / static_cast<float>(ranks_);
    const float* sum = values_.data() + begin_[place] + from;
    for (std::size_t i = 0; i < block.size(); ++i) block[i] = weight * sum[i];
  }

  std::uint32_t inputs() const override { return native_ ? 0 : sum_.hash(); }

 private:
  // The slices one after the other: an array of its own, which may be the transport's for a while
  // after a step that failed.
  void copy(const Step& step) {
    const Timed timed(step.stats.compress_seconds);
    std::size_t count = 0;
    begin_.clear();
    for (const std::size_t i : slices) {
      begin_.push_back(count);
      count += step.plan.layout[i].count;
    }
    values_.reset(count);
    for (std::size_t place = 0; place < slices.size(); ++place) {
      const Slice& slice = step.plan.layout[slices[place]];
      float* to = values_.data() + begin_[place];
      const float* from = step.gradient.floats(slice).load(0, slice.count, to);
      if (from != to) std::copy_n(from, slice.count, to);
      step.sent[slices[place]] += slice.count * sizeof(float);
    }
    const std::size_t bytes = count * sizeof(float);
    step.stats.payload_bytes += bytes;
    step.stats.wire_bytes += bytes;
    step.stats.up_bytes += bytes;
  }

  int rank_, ranks_;
  bool native_, begun_ = false;
  Array<float> values_;
  std::vector<std::size_t> begin_;  // of each slice in values_
  Sum sum_;
};

class Dense : public Exchange {
 public:
  Dense(const Setup& setup, const Args& args)
      : setup_(setup), native_(args.text("order") == "any" && setup.transport.reduces()) {
    require_identity(setup_, "dense");
  }

  const Plan& plan_at(std::uint64_t) const override { return setup_.plan; }
  std::unique_ptr<Unit> make_unit() override {
    return std::make_unique<DenseUnit>(setup_.transport, native_);
  }
  bool framed() const override { return !native_; }
  void begin(const StepInfo&) override {}
  void turn(const StepInfo&) override {}
  void commit(const Tensors&) override {}
  double residual_norm() const override { return 0; }
  State save() const override { return {}; }
  void load(const State& state) override { expect_state(state, {}, {}); }

 private:
  Setup setup_;
  bool native_;  // by the transport's own all-reduce
};

class DenseForesight : public Foresight {
 public:
  explicit DenseForesight(Rehearsal& rehearsal) : rehearsal_(rehearsal) {}

  const Plan& plan() const override { return rehearsal_.plan; }
  ForeseenUnit unit(Slices slices) override {
    const std::size_t entries = entries_of(plan(), slices);
    ForeseenUnit unit{.added = static_cast<double>(entries)};
    foresee_sum(entries, rehearsal_.ranks, static_cast<double>(entries), unit.legs);
    return unit;
  }

 private:
  Rehearsal& rehearsal_;
};

const RegisterExchange dense{{
    .name = "dense",
    .summary = "All-reduce of float32, the uncompressed baseline; sends 2 (ranks - 1) / ranks "
               "gradients.",
    .paper = "Patarasuk and Yuan, Bandwidth Optimal All-reduce Algorithms",
    .parameters = {{.name = "order",
                    .fallback = "any",
                    .choices = {"any", "ordered"},
                    .help = "ordered: sums in rank order on every transport; any: by the "
                            "transport's own all-reduce where it has one"}},
    .own_form = true,
    .make = [](const Setup& setup, const Args& args) -> std::unique_ptr<Exchange> {
      return std::make_unique<Dense>(setup, args);
    },
}};

const RegisterForesight foresight{{
    .name = "dense",
    .make = [](Rehearsal& rehearsal, const Args&) -> std::unique_ptr<Foresight> {
      return std::make_unique<DenseForesight>(rehearsal);
    },
}};

}  // namespace
}  // namespace laconic

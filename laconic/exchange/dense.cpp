// dense: the uncompressed baseline, an all-reduce of float32.
#include "laconic/exchange/floats_unit.h"

namespace laconic {
namespace {

class DenseUnit : public FloatsUnit {
 public:
  DenseUnit(const Transport& transport, bool native) : FloatsUnit(transport, native) {}

  void open(const Step&) override {}
  std::uint32_t inputs() const override { return native() ? 0 : sum().hash(); }

 private:
  void write(const Step& step, std::size_t slice, std::span<float> out) override {
    const float* from =
        step.gradient.floats(step.plan.layout[slice]).load(0, out.size(), out.data());
    if (from != out.data()) std::copy_n(from, out.size(), out.data());
  }
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

// dense: the uncompressed baseline, a ring all-reduce of float32.
#include "laconic/exchange/aggregator.h"
#include "laconic/exchange/conversation.h"
#include "laconic/kernels/reduce.h"

namespace laconic {
namespace {

class Dense : public Aggregator {
 public:
  explicit Dense(Setup setup) : setup_(std::move(setup)), sum_(count_of(setup_.model)) {
    require_identity(setup_, "dense");
  }

  StepStats average(std::span<float> gradient, const StepInfo&) override {
    require_count(gradient, setup_.model);
    StepStats stats{.payload_bytes = gradient.size_bytes(),
                    .wire_bytes = gradient.size_bytes(),
                    .dense_bytes = gradient.size_bytes(),
                    .up_bytes = gradient.size_bytes()};
    Stopwatch watch;
    std::copy(gradient.begin(), gradient.end(),
              sum_.begin());  // the gradient stays as it was should the ring fail
    const TrafficMeter meter(setup_.transport);
    Conversation(setup_.transport, Deadline::in(setup_.timeout_seconds, "all_reduce of gradients"))
        .reduce(sum_);
    meter.into(stats);
    stats.exchange_seconds = watch.lap();
    const float weight = 1.0F / static_cast<float>(setup_.transport.size());
    for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] = weight * sum_[i];
    stats.finite = kernels::all_finite(gradient);
    stats.decompress_seconds = watch.lap();
    return stats;
  }

  State save() const override { return {}; }
  void load(const State& state) override { expect_state(state, {}, {}); }

 private:
  Setup setup_;
  std::vector<float> sum_;
};

const RegisterExchange dense{{
    .name = "dense",
    .summary = "Ring all-reduce of float32, the uncompressed baseline; sends 2 (ranks - 1) / ranks "
               "gradients.",
    .paper = "Patarasuk and Yuan, Bandwidth Optimal All-reduce Algorithms",
    .parameters = {},
    .own_form = true,
    .make = [](Setup setup, const Args&) -> std::unique_ptr<Aggregator> {
      return std::make_unique<Dense>(std::move(setup));
    },
}};

}  // namespace
}  // namespace laconic

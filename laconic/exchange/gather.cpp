// gather: every rank sends its frame to every other, and each adds them all up. This file is the
// whole walk:
//
//   gradients -> layout -> memory -> operators -> codecs -> frame -> transport
//                                                                        |
//   gradients <- memory <- mean <- operators (add) <- codecs <- frame <--+
#include <algorithm>

#include "laconic/exchange/aggregator.h"
#include "laconic/exchange/conversation.h"
#include "laconic/exchange/frames.h"

namespace laconic {
namespace {

class Gather : public Aggregator {
 public:
  explicit Gather(Setup setup)
      : setup_(std::move(setup)),
        memory_(make_memory(setup_.memory, setup_.model, setup_.plan)),
        largest_frame_(largest_frame(setup_.plan, all_slices(setup_.plan))),
        scratch_(setup_.threads),
        sum_(count_of(setup_.model)) {
    for (const Phase& phase : setup_.warmup) {
      require_fit(setup_.memory, phase.plan);
      largest_frame_ = std::max(largest_frame_, largest_frame(phase.plan, all_slices(phase.plan)));
    }
  }

  StepStats average(std::span<float> gradient, const StepInfo& given) override {
    require_count(gradient, setup_.model);
    StepInfo info = given;
    info.ranks = static_cast<std::size_t>(setup_.transport.size());
    StepStats stats{.dense_bytes = gradient.size_bytes()};
    Stopwatch watch;
    Transaction step(*memory_);
    const Plan& plan = setup_.plan_at(info.step);
    const Leg leg{plan, setup_.seed, info.step, gradient.size()};
    const SliceRange slices = all_slices(plan);

    // Each slice: what memory wants sent is encoded, and memory learns what will arrive.
    memory_->begin(gradient, info);
    stats.payload_bytes = write_frame(leg, setup_.transport.rank(), slices, gradient, *memory_,
                                      info, scratch_, mine_);
    stats.wire_bytes = stats.up_bytes = mine_.size();
    stats.compress_seconds = watch.lap();

    const TrafficMeter meter(setup_.transport);
    Conversation(setup_.transport, Deadline::in(setup_.timeout_seconds, "all_gather of frames"))
        .all_gather(mine_.view(), received_, largest_frame_);
    meter.into(stats);
    stats.exchange_seconds = watch.lap();

    // In rank order: floating-point sums depend on it, and every rank must get the same. The sum is
    // a buffer of its own, so a section that turns out to be bad leaves the gradient as it was.
    std::ranges::fill(sum_, 0.0F);
    for (int rank = 0; rank < setup_.transport.size(); ++rank) {
      const ByteView bytes = received_[static_cast<std::size_t>(rank)].view();
      const Frame frame = read_frame_of(leg, rank, slices, bytes);
      add_frame(frame, 1.0F / static_cast<float>(info.ranks), sum_, scratch_);
      stats.finite &= frame.finite();
    }
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
  Setup setup_;
  std::unique_ptr<Memory> memory_;
  std::uint64_t largest_frame_;
  Scratch scratch_;
  Buffer mine_;
  std::vector<Buffer> received_;
  std::vector<float> sum_;
};

const RegisterExchange gather{{
    .name = "gather",
    .summary = "Every rank's frame to every other; sends (ranks - 1) frames.",
    .paper = "all-gather of compressed gradients, as in Xu et al., GRACE",
    .parameters = {},
    .follows_warmup = true,
    .make = [](Setup setup, const Args&) -> std::unique_ptr<Aggregator> {
      return std::make_unique<Gather>(std::move(setup));
    },
}};

}  // namespace
}  // namespace laconic

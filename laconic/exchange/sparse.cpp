// sparse: a reduce-scatter around the ring whose partial sums are made sparse again at every rank,
// then an all-gather. What a rank drops of a sum that passes through stays in that rank's residual,
// whoever it came from, so the messages stay small and nothing is lost:
//
//   a = e + g + what arrives of the shard; send C(a) on; e = a - C(a)
//
// After n - 1 rounds each rank has the sum of one shard, and sends C of it to all. Invariant: n
// times all that was delivered, plus what all ranks owe, is the sum of all gradients. The paper
// goes round in log2(n) rounds of teams; the ring sends the same bytes for any number of ranks.
#include <algorithm>

#include "laconic/base/errors.h"
#include "laconic/exchange/aggregator.h"
#include "laconic/exchange/conversation.h"
#include "laconic/exchange/shards.h"

namespace laconic {
namespace {

// Sums pass the operator once per rank: what is scaled up at common positions grows every time.
void require_repeatable(const Plan& plan) {
  for (std::size_t i = 0; i < plan.layout.size(); ++i) {
    const Traits traits = plan.op(i).traits(plan.layout[i].count);
    if (traits.shared && traits.unbiased && *traits.omega > 0)
      throw UsageError("exchange 'sparse' compresses a sum again at every rank, and '" +
                       plan.op(i).spec() +
                       "' would scale it every time; allowed: the unscaled form, such as "
                       "randomk:0.01,unscaled");
  }
}

void require_feedback(const std::string& memory) {
  if (memory.substr(0, memory.find(':')) != "feedback")
    throw UsageError(
        "exchange 'sparse' leaves with each rank what it drops; allowed: memory "
        "feedback, not '" +
        memory + "'");
}

class Sparse : public Aggregator {
 public:
  explicit Sparse(Setup setup)
      : setup_(std::move(setup)),
        n_(setup_.transport.size()),
        me_(setup_.transport.rank()),
        bounds_(even_bounds(setup_.plan.layout, static_cast<std::size_t>(n_))),
        scratch_(setup_.threads),
        sum_(count_of(setup_.model)) {
    require_feedback(setup_.memory);
    setup_.plan = cut_at(setup_.plan, bounds_);
    memory_ = make_memory(setup_.memory, setup_.model, setup_.plan);
    require_repeatable(setup_.plan);
    largest_frame_ = largest_frame(setup_.plan, all_slices(setup_.plan));
    for (Phase& phase : setup_.warmup) {
      phase.plan = cut_at(phase.plan, bounds_);
      require_fit(setup_.memory, phase.plan);
      require_repeatable(phase.plan);
      largest_frame_ = std::max(largest_frame_, largest_frame(phase.plan, all_slices(phase.plan)));
    }
  }

  StepStats average(std::span<float> gradient, const StepInfo& given) override {
    require_count(gradient, setup_.model);
    StepInfo info = given;
    info.ranks = static_cast<std::size_t>(n_);
    StepStats stats{.dense_bytes = gradient.size_bytes()};
    const Leg leg{setup_.plan_at(info.step), setup_.seed, info.step, gradient.size()};
    const TrafficMeter meter(setup_.transport);
    Transaction step(*memory_);

    pass_around(leg, gradient, info, stats);
    Stopwatch watch;
    Conversation(setup_.transport, Deadline::in(setup_.timeout_seconds, "sums of shards"))
        .all_gather(mine_.view(), received_, largest_frame_);
    meter.into(stats);
    stats.exchange_seconds += watch.lap();
    add_all(leg, stats);
    std::ranges::copy(sum_, gradient.begin());
    if (stats.finite) step.commit();
    stats.decompress_seconds += watch.lap();
    stats.residual_norm = memory_->residual_norm();
    return stats;
  }

  State save() const override { return memory_->save(); }
  void load(const State& state) override { memory_->load(state); }

 private:
  SliceRange shard(const Leg& leg, int rank) const {
    return shard_of(leg.plan, bounds_, (rank + n_) % n_);
  }

  // Shard s starts at rank s + 1 and ends at rank s. In round t this rank has shard me - 1 - t: its
  // own gradient and, but for the first, what the rank before it sent of that shard.
  void pass_around(const Leg& leg, std::span<const float> gradient, const StepInfo& info,
                   StepStats& stats) {
    Conversation ring(setup_.transport,
                      Deadline::in(setup_.timeout_seconds, "partial sums of shards"));
    const int next = (me_ + 1) % n_, before = (me_ + n_ - 1) % n_;
    std::ranges::copy(gradient, sum_.begin());
    memory_->begin(gradient, info);
    for (int round = 0; round < n_; ++round) {
      Stopwatch watch;
      const SliceRange slices = shard(leg, me_ - 1 - round);
      if (round > 0)
        add_frame(read_frame_of(leg, before, slices, arrived_.view()), 1, sum_, scratch_);
      stats.decompress_seconds += watch.lap();
      stats.payload_bytes += write_frame(leg, me_, slices, sum_, *memory_, info, scratch_, mine_);
      stats.wire_bytes += mine_.size();
      stats.compress_seconds += watch.lap();
      if (round == n_ - 1) break;  // the sum of this rank's own shard, for all
      stats.up_bytes += mine_.size();
      const Send send{next, mine_.view()};
      const auto receive = Receive::sized(before, arrived_, largest_frame_);
      ring.exchange({&send, 1}, {&receive, 1});
      stats.exchange_seconds += watch.lap();
    }
  }

  void add_all(const Leg& leg, StepStats& stats) {
    std::ranges::fill(sum_, 0.0F);
    for (int owner = 0; owner < n_; ++owner) {
      const ByteView bytes = received_[static_cast<std::size_t>(owner)].view();
      const Frame frame = read_frame_of(leg, owner, shard(leg, owner), bytes);
      add_frame(frame, 1.0F / static_cast<float>(n_), sum_, scratch_);
      stats.finite &= frame.finite();
      stats.down_bytes += bytes.size();
    }
  }

  Setup setup_;
  int n_, me_;
  Bounds bounds_;
  std::unique_ptr<Memory> memory_;
  std::uint64_t largest_frame_ = 0;
  Scratch scratch_;
  std::vector<float> sum_;
  Buffer mine_, arrived_;
  std::vector<Buffer> received_;
};

const RegisterExchange sparse{{
    .name = "sparse",
    .summary = "Partial sums around a ring, made sparse again at every rank, what is dropped kept "
               "there; sends 2 (ranks - 1) / ranks frames.",
    .paper = "Zhao et al., SparDL (arXiv 2304.00737)",
    .parameters = {},
    .follows_warmup = true,
    .make = [](Setup setup, const Args&) -> std::unique_ptr<Aggregator> {
      return std::make_unique<Sparse>(std::move(setup));
    },
}};

}  // namespace
}  // namespace laconic

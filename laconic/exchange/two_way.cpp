// The two legs of a step. Sums travel back, not means: natural compression of a sum is a mean's
// times n only when n is a power of two, and the papers compress the sum (Horvath et al., Natural
// Compression, algorithm 1). Every rank, owners too, takes what the frames say, so all are equal.
//
// With feedback on both legs nothing is lost: n times all that was delivered, plus what ranks and
// owners still owe, is the sum of all ranks' gradients.
#include "laconic/exchange/two_way.h"

#include <algorithm>
#include <cmath>

#include "laconic/base/errors.h"
#include "laconic/exchange/conversation.h"

namespace laconic {
namespace {

// A memory that turns the mean into something else does it on every rank; owners have parts only.
void require_for_way_back(const std::string& memory) {
  const std::string name = memory.substr(0, memory.find(':'));
  if (name != "none" && name != "feedback")
    throw UsageError("memory '" + memory + "' is not for the way back; allowed: none, feedback");
}

// Every plan with its slices cut at the bounds.
Setup cut(Setup setup, const Bounds& bounds) {
  setup.plan = cut_at(setup.plan, bounds);
  if (setup.down) setup.down = cut_at(*setup.down, bounds);
  for (Phase& phase : setup.warmup) phase.plan = cut_at(phase.plan, bounds);
  return setup;
}

class TwoLegs : public Aggregator {
 public:
  explicit TwoLegs(TwoWay way)
      : setup_(cut(std::move(way.setup), way.bounds)),
        bounds_(std::move(way.bounds)),
        me_(setup_.transport.rank()),
        memory_(make_memory(setup_.memory, setup_.model, setup_.plan)),
        scratch_(setup_.threads),
        sum_(count_of(setup_.model)),
        mine_(static_cast<std::size_t>(setup_.transport.size())),
        received_(mine_.size()) {
    require_for_way_back(way.down_memory);
    const Plan& down = setup_.down ? *setup_.down : setup_.plan;
    owed_ = make_shard_memory(way.down_memory, setup_.model, down, bounds_, me_);
    largest_frame_ = std::max(largest_frame(setup_.plan, all_slices(setup_.plan)),
                              largest_frame(down, all_slices(down)));
    for (const Phase& phase : setup_.warmup) {
      require_fit(setup_.memory, phase.plan);
      if (!setup_.down) require_fit(way.down_memory, phase.plan);
      largest_frame_ = std::max(largest_frame_, largest_frame(phase.plan, all_slices(phase.plan)));
    }
  }

  StepStats average(std::span<float> gradient, const StepInfo& given) override {
    require_count(gradient, setup_.model);
    StepInfo info = given;
    info.ranks = mine_.size();
    StepStats stats{.dense_bytes = gradient.size_bytes()};
    const Leg up{setup_.plan_at(info.step), setup_.seed, info.step, gradient.size()};
    const Leg down{down_plan_at(info.step), seed_of_way_back(setup_.seed), info.step,
                   gradient.size()};
    Stopwatch watch;
    const TrafficMeter meter(setup_.transport);
    Transaction step(*memory_), step_of_owner(*owed_);

    write_up(up, gradient, info, stats);
    stats.compress_seconds = watch.lap();
    send_to_owners();
    stats.exchange_seconds = watch.lap();
    if (owns(me_)) {
      add_up(up);
      stats.decompress_seconds = watch.lap();
      owed_->begin(sum_, info);
      write_frame(down, me_, shard_of(down.plan, bounds_, me_), sum_, *owed_, info, scratch_,
                  back_);
      stats.compress_seconds += watch.lap();
    }
    send_to_all();
    meter.into(stats);
    stats.exchange_seconds += watch.lap();
    add_down(down, stats);
    std::ranges::copy(sum_, gradient.begin());
    if (stats.finite) {
      memory_->finish(gradient, info);
      step.commit();
      step_of_owner.commit();
    }
    stats.decompress_seconds += watch.lap();
    stats.residual_norm = std::hypot(memory_->residual_norm(), owed_->residual_norm());
    return stats;
  }

  State save() const override {
    State state = memory_->save();
    state.merge(owed_->save());
    return state;
  }

  void load(const State& state) override {
    State up, down;
    for (const auto& entry : state) (entry.first.starts_with(kOfShard) ? down : up).insert(entry);
    const State before = owed_->save();
    owed_->load(down);
    try {
      memory_->load(up);
    } catch (...) {
      owed_->load(before);
      throw;
    }
  }

 private:
  const Plan& down_plan_at(std::uint64_t step) const {
    return setup_.down ? *setup_.down : setup_.plan_at(step);
  }

  bool owns(int rank) const {
    const auto r = static_cast<std::size_t>(rank);
    return bounds_[r] < bounds_[r + 1];
  }

  // Calls use(rank) for all other ranks, the next one first, so that no rank is everybody's first.
  template <class Use>
  void for_others(Use use) const {
    const int n = setup_.transport.size();
    for (int i = 1; i < n; ++i) use((me_ + i) % n);
  }

  Deadline deadline(std::string_view operation) const {
    return Deadline::in(setup_.timeout_seconds, operation);
  }

  Buffer& of(std::vector<Buffer>& buffers, int rank) {
    return buffers[static_cast<std::size_t>(rank)];
  }

  // One frame for each owner.
  void write_up(const Leg& leg, std::span<const float> gradient, const StepInfo& info,
                StepStats& stats) {
    memory_->begin(gradient, info);
    for (int owner = 0; owner < setup_.transport.size(); ++owner) {
      if (!owns(owner)) continue;
      stats.payload_bytes += write_frame(leg, me_, shard_of(leg.plan, bounds_, owner), gradient,
                                         *memory_, info, scratch_, of(mine_, owner));
      stats.wire_bytes += of(mine_, owner).size();
    }
    stats.up_bytes = stats.wire_bytes;
  }

  void send_to_owners() {
    std::vector<Send> sends;
    std::vector<Receive> receives;
    for_others([&](int rank) {
      if (owns(rank)) sends.push_back({rank, of(mine_, rank).view()});
      if (owns(me_)) receives.push_back(Receive::sized(rank, of(received_, rank), largest_frame_));
    });
    Conversation(setup_.transport, deadline("frames to the owners of shards"))
        .exchange(sends, receives);
  }

  // In rank order: floating-point sums depend on it.
  void add_up(const Leg& leg) {
    const SliceRange shard = shard_of(leg.plan, bounds_, me_);
    for (std::size_t i = shard.first; i < shard.last; ++i)
      std::ranges::fill(
          std::span(sum_).subspan(leg.plan.layout[i].offset, leg.plan.layout[i].count), 0.0F);
    for (int rank = 0; rank < setup_.transport.size(); ++rank) {
      const Buffer& bytes = rank == me_ ? of(mine_, rank) : of(received_, rank);
      add_frame(read_frame_of(leg, rank, shard, bytes.view()), 1, sum_, scratch_);
    }
  }

  void send_to_all() {
    std::vector<Send> sends;
    std::vector<Receive> receives;
    for_others([&](int rank) {
      if (owns(me_)) sends.push_back({rank, back_.view()});
      if (owns(rank)) receives.push_back(Receive::sized(rank, of(received_, rank), largest_frame_));
    });
    Conversation(setup_.transport, deadline("sums of shards")).exchange(sends, receives);
  }

  void add_down(const Leg& leg, StepStats& stats) {
    std::ranges::fill(sum_, 0.0F);
    const float weight = 1.0F / static_cast<float>(mine_.size());
    for (int owner = 0; owner < setup_.transport.size(); ++owner) {
      if (!owns(owner)) continue;
      const ByteView bytes = (owner == me_ ? back_ : of(received_, owner)).view();
      const Frame frame = read_frame_of(leg, owner, shard_of(leg.plan, bounds_, owner), bytes);
      add_frame(frame, weight, sum_, scratch_);
      stats.finite &= frame.finite();
      stats.down_bytes += bytes.size();
    }
  }

  Setup setup_;
  Bounds bounds_;
  int me_;
  std::unique_ptr<Memory> memory_, owed_;  // this rank's own, and its shard's
  std::uint64_t largest_frame_ = 0;
  Scratch scratch_;
  std::vector<float> sum_;
  std::vector<Buffer> mine_, received_;  // by owner; by sender
  Buffer back_;                          // the sum of this rank's shard
};

}  // namespace

std::unique_ptr<Aggregator> make_two_way(TwoWay way) {
  return std::make_unique<TwoLegs>(std::move(way));
}

}  // namespace laconic

// The two legs of a step. Sums travel back, not means: natural compression of a sum is a mean's
// times n only when n is a power of two, and the papers compress the sum (Horvath et al., Natural
// Compression, algorithm 1). Every rank, owners too, takes what the frames say, so all are equal.
//
// With feedback on both legs nothing is lost: n times all that was delivered, plus what ranks and
// owners still owe, is the sum of all ranks' gradients.
#include "laconic/exchange/two_way.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "laconic/base/errors.h"

namespace laconic {
namespace {

// A memory that turns the mean into something else does it on every rank; owners have parts only.
void require_for_way_back(const std::string& memory) {
  const std::string name = memory.substr(0, memory.find(':'));
  if (name != "none" && name != "feedback")
    throw UsageError("memory '" + memory + "' is not for the way back; allowed: none, feedback");
}

// What the way back drops, even for a while, parts the mean of all h from what ranks believe it is,
// and where rates differ from step to step for good.
void require_whole(const std::string& memory, const Plan& down) {
  if (!adds_up_means(memory)) return;
  for (const Operator& op : down.operators)
    if (op.spec() != "identity")
      throw UsageError("memory '" + memory + "' adds up what comes back, of which '" + op.spec() +
                       "' drops some; allowed: a down operator of identity, or exchange gather, "
                       "summed or auto");
}

// The plans of both directions, with the same slices: cut at the ends of shards and of each other's
// slices, where their rules differ.
struct Ways {
  Ways(const Plan& u, const Plan& d, const Shards& shards)
      : up(cut_at(cut_at(u, shards.bounds), ends(d))),
        down(cut_at(cut_at(d, shards.bounds), ends(u))) {}

  static std::vector<std::size_t> ends(const Plan& plan) {
    std::vector<std::size_t> ends;
    for (const Slice& slice : plan.layout) ends.push_back(slice.offset + slice.count);
    return ends;
  }

  Plan up, down;
};

struct WaysUntil {
  std::uint64_t until;
  Ways ways;
};

class TwoWay : public Exchange {
 public:
  TwoWay(const Setup& setup, Shards shards, const std::string& down_memory)
      : setup_(setup),
        shards_(std::move(shards)),
        ways_(setup.plan, setup.down ? *setup.down : setup.plan, shards_) {
    require_for_way_back(down_memory);
    require_whole(setup.memory, ways_.down);
    for (const Phase& phase : setup_.warmup)
      warmup_.push_back(
          {phase.until, Ways(phase.plan, setup_.down ? *setup_.down : phase.plan, shards_)});
    own_memory_ = make_memory(setup_.memory, setup_.model, ways_.up);
    own_owed_ =
        make_shard_memory(down_memory, setup_.model, ways_.down, shards_, setup_.transport.rank());
    memory_ = own_memory_.get();
    owed_ = own_owed_.get();
    for (const WaysUntil& phase : warmup_) {
      require_fit(setup_.memory, phase.ways.up);
      require_fit(down_memory, phase.ways.down);
    }
  }

  TwoWay(const Setup& setup, Shards shards, Exchange& lender)
      : setup_(setup),
        shards_(std::move(shards)),
        ways_(setup.plan, setup.down ? *setup.down : setup.plan, shards_),
        memory_(lender.memory()),
        owed_(lender.owed()) {
    if (owed_) return;
    own_owed_ = make_memory("none", setup_.model, ways_.down);
    owed_ = own_owed_.get();
  }

  const Plan& plan_at(std::uint64_t step) const override { return at(step).up; }
  const Plan& down_at(std::uint64_t step) const { return at(step).down; }
  std::unique_ptr<Unit> make_unit() override;

  const Setup& setup() const { return setup_; }
  const Shards& shards() const { return shards_; }
  Memory* memory() override { return memory_; }
  Memory* owed(const Slice* slice = nullptr) override {
    const bool owns = !slice || shards_.owner_at(slice->offset) == setup_.transport.rank();
    return owns ? owed_ : nullptr;
  }
  // Through one rank it would be no gain.
  bool takes_half() const override {
    return std::ranges::any_of(shards_.owners, [](int owner) { return owner != 0; });
  }

  std::unique_ptr<Route> beside(const Setup& setup) override {
    return make_two_way(setup, shards_, *this);
  }
  double copies() const override {
    const double n = setup_.transport.size();
    return takes_half() ? 2 * (n - 1) / n : n - 1;
  }

  void begin(const StepInfo& info) override {
    memory_->begin(info);
    owed_->begin(info);
  }
  void turn(const StepInfo& info) override {
    memory_->turn(info);
    owed_->turn(info);
  }
  bool wants_norm() const override { return memory_->wants_norm(); }
  void norm(double norm) override { memory_->norm(norm); }
  void finish(const Slice& slice, std::size_t from, std::span<float> block) override {
    memory_->mean(slice, from, block);
  }
  bool parallel() const override { return !memory_->reshapes(); }
  void commit(const Tensors& tensors) override {
    memory_->commit(tensors);
    owed_->commit(tensors);
  }

  double residual_norm() const override {
    return std::hypot(memory_->residual_norm(), owed_->residual_norm());
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
  const Ways& at(std::uint64_t step) const {
    for (const WaysUntil& phase : warmup_)
      if (step < phase.until) return phase.ways;
    return ways_;
  }

  Setup setup_;
  Shards shards_;
  Ways ways_;
  std::vector<WaysUntil> warmup_;
  std::unique_ptr<Memory> own_memory_, own_owed_;  // unless they are another's
  Memory *memory_, *owed_;                         // this rank's own, and its shard's
};

class TwoWayUnit : public Unit {
 public:
  explicit TwoWayUnit(TwoWay& exchange)
      : exchange_(exchange),
        me_(exchange.setup().transport.rank()),
        ranks_(exchange.setup().transport.size()),
        mine_(static_cast<std::size_t>(ranks_)),
        received_(mine_.size()),
        frames_(mine_.size()) {}

  void reset() override { leg_ = 0; }

  Move next(const Step& step, Transfer& transfer) override {
    transfer.clear();
    switch (leg_++) {
      case 0:
        owners_.sort(step.plan.layout, exchange_.shards(), slices, ranks_);
        write_up(step);
        send_to_owners(step, transfer);
        return Move::messages;
      case 1:
        if (owners_.owns(me_)) {
          add_up(step);
          write_down(step);
        }
        send_to_all(step, transfer);
        return Move::messages;
    }
    return Move::none;
  }

  void open(const Step& step) override {
    sums_.open(step, down(step), owners_, me_, ranks_,
               [&](int owner) { return (owner == me_ ? back_ : of(received_, owner)).view(); });
  }

  void mean(const Step&, std::size_t place, std::size_t from, std::span<float> block) override {
    sums_.mean(owners_, place, from, block);
  }

  std::uint32_t inputs() const override { return sums_.inputs(); }

 private:
  template <class T>
  static T& of(std::vector<T>& all, int rank) {
    return all[static_cast<std::size_t>(rank)];
  }

  Leg leg_of(const Step& step, const Plan& plan, std::uint64_t seed, bool strata) const {
    return {plan, seed, step.info.step, step.gradient.places().entries(), mine_.size(), strata};
  }
  Leg up(const Step& step) const {
    return leg_of(step, step.plan, exchange_.setup().seed, exchange_.setup().strata);
  }
  // Of each sum there is one sender: no strata.
  Leg down(const Step& step) const {
    return leg_of(step, exchange_.down_at(step.info.step), seed_of_way_back(exchange_.setup().seed),
                  false);
  }

  // Calls use(rank) for all other ranks, the next one first, so that no rank is everybody's first.
  template <class Use>
  void for_others(Use use) const {
    for (int i = 1; i < ranks_; ++i) use((me_ + i) % ranks_);
  }

  // One frame for each owner.
  void write_up(const Step& step) {
    const Timed timed(step.stats.compress_seconds);
    const Leg leg = up(step);
    for (int owner = 0; owner < ranks_; ++owner) {
      if (!owners_.owns(owner)) continue;
      of(mine_, owner).reserve(usual_frame(step.plan, owners_.of(owner)));
      out_.begin(leg, me_, of(mine_, owner));
      add_slices(out_, step, owners_.of(owner), *exchange_.memory());
      step.stats.payload_bytes += out_.finish();
      step.stats.wire_bytes += of(mine_, owner).size();
      step.stats.up_bytes += of(mine_, owner).size();
    }
  }

  void send_to_owners(const Step& step, Transfer& transfer) {
    for_others([&](int rank) {
      if (owners_.owns(rank)) transfer.sends.push_back({rank, of(mine_, rank).view()});
      if (owners_.owns(me_)) receive(rank, step.plan, owners_.of(me_), transfer);
    });
  }

  void receive(int rank, const Plan& plan, Slices what, Transfer& transfer) {
    Buffer& into = of(received_, rank);
    into.reserve(usual_frame(plan, what));  // once: frames differ in length from step to step
    transfer.receives.push_back(Receive::sized(rank, into, largest_frame(plan, what)));
  }

  // In rank order: floating-point sums depend on it. A sum stands where this rank's own gradient
  // stood, of which nobody needs anything any more, until the mean is written there.
  void add_up(const Step& step) {
    const Timed timed(step.stats.decompress_seconds);
    const Leg leg = up(step);
    for (int rank = 0; rank < ranks_; ++rank) {
      const Buffer& bytes = rank == me_ ? of(mine_, rank) : of(received_, rank);
      of(frames_, rank).open(leg, rank, owners_.of(me_), bytes.view(), step.scratch, rank == me_);
    }
    together_.hold(frames_, owners_.of(me_).size());
    make_room(step);
    for (std::size_t place = 0; place < sums_at_.size(); ++place) {
      const std::span<float> y = sums_at_[place];
      for (std::size_t from = 0; from < y.size(); from += kBlock)
        together_.sum(place, from, 1, y.subspan(from, std::min(kBlock, y.size() - from)));
    }
  }

  // For sums of gradients that are not float32, or lie in several places, beside them.
  void make_room(const Step& step) {
    sums_at_.clear();
    std::size_t beside = 0;
    for (const std::size_t i : owners_.of(me_)) {
      const Slice& slice = step.plan.layout[i];
      float* const there = step.gradient.floats(slice).array();
      sums_at_.emplace_back(there, slice.count);
      if (!there) beside += slice.count;
    }
    float* room = sum_.reset(beside).data();
    for (std::span<float>& sum : sums_at_)
      if (!sum.data()) sum = {std::exchange(room, room + sum.size()), sum.size()};
  }

  void write_down(const Step& step) {
    const Timed timed(step.stats.compress_seconds);
    const Leg leg = down(step);
    back_.reserve(usual_frame(leg.plan, owners_.of(me_)));
    back_out_.begin(leg, me_, back_);
    for (std::size_t place = 0; place < owners_.of(me_).size(); ++place) {
      const std::size_t i = owners_.of(me_)[place];
      if (std::ranges::all_of(frames_, [&](const FrameIn& frame) { return frame.rests(place); }))
        back_out_.rest(i, *exchange_.owed());
      else
        back_out_.add(i, Floats(sums_at_[place]), *exchange_.owed(), step.scratch);
    }
    back_out_.finish();
  }

  void send_to_all(const Step& step, Transfer& transfer) {
    const Plan& plan = exchange_.down_at(step.info.step);
    for_others([&](int rank) {
      if (owners_.owns(me_)) transfer.sends.push_back({rank, back_.view()});
      if (owners_.owns(rank)) receive(rank, plan, owners_.of(rank), transfer);
    });
  }

  TwoWay& exchange_;
  int me_, ranks_, leg_ = 0;
  ByOwner owners_;
  FrameOut out_, back_out_;
  std::vector<Buffer> mine_, received_;  // by owner; by sender
  Buffer back_;                          // the sum of this rank's shard
  std::vector<FrameIn> frames_;          // of all ranks, for this rank's shard
  FramesTogether together_;
  Array<float> sum_;
  std::vector<std::span<float>> sums_at_;  // of this rank's shard, by place
  SumsOfOwners sums_;
};

std::unique_ptr<Unit> TwoWay::make_unit() { return std::make_unique<TwoWayUnit>(*this); }

class TwoWayForesight : public Foresight {
 public:
  TwoWayForesight(Rehearsal& rehearsal, Shards shards)
      : rehearsal_(rehearsal),
        shards_(std::move(shards)),
        ways_(rehearsal.plan, rehearsal.down ? *rehearsal.down : rehearsal.plan, shards_) {}

  const Plan& plan() const override { return ways_.up; }

  ForeseenUnit unit(Slices slices) override {
    const int ranks = rehearsal_.ranks;
    const double entries = static_cast<double>(entries_of(plan(), slices));
    owners_.sort(plan().layout, shards_, slices, ranks);
    std::vector<std::uint64_t> there, back;  // by owner, with heads; 0: it owns nothing
    double most_entries = 0;
    for (int owner = 0; owner < ranks; ++owner) {
      const Slices shard = owners_.of(owner);
      const bool owns = owners_.owns(owner);
      there.push_back(owns ? rehearsal_.frame(ways_.up, shard) + kMessageHead : 0);
      back.push_back(owns ? rehearsal_.way_back(ways_.up, ways_.down, shard) + kMessageHead : 0);
      most_entries = std::max(most_entries, static_cast<double>(entries_of(plan(), shard)));
    }
    const auto others = there.size() - 1;
    const std::uint64_t all_there = std::accumulate(there.begin(), there.end(), std::uint64_t{0});
    const auto none = static_cast<std::size_t>(std::ranges::count(there, std::uint64_t{0}));
    ForeseenLeg up{.sent = all_there - there[0],
                   .messages = there.size() - none - owners_.owns(0),
                   .encoded = entries};
    ForeseenLeg down{.sent = others * back[0],
                     .messages = owners_.owns(0) ? others : 0,
                     .encoded = most_entries,
                     .added = ranks * most_entries};
    tell(there, up.out, up.most_out, up.in, up.most_in);
    tell(back, down.in, down.most_in, down.out, down.most_out);
    return {.legs = {up, down}, .added = entries};
  }

 private:
  // On one direction of its link a rank has a frame of every other owner's, on the other its own
  // for every other rank.
  void tell(std::span<const std::uint64_t> frames, double& theirs, double& most_theirs, double& own,
            double& most_own) const {
    const auto [least, most] = std::ranges::minmax(frames);
    const std::uint64_t all = std::accumulate(frames.begin(), frames.end(), std::uint64_t{0});
    const auto sum = static_cast<double>(all), n = static_cast<double>(frames.size());
    const bool one_owner = shards_.owners.size() <= 1;
    theirs = one_owner ? sum : (n - 1) * sum / n;
    own = one_owner ? (n - 1) * sum : (n - 1) * sum / n;
    most_theirs = static_cast<double>(all - least);
    most_own = (n - 1) * static_cast<double>(most);
  }

  Rehearsal& rehearsal_;
  Shards shards_;
  Ways ways_;
  ByOwner owners_;
};

}  // namespace

bool adds_up_means(const std::string& memory) {
  const auto info =
      std::ranges::find(memories(), memory.substr(0, memory.find(':')), &MemoryInfo::name);
  return info != memories().end() && info->wants_unbiased;
}

std::unique_ptr<Foresight> foresee_two_way(Rehearsal& rehearsal, Shards shards) {
  return std::make_unique<TwoWayForesight>(rehearsal, std::move(shards));
}

std::unique_ptr<Exchange> make_two_way(const Setup& setup, Shards shards, std::string down_memory) {
  return std::make_unique<TwoWay>(setup, std::move(shards), down_memory);
}

std::unique_ptr<Exchange> make_two_way(const Setup& setup, Shards shards, Exchange& lender) {
  return std::make_unique<TwoWay>(setup, std::move(shards), lender);
}

}  // namespace laconic

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
#include "laconic/exchange/foresight.h"
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

// The plan cut at the ends of shards.
Setup cut(Setup setup, const Shards& shards) {
  setup.plan = cut_at(setup.plan, shards.bounds);
  for (Phase& phase : setup.warmup) phase.plan = cut_at(phase.plan, shards.bounds);
  return setup;
}

class Sparse : public WithMemory {
 public:
  Sparse(const Setup& whole, const Shards& shards) : Sparse(cut(whole, shards), shards, 0) {}

  const Plan& plan_at(std::uint64_t step) const override { return setup_.plan_at(step); }
  std::unique_ptr<Unit> make_unit() override;
  bool lets_rest() const override { return false; }  // sums of others pass through its residual

 private:
  Sparse(Setup setup, const Shards& shards, int)
      : WithMemory(setup, setup.plan), setup_(std::move(setup)), shards_(shards) {
    require_repeatable(setup_.plan);
    for (const Phase& phase : setup_.warmup) require_repeatable(phase.plan);
  }

  Setup setup_;
  Shards shards_;
};

class SparseUnit : public Unit {
 public:
  SparseUnit(const Setup& setup, const Shards& shards, Memory& memory)
      : setup_(setup),
        shards_(shards),
        memory_(memory),
        me_(setup.transport.rank()),
        ranks_(setup.transport.size()),
        received_(static_cast<std::size_t>(ranks_)) {}

  void reset() override { round_ = 0; }

  // Shard s starts at rank s + 1 and ends at rank s. In round t this rank has shard me - 1 - t: its
  // own gradient and, but for the first, what the rank before it sent of that shard.
  Move next(const Step& step, Transfer& transfer) override {
    if (round_ == ranks_) return Move::none;
    if (round_ == 0) owners_.sort(step.plan.layout, shards_, slices, ranks_);
    write(step, shard(round_), round_ > 0);
    transfer.clear();
    if (++round_ == ranks_)
      send_to_all(step, transfer);
    else
      pass_on(step, transfer);
    return Move::messages;
  }

  void open(const Step& step) override {
    sums_.open(step, leg_of(step), owners_, me_, ranks_,
               [&](int owner) { return (owner == me_ ? mine_ : of(received_, owner)).view(); });
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

  int shard(int round) const { return ((me_ - 1 - round) % ranks_ + ranks_) % ranks_; }
  int before() const { return (me_ + ranks_ - 1) % ranks_; }

  Leg leg_of(const Step& step) const {
    return {step.plan, setup_.seed, step.info.step, step.gradient.places().entries(),
            received_.size()};
  }

  // This rank's part of a shard and what has arrived of it, compressed again.
  void write(const Step& step, int owner, bool with_arrived) {
    const Slices shard_slices = owners_.of(owner);
    if (shard_slices.empty()) return;
    const Leg leg = leg_of(step);
    if (with_arrived) {
      const Timed timed(step.stats.decompress_seconds);
      arrived_frame_.open(leg, before(), shard_slices, arrived_.view(), step.scratch);
    }
    const Timed timed(step.stats.compress_seconds);
    mine_.reserve(usual_frame(step.plan, shard_slices));
    out_.begin(leg, me_, mine_);
    for (std::size_t place = 0; place < shard_slices.size(); ++place) {
      const std::size_t i = shard_slices[place];
      const Slice& slice = step.plan.layout[i];
      const Floats gradient = step.gradient.floats(slice);
      if (step.gradient.rests(slice) && (!with_arrived || arrived_frame_.rests(place)))
        out_.rest(i, memory_);
      else
        step.sent[i] +=
            out_.add(i, with_arrived ? sum_of(gradient, place) : gradient, memory_, step.scratch);
    }
    step.stats.payload_bytes += out_.finish();
    step.stats.wire_bytes += mine_.size();
    if (round_ + 1 < ranks_) step.stats.up_bytes += mine_.size();
  }

  Floats sum_of(const Floats& gradient, std::size_t place) {
    const auto sum = sum_.reset(gradient.size());
    for (std::size_t from = 0; from < sum.size(); from += kBlock) {
      const std::size_t count = std::min(kBlock, sum.size() - from);
      float* const y = sum.data() + from;
      const float* g = gradient.load(from, count, y);
      if (g != y) std::copy_n(g, count, y);
      arrived_frame_.slice(place).add(from, from + count, 1, y);
    }
    return Floats(std::span<const float>(sum));
  }

  static void receive(int from, const Plan& plan, Slices what, Buffer& into, Transfer& transfer) {
    into.reserve(usual_frame(plan, what));  // once: frames differ in length from step to step
    transfer.receives.push_back(Receive::sized(from, into, largest_frame(plan, what)));
  }

  void pass_on(const Step& step, Transfer& transfer) {
    if (owners_.owns(shard(round_ - 1)))
      transfer.sends.push_back({(me_ + 1) % ranks_, mine_.view()});
    if (owners_.owns(shard(round_)))
      receive(before(), step.plan, owners_.of(shard(round_)), arrived_, transfer);
  }

  void send_to_all(const Step& step, Transfer& transfer) {
    for (int i = 1; i < ranks_; ++i) {
      const int rank = (me_ + i) % ranks_;
      if (owners_.owns(me_)) transfer.sends.push_back({rank, mine_.view()});
      if (owners_.owns(rank))
        receive(rank, step.plan, owners_.of(rank), of(received_, rank), transfer);
    }
  }

  const Setup& setup_;
  const Shards& shards_;
  Memory& memory_;
  int me_, ranks_, round_ = 0;
  ByOwner owners_;
  FrameOut out_;
  FrameIn arrived_frame_;
  Buffer mine_, arrived_;
  std::vector<Buffer> received_;
  SumsOfOwners sums_;
  Array<float> sum_;
};

std::unique_ptr<Unit> Sparse::make_unit() {
  return std::make_unique<SparseUnit>(setup_, shards_, *memory_);
}

class SparseForesight : public Foresight {
 public:
  SparseForesight(Rehearsal& rehearsal, Shards shards)
      : rehearsal_(rehearsal),
        shards_(std::move(shards)),
        plan_(cut_at(rehearsal.plan, shards_.bounds)) {
    require_repeatable(plan_);
  }

  const Plan& plan() const override { return plan_; }

  ForeseenUnit unit(Slices slices) override {
    const int ranks = rehearsal_.ranks;
    const auto others = static_cast<std::uint64_t>(ranks) - 1;
    owners_.sort(plan_.layout, shards_, slices, ranks);
    messages_.assign(static_cast<std::size_t>(ranks), 0);
    std::uint64_t all = 0, most = 0;
    for (int owner = 0; owner < ranks; ++owner) {
      if (!owners_.owns(owner)) continue;
      auto& bytes = messages_[static_cast<std::size_t>(owner)];
      bytes = rehearsal_.frame(plan_, owners_.of(owner)) + kMessageHead;
      all += bytes;
      most = std::max(most, bytes);
    }
    const double entries = static_cast<double>(entries_of(plan_, slices));
    const double share = entries / ranks, mean = static_cast<double>(all) / ranks;
    ForeseenUnit unit{.added = entries};
    for (std::size_t round = 0; round < others; ++round) {
      const std::uint64_t sent = messages_[others - round];  // shard -1 - round of rank 0
      unit.legs.push_back({.sent = sent,
                           .messages = sent > 0,
                           .out = mean,
                           .in = mean,
                           .most_out = static_cast<double>(most),
                           .most_in = static_cast<double>(most),
                           .encoded = share,
                           .added = round > 0 ? share : 0});
    }
    unit.legs.push_back({.sent = others * messages_[0],
                         .messages = messages_[0] > 0 ? others : 0,
                         .out = static_cast<double>(others) * mean,
                         .in = static_cast<double>(others) * mean,
                         .most_out = static_cast<double>(others * most),
                         .most_in = static_cast<double>(all),
                         .encoded = share,
                         .added = share});
    return unit;
  }

 private:
  Rehearsal& rehearsal_;
  Shards shards_;
  Plan plan_;
  ByOwner owners_;
  std::vector<std::uint64_t> messages_;  // by shard
};

const RegisterExchange sparse{{
    .name = "sparse",
    .summary = "Partial sums around a ring, made sparse again at every rank, what is dropped kept "
               "there; sends 2 (ranks - 1) / ranks frames.",
    .paper = "the residuals of Zhao et al., SparDL (arXiv 2304.00737), on a ring",
    .parameters = {},
    .follows_warmup = true,
    .make = [](const Setup& setup, const Args&) -> std::unique_ptr<Exchange> {
      require_feedback(setup.memory);
      return std::make_unique<Sparse>(setup,
                                      even_shards(setup.plan.layout, setup.transport.size()));
    },
}};

const RegisterForesight foresight{{
    .name = "sparse",
    .make = [](Rehearsal& rehearsal, const Args&) -> std::unique_ptr<Foresight> {
      return std::make_unique<SparseForesight>(rehearsal,
                                               even_shards(rehearsal.plan.layout, rehearsal.ranks));
    },
}};

}  // namespace
}  // namespace laconic

// gather: every rank sends its frame to every other, and each adds them all up. This file and the
// driver are the whole walk:
//
//   gradients -> layout -> memory -> operators -> codecs -> frame -> transport
//                                                                        |
//   gradients <- memory <- mean <- operators (add) <- codecs <- frame <--+
#include <algorithm>

#include "laconic/exchange/exchange.h"
#include "laconic/exchange/foresight.h"

namespace laconic {
namespace {

class Gather : public WithMemory {
 public:
  explicit Gather(const Setup& setup) : WithMemory(setup, setup.plan), setup_(setup) {}

  const Plan& plan_at(std::uint64_t step) const override { return setup_.plan_at(step); }
  std::unique_ptr<Unit> make_unit() override;
  bool takes_half() const override { return true; }
  std::unique_ptr<Route> beside(const Setup& setup) override;
  double copies() const override { return setup_.transport.size() - 1; }

 private:
  Setup setup_;
};

class GatherUnit : public Unit {
 public:
  GatherUnit(const Setup& setup, Memory& memory)
      : setup_(setup),
        memory_(memory),
        rank_(setup.transport.rank()),
        ranks_(setup.transport.size()),
        received_(static_cast<std::size_t>(ranks_)),
        frames_(received_.size()) {}

  void reset() override { sent_ = false; }

  Move next(const Step& step, Transfer& transfer) override {
    if (std::exchange(sent_, true)) return Move::none;
    const std::uint64_t most = largest_frame(step.plan, slices);
    const std::uint64_t usual = usual_frame(step.plan, slices);
    mine_.reserve(usual);
    write(step);
    transfer.clear();
    for (int i = 1; i < ranks_; ++i) {
      const int to = (rank_ + i) % ranks_, from = (rank_ + ranks_ - i) % ranks_;
      transfer.sends.push_back({to, mine_.view()});
      Buffer& into = received_[static_cast<std::size_t>(from)];
      into.reserve(usual);  // once: frames differ in length from step to step
      transfer.receives.push_back(Receive::sized(from, into, most));
    }
    return Move::messages;
  }

  void open(const Step& step) override {
    const Timed timed(step.stats.decompress_seconds);
    const Leg leg = leg_of(step);
    inputs_ = 0;
    for (std::size_t rank = 0; rank < frames_.size(); ++rank) {
      const int from = static_cast<int>(rank);
      const ByteView bytes = from == rank_ ? mine_.view() : received_[rank].view();
      frames_[rank].open(leg, from, slices, bytes, step.scratch, from == rank_);
      inputs_ = hash_of(inputs_, frames_[rank].crc());
      step.stats.finite &= frames_[rank].finite();
    }
    together_.hold(frames_, slices.size());
  }

  // In rank order: floating-point sums depend on it, and every rank must get the same.
  void mean(const Step&, std::size_t place, std::size_t from, std::span<float> block) override {
    together_.sum(place, from, 1.0F / static_cast<float>(ranks_), block);
  }

  std::uint32_t inputs() const override { return inputs_; }

 private:
  Leg leg_of(const Step& step) const {
    return {step.plan,      setup_.seed,  step.info.step, step.gradient.places().entries(),
            frames_.size(), setup_.strata};
  }

  // Each slice: what memory wants sent is encoded, and memory learns what will arrive.
  void write(const Step& step) {
    const Timed timed(step.stats.compress_seconds);
    const Leg leg = leg_of(step);
    out_.begin(leg, rank_, mine_);
    add_slices(out_, step, slices, memory_);
    step.stats.payload_bytes += out_.finish();
    step.stats.wire_bytes += mine_.size();
    step.stats.up_bytes += mine_.size();
  }

  const Setup& setup_;
  Memory& memory_;
  int rank_, ranks_;
  bool sent_ = false;
  FrameOut out_;
  Buffer mine_;
  std::vector<Buffer> received_;
  std::vector<FrameIn> frames_;
  FramesTogether together_;
  std::uint32_t inputs_ = 0;
};

std::unique_ptr<Unit> Gather::make_unit() { return std::make_unique<GatherUnit>(setup_, *memory_); }

class GatherBeside : public Route {
 public:
  GatherBeside(const Setup& setup, Memory& memory) : setup_(setup), memory_(memory) {}

  const Plan& plan_at(std::uint64_t step) const override { return setup_.plan_at(step); }
  std::unique_ptr<Unit> make_unit() override {
    return std::make_unique<GatherUnit>(setup_, memory_);
  }

 private:
  Setup setup_;
  Memory& memory_;
};

std::unique_ptr<Route> Gather::beside(const Setup& setup) {
  return std::make_unique<GatherBeside>(setup, *memory_);
}

class GatherForesight : public Foresight {
 public:
  explicit GatherForesight(Rehearsal& rehearsal) : rehearsal_(rehearsal) {}

  const Plan& plan() const override { return rehearsal_.plan; }
  ForeseenUnit unit(Slices slices) override {
    const auto others = static_cast<std::uint64_t>(rehearsal_.ranks) - 1;
    const double entries = static_cast<double>(entries_of(plan(), slices));
    const std::uint64_t sent = others * (rehearsal_.frame(plan(), slices) + kMessageHead);
    const auto bytes = static_cast<double>(sent);
    return {.legs = {{.sent = sent,
                      .messages = others,
                      .out = bytes,
                      .in = bytes,
                      .most_out = bytes,
                      .most_in = bytes,
                      .encoded = entries}},
            .added = rehearsal_.ranks * entries};
  }

 private:
  Rehearsal& rehearsal_;
};

const RegisterExchange gather{{
    .name = "gather",
    .summary = "Every rank's frame to every other; sends (ranks - 1) frames.",
    .paper = "all-gather of compressed gradients, as in Xu et al., GRACE",
    .parameters = {},
    .follows_warmup = true,
    .make = [](const Setup& setup, const Args&) -> std::unique_ptr<Exchange> {
      return std::make_unique<Gather>(setup);
    },
}};

const RegisterForesight foresight{{
    .name = "gather",
    .make = [](Rehearsal& rehearsal, const Args&) -> std::unique_ptr<Foresight> {
      return std::make_unique<GatherForesight>(rehearsal);
    },
}};

}  // namespace
}  // namespace laconic

// gather: every rank sends its frame to every other, and each adds them all up. This file is the
// whole walk:
//
//   gradients -> layout -> memory -> operators -> codecs -> frame -> transport
//                                                                        |
//   gradients <- memory <- mean <- operators (add) <- codecs <- frame <--+
#include <algorithm>

#include "laconic/base/errors.h"
#include "laconic/exchange/aggregator.h"
#include "laconic/frame/frame.h"

namespace laconic {
namespace {

class Gather : public Aggregator {
 public:
  explicit Gather(Setup setup)
      : setup_(std::move(setup)),
        memory_(make_memory(setup_.memory, setup_.model, setup_.plan)),
        scratch_(setup_.threads),
        sum_(count_of(setup_.model)) {
    header_.seed = setup_.seed;
    header_.rank = static_cast<std::uint64_t>(setup_.transport.rank());
    header_.shape = {count_of(setup_.model)};
    largest_frame_ = largest_frame(setup_.plan);
    for (const Phase& phase : setup_.warmup) {
      require_fit(setup_.memory, phase.plan);
      largest_frame_ = std::max(largest_frame_, largest_frame(phase.plan));
    }
  }

  StepStats average(std::span<float> gradient, const StepInfo& given) override {
    require_count(gradient, setup_.model);
    StepInfo info = given;
    info.ranks = static_cast<std::size_t>(setup_.transport.size());
    StepStats stats{.dense_bytes = gradient.size_bytes()};
    Stopwatch watch;
    Transaction step(*memory_);

    write_frame(gradient, info, stats);
    stats.compress_seconds = watch.lap();

    const TrafficMeter meter(setup_.transport);
    setup_.transport.all_gather(mine_.view(), received_, largest_frame_,
                                Deadline::in(setup_.timeout_seconds, "all_gather of frames"));
    meter.into(stats);
    stats.exchange_seconds = watch.lap();

    read_frames(info.step);
    add_frames();
    std::ranges::copy(sum_, gradient.begin());
    stats.finite = std::ranges::all_of(frames_, &Frame::finite);
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
  // Each slice: what memory wants sent is encoded, and memory learns what will arrive.
  void write_frame(std::span<const float> gradient, const StepInfo& info, StepStats& stats) {
    header_.step = info.step;
    const Keys keys = header_.keys();
    const Plan& plan = setup_.plan_at(info.step);
    memory_->begin(gradient, info);
    mine_.clear();
    FrameWriter frame(mine_, header_, plan.operators);
    for (std::size_t i = 0; i < plan.layout.size(); ++i) {
      const Slice& slice = plan.layout[i];
      const auto x = memory_->compensate(slice, gradient.subspan(slice.offset, slice.count), info);
      if (frame.add(x, plan.operator_of[i], keys, scratch_))
        memory_->absorb(slice, {plan.op(i), frame.last_section(), keys.at(slice.offset), scratch_});
    }
    stats.payload_bytes = frame.finish();
    stats.wire_bytes = mine_.size();
  }

  void read_frames(std::uint64_t step) {
    frames_.clear();
    for (std::size_t rank = 0; rank < received_.size(); ++rank)
      naming(rank, step, [&] {
        frames_.push_back(read_frame(received_[rank].view(), {.max_count = header_.count()}));
        expect(frames_.back(), rank, step);
      });
  }

  // In rank order: floating-point sums depend on it, and every rank must get the same. The sum is a
  // buffer of its own, so a section that turns out to be bad leaves the gradient as it was.
  void add_frames() {
    std::ranges::fill(sum_, 0.0F);
    const float weight = 1.0F / static_cast<float>(frames_.size());
    for (const Frame& frame : frames_)
      naming(static_cast<std::size_t>(frame.header.rank), frame.header.step, [&] {
        for (const Section& section : frame.sections)
          add_section(frame, section, weight, std::span(sum_).subspan(section.first, section.count),
                      scratch_);
      });
  }

  // Errors in what a rank sent say which rank.
  template <class Read>
  static void naming(std::size_t rank, std::uint64_t step, Read read) {
    try {
      read();
    } catch (const DataError& error) {
      throw DataError("from rank " + std::to_string(rank) + " in step " + std::to_string(step) +
                      ": " + error.what());
    }
  }

  void expect(const Frame& frame, std::size_t rank, std::uint64_t step) const {
    const Plan& plan = setup_.plan_at(step);
    if (frame.header.rank != rank || frame.header.step != step || frame.header.seed != setup_.seed)
      throw DataError("the frame is of rank " + std::to_string(frame.header.rank) + ", step " +
                      std::to_string(frame.header.step) + ", seed " +
                      std::to_string(frame.header.seed));
    if (frame.operators != plan.operators || !frame.covers_all() ||
        frame.sections.size() != plan.layout.size())
      throw DataError("the frame has another operator or layout than this rank");
    for (std::size_t i = 0; i < plan.layout.size(); ++i)
      if (frame.sections[i].count != plan.layout[i].count ||
          frame.sections[i].operator_index != plan.operator_of[i])
        throw DataError("the frame cuts the model otherwise at slice '" + plan.layout[i].name +
                        "'");
  }

  // Each slice at its largest, compressed or as it is; head and table take less than what is added
  // for them.
  static std::uint64_t largest_frame(const Plan& plan) {
    std::uint64_t bytes = 1024;
    for (const Operator& op : plan.operators) bytes += op.spec().size() + 16;
    for (std::size_t i = 0; i < plan.layout.size(); ++i)
      bytes += std::max(plan.op(i).max_size(plan.layout[i].count),
                        plan.layout[i].count * sizeof(float)) +
               32;
    return bytes;
  }

  Setup setup_;
  std::uint64_t largest_frame_ = 0;
  std::unique_ptr<Memory> memory_;
  Scratch scratch_;
  FrameHeader header_;
  Buffer mine_;
  std::vector<Buffer> received_;
  std::vector<Frame> frames_;
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

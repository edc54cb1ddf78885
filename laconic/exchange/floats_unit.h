// A unit of which the sum of all ranks' floats travels, its slices one after the other: by the
// transport's own all-reduce, or added up by ranks.
#pragma once

#include <utility>

#include "laconic/exchange/exchange.h"
#include "laconic/exchange/sums.h"

namespace laconic {

class FloatsUnit : public Unit {
 public:
  void reset() override { begun_ = false; }

  Move next(const Step& step, Transfer& transfer) override {
    const bool first = !std::exchange(begun_, true);
    if (first) write(step);
    // Without tags ranks must start them in one order, which steps side by side have not.
    if (native_ && step.whole) return first ? Move::reduce : Move::none;
    if (first) sum_.begin(values_.span(), rank_, ranks_);
    return sum_.next(transfer) ? Move::messages : Move::none;
  }

  std::span<float> values() override { return values_.span(); }

  void mean(const Step&, std::size_t place, std::size_t from, std::span<float> block) override {
    const float weight = 1.0F / static_cast<float>(ranks_);
    const float* sum = values_.data() + begin_[place] + from;
    for (std::size_t i = 0; i < block.size(); ++i) block[i] = weight * sum[i];
  }

 protected:
  // `native`: by the transport's own.
  FloatsUnit(const Transport& transport, bool native)
      : rank_(transport.rank()), ranks_(transport.size()), native_(native) {}

  int rank() const { return rank_; }
  bool native() const { return native_; }
  const Sum& sum() const { return sum_; }

  // What this rank adds of one slice.
  virtual void write(const Step& step, std::size_t slice, std::span<float> out) = 0;

 private:
  // An array of its own, which may be the transport's for a while after a step that failed.
  void write(const Step& step) {
    const Timed timed(step.stats.compress_seconds);
    std::size_t count = 0;
    begin_.clear();
    for (const std::size_t i : slices) {
      begin_.push_back(count);
      count += step.plan.layout[i].count;
    }
    values_.reset(count);
    for (std::size_t place = 0; place < slices.size(); ++place) {
      const auto out = values_.span().subspan(begin_[place], step.plan.layout[slices[place]].count);
      write(step, slices[place], out);
      step.sent[slices[place]] += out.size_bytes();
    }
    const std::size_t bytes = count * sizeof(float);
    step.stats.payload_bytes += bytes;
    step.stats.wire_bytes += bytes;
    step.stats.up_bytes += bytes;
  }

  int rank_, ranks_;
  bool native_, begun_ = false;
  Array<float> values_;
  std::vector<std::size_t> begin_;  // of each slice in it
  Sum sum_;
};

}  // namespace laconic

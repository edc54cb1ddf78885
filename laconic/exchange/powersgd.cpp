// powersgd: each matrix as two thin factors, found by one step of power iteration that starts where
// the last one ended.
//
//   M = g + e; P = mean(M Q); P = orthonormal(P); Q = mean(M^T P); Mhat = P Q^T; e = M - Mhat
//
// Both products are linear in M, so the means are those of the mean matrix however ranks share it
// out, and an all-reduce makes them. What is too small to gain, vectors first of all, travels as it
// is with the first factor. Invariant: n times all Mhat, plus what all ranks owe, is the sum of all
// gradients.
#include <algorithm>
#include <cmath>
#include <limits>

#include "laconic/base/errors.h"
#include "laconic/exchange/aggregator.h"
#include "laconic/exchange/conversation.h"
#include "laconic/kernels/axpy.h"
#include "laconic/kernels/low_rank.h"
#include "laconic/kernels/reduce.h"

namespace laconic {
namespace {

// Forks of the seed's key; no step has these numbers, so no step's key is one of them.
constexpr std::uint64_t kStarts = ~1ULL, kReplacements = ~2ULL;

const std::string kOwed = "powersgd", kStart = "powersgd.start";  // roles in the state

// A tensor, and where its factors begin in the arrays of all factors.
struct Factors {
  Slice slice;
  MatrixShape shape;  // rank 0: sent as it is, in place of the left factor
  std::size_t left = 0, right = 0;

  bool thin() const { return shape.rank > 0; }
  std::size_t left_count() const { return thin() ? shape.rows * shape.rank : slice.count; }
  std::size_t right_count() const { return shape.cols * shape.rank; }
};

void require_tensors(const Setup& setup) {
  require_identity(setup, "powersgd");
  const auto same = [](const Slice& slice, const Tensor& tensor) {
    return slice.name == tensor.name && slice.count == tensor.count();
  };
  if (!std::ranges::equal(setup.plan.layout, setup.model, same))
    throw UsageError("exchange 'powersgd' takes each tensor as one matrix; allowed: layout tensor");
}

class PowerSgd : public Aggregator {
 public:
  PowerSgd(Setup setup, const Args& args)
      : setup_(std::move(setup)),
        mean_(count_of(setup_.model)),
        owed_(mean_.size()),
        next_owed_(mean_.size()) {
    require_tensors(setup_);
    factors_ = factors_of(args.whole("rank"));
    for (const Factors& f : factors_)
      if (f.thin()) right_model_.push_back({f.slice.name, {f.right_count()}});
    right_.resize(count_of(right_model_));
    next_right_.resize(right_.size());
    left_.resize(factors_.empty() ? 0 : factors_.back().left + factors_.back().left_count());
    for (const Factors& f : factors_)
      draw_normal(Key(setup_.seed).fork(kStarts).fork(f.slice.offset), right_of(f, right_));
  }

  StepStats average(std::span<float> gradient, const StepInfo& info) override {
    require_count(gradient, setup_.model);
    StepStats stats{.dense_bytes = gradient.size_bytes()};
    Stopwatch watch;
    const TrafficMeter meter(setup_.transport);

    kernels::add(owed_, gradient.data(), next_owed_.data());  // M
    write_left();
    stats.compress_seconds = watch.lap();
    average_over_ranks(left_, "all_reduce of left factors", stats);
    stats.exchange_seconds = watch.lap();
    // Every rank has the same left factors, so all leave here or none. Nothing was changed yet.
    stats.finite = kernels::all_finite(left_);
    if (stats.finite) {
      write_right(info.step);
      stats.compress_seconds += watch.lap();
      average_over_ranks(next_right_, "all_reduce of right factors", stats);
      stats.exchange_seconds += watch.lap();
      expand_all();
      stats.finite = kernels::all_finite(mean_);
    } else {
      std::ranges::fill(mean_, std::numeric_limits<float>::quiet_NaN());
    }
    meter.into(stats);
    stats.wire_bytes = stats.up_bytes = stats.payload_bytes;
    std::ranges::copy(mean_, gradient.begin());
    if (stats.finite) commit();
    stats.decompress_seconds = watch.lap();
    stats.residual_norm = std::sqrt(kernels::sum_of_squares(owed_));
    return stats;
  }

  State save() const override {
    State state;
    save_tensors(kOwed, setup_.model, owed_, state);
    save_tensors(kStart, right_model_, right_, state);
    return state;
  }

  void load(const State& state) override {
    State owed = state, start;
    for (const Tensor& tensor : right_model_)
      if (auto entry = owed.extract(kStart + "/" + tensor.name)) start.insert(std::move(entry));
    expect_state(owed, {kOwed}, setup_.model);
    expect_state(start, {kStart}, right_model_);
    owed_ = load_tensors(kOwed, setup_.model, owed);
    right_ = load_tensors(kStart, right_model_, start);
  }

 private:
  // Factors of up to so many columns, where they have fewer entries than the matrix.
  std::vector<Factors> factors_of(std::size_t rank) const {
    std::vector<Factors> all;
    std::size_t left = 0, right = 0;
    for (const Slice& slice : setup_.plan.layout) {
      const std::size_t most = std::min({rank, slice.rows, slice.cols});
      const bool gains = most * (slice.rows + slice.cols) < slice.count;
      all.push_back({slice, {slice.rows, slice.cols, gains ? most : 0}, left, right});
      left += all.back().left_count();
      right += all.back().right_count();
    }
    return all;
  }

  template <class T>
  static std::span<T> left_of(const Factors& f, std::vector<T>& all) {
    return std::span(all).subspan(f.left, f.left_count());
  }
  template <class T>
  static std::span<T> right_of(const Factors& f, std::vector<T>& all) {
    return std::span(all).subspan(f.right, f.right_count());
  }
  template <class T>
  static std::span<T> matrix_of(const Factors& f, std::vector<T>& all) {
    return std::span(all).subspan(f.slice.offset, f.slice.count);
  }

  void write_left() {
    for (const Factors& f : factors_) {
      const auto matrix = matrix_of(f, next_owed_);
      if (f.thin())
        multiply(matrix, f.shape, right_of(f, right_), left_of(f, left_));
      else
        std::ranges::copy(matrix, left_of(f, left_).begin());
    }
  }

  void write_right(std::uint64_t step) {
    const Key key = Key(setup_.seed).fork(kReplacements).fork(step);
    for (const Factors& f : factors_) {
      if (!f.thin()) continue;
      orthonormalise(left_of(f, left_), f.shape.rows, key.fork(f.slice.offset));
      multiply_transposed(matrix_of(f, next_owed_), f.shape, left_of(f, left_),
                          right_of(f, next_right_));
    }
  }

  void average_over_ranks(std::vector<float>& values, std::string_view operation,
                          StepStats& stats) {
    if (values.empty()) return;
    stats.payload_bytes += values.size() * sizeof(float);
    Conversation(setup_.transport, Deadline::in(setup_.timeout_seconds, operation))
        .all_reduce(values);
    const float weight = 1.0F / static_cast<float>(setup_.transport.size());
    for (float& value : values) value *= weight;
  }

  // The mean of what all ranks wanted to send.
  void expand_all() {
    for (const Factors& f : factors_) {
      const auto mean = matrix_of(f, mean_);
      if (f.thin()) {
        std::ranges::fill(mean, 0.0F);
        add_product(left_of(f, left_), right_of(f, next_right_), f.shape, 1, mean);
      } else {
        std::ranges::copy(left_of(f, left_), mean.begin());
      }
    }
  }

  // What travelled as it is was delivered as a whole.
  void commit() {
    for (const Factors& f : factors_) {
      const auto owed = matrix_of(f, next_owed_);
      if (f.thin())
        kernels::add_scaled(matrix_of(f, mean_).data(), -1, owed);
      else
        std::ranges::fill(owed, 0.0F);
    }
    owed_.swap(next_owed_);
    right_.swap(next_right_);
  }

  Setup setup_;
  std::vector<Factors> factors_;
  Model right_model_;  // the right factors, by the tensor's name
  std::vector<float> mean_;
  std::vector<float> owed_, next_owed_;    // e; M, then the next e
  std::vector<float> right_, next_right_;  // Q, all tensors' one after the other
  std::vector<float> left_;                // P, and what is sent as it is
};

const RegisterExchange powersgd{{
    .name = "powersgd",
    .summary = "Each matrix as two thin factors by warm-started power iteration, averaged by "
               "all-reduce; remembers what they miss.",
    .paper = "Vogels et al., PowerSGD (arXiv 1905.13727)",
    .parameters = {{.name = "rank",
                    .fallback = "2",
                    .choices = {},
                    .min = 1,
                    .max = 64,
                    .whole = true,
                    .help = "columns of a factor"}},
    .own_form = true,
    .roles = {{kOwed, Kept::sum}, {kStart, Kept::same}},
    .make = [](Setup setup, const Args& args) -> std::unique_ptr<Aggregator> {
      return std::make_unique<PowerSgd>(std::move(setup), args);
    },
}};

}  // namespace
}  // namespace laconic

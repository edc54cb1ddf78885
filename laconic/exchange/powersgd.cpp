// powersgd: each matrix as two thin factors, found by one step of power iteration that starts where
// the last one ended.
//
//   M = g + e; P = mean(M Q); P = orthonormal(P); Q = mean(M^T P); Mhat = P Q^T; e = M - Mhat
//
// Both products are linear in M, so the means are those of the mean matrix however ranks share it
// out, and sums over ranks make them. What is too small to gain, vectors first of all, travels as
// it is with the first factor; so does a matrix of which a rule wants the full rank. Invariant: n
// times all Mhat, plus what all ranks owe, is the sum of all gradients. With a loss scale S, M = g
// + S e and e = (M - Mhat) / S. A rank whose g is zero puts nothing into the factors, so that a
// tensor which no rank used keeps all that is owed.
//
// A warm start can lock: where M Q has no part in some direction, Q never gets one, and with rank 1
// what is owed along it is never paid (Wang et al., PowerSGD+, arXiv 2509.11254). `refresh` draws Q
// anew every so many steps; the steps after it are the iterations that find the main directions.
#include <algorithm>
#include <limits>

#include "laconic/base/errors.h"
#include "laconic/exchange/exchange.h"
#include "laconic/exchange/sums.h"
#include "laconic/kernels/axpy.h"
#include "laconic/kernels/low_rank.h"
#include "laconic/kernels/reduce.h"
#include "laconic/memory/store.h"

namespace laconic {
namespace {

// Forks of the seed's key; no step has these numbers, so no step's key is one of them.
constexpr std::uint64_t kStarts = ~1ULL, kReplacements = ~2ULL, kRefreshes = ~3ULL;

const std::string kOwed = "powersgd", kStart = "powersgd.start";  // roles in the state

// The exchange's own rank is cut down to what a matrix has; one that a rule names must be possible.
void require_ranks(const Plan& plan) {
  for (const Slice& slice : plan.layout)
    if (slice.cols > 1 && slice.rank > std::min(slice.rows, slice.cols))
      throw UsageError("rank " + std::to_string(slice.rank) + " for tensor '" + slice.name +
                       "', a matrix of " + std::to_string(slice.rows) + " x " +
                       std::to_string(slice.cols) + "; allowed: 1 to " +
                       std::to_string(std::min(slice.rows, slice.cols)));
}

void require_tensors(const Setup& setup) {
  require_identity(setup, "powersgd");
  const auto same = [](const Slice& slice, const Tensor& tensor) {
    return slice.name == tensor.name && slice.count == tensor.count();
  };
  if (!std::ranges::equal(setup.plan.layout, setup.model, same))
    throw UsageError("exchange 'powersgd' takes each tensor as one matrix; allowed: layout tensor");
  require_ranks(setup.plan);
}

// As shape_of_factors, by the slice's own rank if it has one.
MatrixShape shape_of(const Slice& slice, std::size_t rank) {
  return shape_of_factors(slice.rows, slice.cols, slice.rank > 0 ? slice.rank : rank);
}

// The right factors, by the tensor's name.
Model right_model(const Setup& setup, std::size_t rank) {
  Model model;
  for (const Slice& slice : setup.plan.layout) {
    const MatrixShape shape = shape_of(slice, rank);
    model.push_back({slice.name, {shape.cols * shape.rank}});
  }
  return model;
}

class PowerSgd : public Exchange {
 public:
  PowerSgd(const Setup& setup, const Args& args)
      : setup_((require_tensors(setup), setup)),
        rank_(args.whole("rank")),
        refresh_(args.whole("refresh")),
        owed_(kOwed, setup.model),
        right_(kStart, right_model(setup, rank_)) {
    State state;
    for (const Slice& slice : setup_.plan.layout) {
      auto& values = state[kStart + "/" + slice.name];
      values.resize(shape(slice).cols * shape(slice).rank);
      draw_normal(Key(setup_.seed).fork(kStarts).fork(slice.offset), values);
    }
    right_.load(state);
  }

  const Plan& plan_at(std::uint64_t) const override { return setup_.plan; }
  std::unique_ptr<Unit> make_unit() override;
  bool framed() const override { return false; }
  bool parallel() const override { return false; }
  bool lets_rest() const override { return false; }  // what others' factors give is owed here too
  void begin(const StepInfo& info) override { scale_ = info.scale; }
  void turn(const StepInfo& info) override { scale_ = info.scale; }
  Memory* memory() override { return &whole_; }

  void commit(const Tensors& tensors) override {
    owed_.commit(tensors.averaged);
    right_.commit(tensors.averaged);
  }
  double residual_norm() const override { return owed_.norm(); }

  State save() const override {
    State state = save_stores({&owed_, &right_});
    std::erase_if(state, [](const auto& entry) { return entry.second.empty(); });
    return state;
  }
  void load(const State& given) override {
    State owed, start;
    for (const auto& entry : given)
      (entry.first.starts_with(kStart + "/") ? start : owed).insert(entry);
    for (const Tensor& tensor : right_.model())
      if (tensor.count() == 0) start.try_emplace(kStart + "/" + tensor.name);
    for (const Tensor& tensor : setup_.model)
      if (tensor.count() == 0) owed.try_emplace(kOwed + "/" + tensor.name);
    expect_state(owed, {kOwed}, setup_.model);
    expect_state(start, {kStart}, right_.model());
    owed_.load(owed);
    right_.load(start);
  }

  const Setup& setup() const { return setup_; }
  MatrixShape shape(const Slice& slice) const { return shape_of(slice, rank_); }

  // M of a tensor, which becomes the next e; the factor Q it starts from, and the next one.
  std::span<float> matrix(std::size_t tensor) { return all_of(owed_, tensor, true); }
  std::span<const float> residual(std::size_t tensor) { return all_of(owed_, tensor, false); }
  std::span<const float> right(std::size_t tensor) { return all_of(right_, tensor, false); }
  // What a step starts from: that, or draws of its own. Valid until it is asked for again.
  std::span<const float> start(std::size_t tensor, std::uint64_t step, Array<float>& drawn) {
    const auto right = this->right(tensor);
    if (step == 0 || step % refresh_ != 0) return right;
    const std::size_t offset = setup_.plan.layout[tensor].offset;
    draw_normal(Key(setup_.seed).fork(kRefreshes).fork(step).fork(offset),
                drawn.reset(right.size()));
    return drawn.view();
  }
  std::span<float> next_right(std::size_t tensor) { return all_of(right_, tensor, true); }

 private:
  // For steps in which matrices go as they are: the next step starts where this one did.
  class Whole : public Memory {
   public:
    explicit Whole(PowerSgd& of) : of_(of) {}
    Source source(const Slice& slice, const Floats& gradient) override {
      keep_start(slice);
      return {.fresh = gradient,
              .kept = of_.owed_.kept(slice),
              .left = of_.owed_.next(slice),
              .b = of_.scale_,
              .c = 1 / of_.scale_};
    }
    void rest(const Slice& slice) override {
      keep_start(slice);
      of_.owed_.keep(slice);
    }
    void commit(const Tensors&) override {}  // all of this is the exchange's own
    double residual_norm() const override { return 0; }
    State save() const override { return {}; }
    void load(const State&) override {}

   private:
    void keep_start(const Slice& slice) {
      if (slice.count == 0) return;
      const std::size_t tensor = of_.owed_.places().tensor_at(slice.offset);
      std::ranges::copy(of_.right(tensor), of_.next_right(tensor).begin());
    }

    PowerSgd& of_;
  };

  static std::span<float> all_of(Store& store, std::size_t tensor, bool next) {
    const Places& places = store.places();
    const Slice all{.name = {}, .offset = places.begin(tensor), .count = places.count(tensor)};
    return {(next ? store.next(all) : store.kept(all)).place(0, all.count, nullptr), all.count};
  }

  Setup setup_;
  std::size_t rank_;
  std::uint64_t refresh_;
  Store owed_, right_;
  float scale_ = 1;
  Whole whole_{*this};
};

// One slice is one tensor, so their indices are the same.
class PowerUnit : public Unit {
 public:
  explicit PowerUnit(PowerSgd& exchange)
      : exchange_(exchange),
        rank_(exchange.setup().transport.rank()),
        ranks_(exchange.setup().transport.size()) {}

  void reset() override { phase_ = Phase::start; }

  Move next(const Step& step, Transfer& transfer) override {
    if (phase_ == Phase::start) {
      write_left(step);
      sum_.begin(left_.span(), rank_, ranks_);
      phase_ = Phase::left;
    }
    if (phase_ == Phase::left) {
      if (sum_.next(transfer)) return Move::messages;
      average(left_.span());
      finite_ = kernels::all_finite(left_.view());
      phase_ = Phase::right;
      // Every rank has the same left factors, so all leave here or none.
      if (finite_)
        write_right(step);
      else
        right_.clear();
      sum_.begin(right_.span(), rank_, ranks_);
    }
    if (sum_.next(transfer)) return Move::messages;
    return Move::none;
  }

  void open(const Step& step) override {
    average(right_.span());
    empty_.assign(slices.size(), 0);
    std::size_t from = 0;
    for (std::size_t place = 0; place < slices.size() && finite_; ++place) {
      const auto next = exchange_.next_right(slices[place]);
      std::copy_n(right_.data() + from, next.size(), next.begin());
      from += next.size();
      empty_[place] = std::ranges::all_of(next, [](float x) { return x == 0; });
      if (empty_[place]) std::ranges::copy(exchange_.right(slices[place]), next.begin());
    }
    finite_ = finite_ && kernels::all_finite(right_.view());
    step.stats.finite &= finite_;
  }

  // And, beside it, the next e: what of M the factors miss.
  void mean(const Step& step, std::size_t place, std::size_t from,
            std::span<float> block) override {
    if (!finite_) {
      std::ranges::fill(block, std::numeric_limits<float>::quiet_NaN());
      return;
    }
    const std::size_t i = slices[place];
    const MatrixShape shape = exchange_.shape(step.plan.layout[i]);
    const auto owed = exchange_.matrix(i).subspan(from, block.size());
    if (shape.rank == 0) {  // delivered as a whole
      std::copy_n(left_.data() + left_begin_[place] + from, block.size(), block.begin());
      if (rests_[place])
        std::ranges::copy(exchange_.residual(i).subspan(from, block.size()), owed.begin());
      else
        std::ranges::fill(owed, 0.0F);
      return;
    }
    if (empty_[place]) {
      std::ranges::fill(block, 0.0F);
      for (float& value : owed) value *= 1 / step.info.scale;
      return;
    }
    const std::span left(left_.data() + left_begin_[place], shape.rows * shape.rank);
    expand(left, exchange_.next_right(i), shape, from, block, 1 / step.info.scale, owed.data());
  }

 private:
  enum class Phase { start, left, right };

  void average(std::span<float> values) const {
    const float weight = 1.0F / static_cast<float>(ranks_);
    for (float& value : values) value *= weight;
  }

  void write_left(const Step& step) {
    const Timed timed(step.stats.compress_seconds);
    left_begin_.clear();
    left_.clear();
    rests_.clear();
    for (const std::size_t i : slices) {
      const Slice& slice = step.plan.layout[i];
      const MatrixShape shape = exchange_.shape(slice);
      const std::size_t count = shape.rank > 0 ? shape.rows * shape.rank : slice.count;
      left_begin_.push_back(left_.size());
      left_.grow(count);
      step.sent[i] += count * sizeof(float);
      const std::span<float> left(left_.data() + left_begin_.back(), count);
      mix_and_multiply(step.gradient.floats(slice), step.info.scale, exchange_.residual(i), shape,
                       exchange_.start(i, step.info.step, drawn_), exchange_.matrix(i), left);
      if (shape.rank == 0) std::ranges::copy(exchange_.matrix(i), left.begin());
      rests_.push_back(step.gradient.rests(slice));
      if (rests_.back()) std::ranges::fill(left, 0.0F);
    }
    note_bytes(step, left_.size());
  }

  void write_right(const Step& step) {
    const Timed timed(step.stats.compress_seconds);
    const Key key = Key(exchange_.setup().seed).fork(kReplacements).fork(step.info.step);
    right_.clear();
    for (std::size_t place = 0; place < slices.size(); ++place) {
      const std::size_t i = slices[place];
      const Slice& slice = step.plan.layout[i];
      const MatrixShape shape = exchange_.shape(slice);
      if (shape.rank == 0) continue;
      const std::span<float> left(left_.data() + left_begin_[place], shape.rows * shape.rank);
      orthonormalise(left, shape.rows, key.fork(slice.offset), columns_);
      const std::size_t count = shape.cols * shape.rank;
      const std::span<float> right(right_.grow(count), count);
      step.sent[i] += right.size_bytes();
      if (rests_[place])
        std::ranges::fill(right, 0.0F);
      else
        multiply_transposed(exchange_.matrix(i), shape, left, right, sums_);
    }
    note_bytes(step, right_.size());
  }

  static void note_bytes(const Step& step, std::size_t values) {
    step.stats.payload_bytes += values * sizeof(float);
    step.stats.wire_bytes += values * sizeof(float);
    step.stats.up_bytes += values * sizeof(float);
  }

  PowerSgd& exchange_;
  int rank_, ranks_;
  Phase phase_ = Phase::start;
  bool finite_ = true;
  Array<float> left_, right_;            // P and what is sent as it is; Q
  std::vector<std::size_t> left_begin_;  // by place
  std::vector<std::uint8_t> rests_;      // on this rank
  std::vector<std::uint8_t> empty_;  // the mean matrix is zero: the next step starts where this did
  Array<double> columns_;            // working memory of the factors
  Array<float> sums_, drawn_;
  Sum sum_;
};

std::unique_ptr<Unit> PowerSgd::make_unit() { return std::make_unique<PowerUnit>(*this); }

class PowerForesight : public Foresight {
 public:
  PowerForesight(Rehearsal& rehearsal, std::size_t rank) : rehearsal_(rehearsal), rank_(rank) {
    require_ranks(plan());
  }

  const Plan& plan() const override { return rehearsal_.plan; }
  ForeseenUnit unit(Slices slices) override {
    std::size_t left = 0, right = 0;
    for (const std::size_t i : slices) {
      const MatrixShape shape = shape_of(plan().layout[i], rank_);
      left += shape.rank > 0 ? shape.rows * shape.rank : plan().layout[i].count;
      right += shape.cols * shape.rank;
    }
    const double entries = static_cast<double>(entries_of(plan(), slices));
    ForeseenUnit unit{.added = entries};
    foresee_sum(left, rehearsal_.ranks, entries / 2, unit.legs);
    foresee_sum(right, rehearsal_.ranks, entries / 2, unit.legs);
    return unit;
  }
  bool framed() const override { return false; }

 private:
  Rehearsal& rehearsal_;
  std::size_t rank_;
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
                    .help = "columns of a factor, where no rule names a rank"},
                   {.name = "refresh",
                    .fallback = "1000000000",
                    .choices = {},
                    .min = 100,
                    .max = 1e9,
                    .whole = true,
                    .help =
                        "steps after which directions are drawn anew; without it rank 1 may lock "
                        "for ever"}},
    .own_form = true,
    .follows_ranks = true,
    .roles = {{kOwed, Kept::sum}, {kStart, Kept::same}},
    .make = [](const Setup& setup, const Args& args) -> std::unique_ptr<Exchange> {
      return std::make_unique<PowerSgd>(setup, args);
    },
}};

const RegisterForesight foresight{{
    .name = "powersgd",
    .make = [](Rehearsal& rehearsal, const Args& args) -> std::unique_ptr<Foresight> {
      return std::make_unique<PowerForesight>(rehearsal, args.whole("rank"));
    },
}};

}  // namespace
}  // namespace laconic

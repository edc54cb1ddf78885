// arc: the rows of each matrix that are largest in the mean, which all ranks find from a sketch
// that adds up (ARC-Top-K, arXiv 2510.26709).
//
//   M_i = g_i + e_i; S = sum of M_i V; R = the rows of S that are longest; mean of M_i[R]; e_i =
//   M_i - M_i[R]
//
// V has few columns of normal draws, the same on all ranks and new in every step, so E |S_j|^2 is
// as many times the square of row j of the sum. Both sums are plain floats and no position travels.
// Entries of a slice that is no matrix stand in rows of 64. What is too small to gain travels as it
// is, with the sketches. Invariant: n times all means, plus what all ranks owe, is the sum of all
// gradients. A rank whose gradient is zero puts nothing in and keeps what it owes.
#include <algorithm>
#include <limits>

#include "laconic/exchange/exchange.h"
#include "laconic/exchange/sums.h"
#include "laconic/kernels/low_rank.h"
#include "laconic/kernels/reduce.h"
#include "laconic/operators/blocks.h"
#include "laconic/operators/indexed.h"

namespace laconic {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr std::uint64_t kSketches = ~4ULL;  // a fork of the seed's key; no step has this number
constexpr std::size_t kRow = 64;            // entries of a row where there is no matrix
constexpr std::uint32_t kUnsent = ~0U;

struct Sizes {
  double density = 0;
  std::size_t width = 0;  // columns of a sketch
};

// How a slice travels: `kept` of its rows, or, where that is 0, as it is.
struct Rows {
  MatrixShape shape;  // its rank is the sketch's
  std::size_t kept = 0;

  std::size_t sketch(const Slice& slice) const {
    return kept > 0 ? shape.rows * shape.rank : slice.count;
  }
  std::size_t values() const { return kept * shape.cols; }
};

Rows rows_of(const Slice& slice, const Sizes& sizes) {
  Rows rows{{slice.rows, slice.cols, sizes.width}};
  if (slice.rows < 2 || slice.cols < 2)
    rows.shape = {(slice.count + kRow - 1) / kRow, kRow, sizes.width};
  if (slice.count == 0) return rows;
  rows.kept = kept_at(sizes.density, rows.shape.rows);
  if (rows.sketch(slice) + rows.values() >= slice.count) rows.kept = 0;
  return rows;
}

class ArcUnit : public Unit {
 public:
  ArcUnit(const Setup& setup, const Sizes& sizes, Memory& memory)
      : setup_(setup),
        sizes_(sizes),
        memory_(memory),
        rank_(setup.transport.rank()),
        ranks_(setup.transport.size()) {}

  void reset() override { phase_ = Phase::start; }

  Move next(const Step& step, Transfer& transfer) override {
    if (phase_ == Phase::start) {
      write_sketches(step);
      sum_.begin(sketches_.span(), rank_, ranks_);
      phase_ = Phase::sketches;
    }
    if (phase_ == Phase::sketches) {
      if (sum_.next(transfer)) return Move::messages;
      inputs_ = sum_.hash();
      choose(step);
      write_values(step);
      sum_.begin(values_.span(), rank_, ranks_);
      phase_ = Phase::values;
    }
    return sum_.next(transfer) ? Move::messages : Move::none;
  }

  void open(const Step& step) override {
    for (const Place& place : places_) step.stats.finite &= place.finite;
    step.stats.finite &= kernels::all_finite(values_.view());
    inputs_ = hash_of(inputs_, sum_.hash());
  }

  void mean(const Step&, std::size_t at, std::size_t from, std::span<float> block) override {
    const Place& place = places_[at];
    const float weight = 1.0F / static_cast<float>(ranks_);
    if (!place.finite) return void(std::ranges::fill(block, kNan));
    if (place.rows.kept == 0) {
      const float* sum = sketches_.data() + place.sketch + from;
      for (std::size_t i = 0; i < block.size(); ++i) block[i] = weight * sum[i];
      return;
    }
    const std::size_t cols = place.rows.shape.cols;
    in_blocks(from, from + block.size(), cols,
              [&](std::size_t row, std::size_t begin, std::size_t n) {
                const std::span<float> out = block.subspan(begin - from, n);
                const std::uint32_t slot = slots_[place.slots + row];
                if (slot == kUnsent) return void(std::ranges::fill(out, 0.0F));
                const float* sum = values_.data() + place.values + slot * cols + begin % cols;
                for (std::size_t i = 0; i < n; ++i) out[i] = weight * sum[i];
              });
  }

  std::uint32_t inputs() const override { return inputs_; }

 private:
  enum class Phase { start, sketches, values };

  // Where things of a slice begin, each in its array.
  struct Place {
    Rows rows;
    std::size_t matrix = 0, sketch = 0, slots = 0, values = 0;
    bool rests = false, finite = true;
  };

  // M of every slice, in whole rows, and what it looks like from a few directions.
  void write_sketches(const Step& step) {
    const Timed timed(step.stats.compress_seconds);
    places_.clear();
    matrices_.clear();
    sketches_.clear();
    for (const std::size_t i : slices) {
      const Slice& slice = step.plan.layout[i];
      Place place{.rows = rows_of(slice, sizes_),
                  .matrix = matrices_.size(),
                  .sketch = sketches_.size(),
                  .rests = step.gradient.rests(slice)};
      const std::size_t padded =
          place.rows.kept > 0 ? place.rows.shape.rows * place.rows.shape.cols : slice.count;
      const std::span matrix(matrices_.grow(padded), padded);
      const std::span sketch(sketches_.grow(place.rows.sketch(slice)), place.rows.sketch(slice));
      step.sent[i] += sketch.size_bytes();
      if (place.rests) {
        std::ranges::fill(sketch, 0.0F);
      } else {
        load(step, slice, matrix);
        look(step, slice, place.rows, matrix, sketch);
      }
      places_.push_back(place);
    }
    note_bytes(step, sketches_.size());
  }

  void load(const Step& step, const Slice& slice, std::span<float> matrix) {
    const Source source = memory_.source(slice, step.gradient.floats(slice));
    for (std::size_t from = 0; from < slice.count; from += kBlock) {
      const auto block = matrix.subspan(from, std::min(kBlock, slice.count - from));
      const float* x = source.load(from, block.size(), block.data());
      if (x != block.data())
        std::ranges::copy_n(x, static_cast<std::ptrdiff_t>(block.size()), block.begin());
    }
    std::ranges::fill(matrix.subspan(slice.count), 0.0F);
  }

  void look(const Step& step, const Slice& slice, const Rows& rows, std::span<const float> matrix,
            std::span<float> sketch) {
    if (rows.kept == 0) return void(std::ranges::copy(matrix, sketch.begin()));
    directions_.reset(rows.shape.cols * rows.shape.rank);
    draw_normal(Key(setup_.seed).fork(kSketches).fork(step.info.step).fork(slice.offset),
                directions_.span());
    multiply(matrix, rows.shape, directions_.view(), sketch);
  }

  // All ranks have the same sketches, so all choose the same rows.
  void choose(const Step& step) {
    const Timed timed(step.stats.decompress_seconds);
    slots_.clear();
    std::size_t values = 0;
    for (std::size_t at = 0; at < slices.size(); ++at) {
      Place& place = places_[at];
      const std::span sketch(sketches_.data() + place.sketch,
                             place.rows.sketch(step.plan.layout[slices[at]]));
      place.finite = kernels::all_finite(sketch);
      place.slots = slots_.size();
      place.values = values;
      if (place.rows.kept == 0) continue;
      values += place.finite ? place.rows.values() : 0;
      const std::span slots(slots_.grow(place.rows.shape.rows), place.rows.shape.rows);
      std::ranges::fill(slots, kUnsent);
      if (!place.finite) continue;
      longest_rows(sketch, place.rows.shape.rows, place.rows.kept, chosen_, lengths_);
      for (std::uint32_t slot = 0; slot < place.rows.kept; ++slot) slots[chosen_[slot]] = slot;
    }
    values_.reset(values);
  }

  // The chosen rows, and beside them what is still owed.
  void write_values(const Step& step) {
    const Timed timed(step.stats.compress_seconds);
    for (std::size_t at = 0; at < slices.size(); ++at) {
      const Place& place = places_[at];
      const Slice& slice = step.plan.layout[slices[at]];
      if (!place.finite) continue;
      const std::span values(values_.data() + place.values, place.rows.values());
      step.sent[slices[at]] += values.size_bytes();
      if (place.rests)
        std::ranges::fill(values, 0.0F);
      else
        split(step, slice, place, values);
    }
    note_bytes(step, values_.size());
  }

  void split(const Step& step, const Slice& slice, const Place& place, std::span<float> values) {
    const Source source = memory_.source(slice, step.gradient.floats(slice));
    const std::size_t cols = place.rows.kept > 0 ? place.rows.shape.cols : kBlock;
    const std::size_t rows = (slice.count + cols - 1) / cols;
    const float* matrix = matrices_.data() + place.matrix;
    float left[kBlock];
    for (std::size_t row = 0; row < rows; ++row) {
      const std::uint32_t slot = place.rows.kept > 0 ? slots_[place.slots + row] : 0;
      const bool sent = slot != kUnsent;
      if (sent && place.rows.kept > 0) std::copy_n(matrix + row * cols, cols, &values[slot * cols]);
      const std::size_t end = std::min(slice.count, (row + 1) * cols);
      for (std::size_t from = row * cols; from < end; from += kBlock) {
        const std::size_t count = std::min(kBlock, end - from);
        for (std::size_t i = 0; i < count; ++i) left[i] = sent ? 0 : source.c * matrix[from + i];
        source.left.store(from, count, left);
      }
    }
  }

  static void note_bytes(const Step& step, std::size_t floats) {
    step.stats.payload_bytes += floats * sizeof(float);
    step.stats.wire_bytes += floats * sizeof(float);
    step.stats.up_bytes += floats * sizeof(float);
  }

  const Setup& setup_;
  const Sizes sizes_;
  Memory& memory_;
  int rank_, ranks_;
  Phase phase_ = Phase::start;
  std::vector<Place> places_;
  Array<float> matrices_, sketches_, values_, directions_;
  Array<std::uint32_t> slots_;  // by row: which of the chosen it is
  Array<std::uint32_t> chosen_;
  Array<double> lengths_;
  Sum sum_;
  std::uint32_t inputs_ = 0;
};

Setup with_feedback(const Setup& setup) {
  require_identity(setup, "arc");
  Setup with = setup;
  with.memory = "feedback";
  return with;
}

class Arc : public WithMemory {
 public:
  Arc(const Setup& setup, const Sizes& sizes)
      : WithMemory(with_feedback(setup), setup.plan), setup_(setup), sizes_(sizes) {}

  const Plan& plan_at(std::uint64_t) const override { return setup_.plan; }
  std::unique_ptr<Unit> make_unit() override {
    return std::make_unique<ArcUnit>(setup_, sizes_, *memory_);
  }
  bool takes_half() const override { return true; }

 private:
  Setup setup_;
  Sizes sizes_;
};

class ArcForesight : public Foresight {
 public:
  ArcForesight(Rehearsal& rehearsal, const Sizes& sizes) : rehearsal_(rehearsal), sizes_(sizes) {}

  const Plan& plan() const override { return rehearsal_.plan; }
  ForeseenUnit unit(Slices slices) override {
    std::size_t sketches = 0, values = 0;
    for (const std::size_t i : slices) {
      const Rows rows = rows_of(plan().layout[i], sizes_);
      sketches += rows.sketch(plan().layout[i]);
      values += rows.values();
    }
    const double entries = static_cast<double>(entries_of(plan(), slices));
    ForeseenUnit unit{.added = entries};
    foresee_sum(sketches, rehearsal_.ranks, entries / 2, unit.legs);
    foresee_sum(values, rehearsal_.ranks, entries / 2, unit.legs);
    return unit;
  }

 private:
  Rehearsal& rehearsal_;
  Sizes sizes_;
};

Sizes sizes_of(const Args& args) { return {args.number("density"), args.whole("sketch")}; }

const RegisterExchange arc{{
    .name = "arc",
    .summary = "All-reduce of the rows that are largest in the mean, found by an all-reduce of "
               "sketches; no position travels, and what is not sent is remembered.",
    .paper = "ARC-Top-K (arXiv 2510.26709)",
    .parameters = {{.name = "density",
                    .fallback = "0.01",
                    .choices = {},
                    .min = 1e-6,
                    .max = 1,
                    .help = "share of a matrix's rows, or of a vector's runs of 64 entries, sent"},
                   {.name = "sketch",
                    .fallback = "4",
                    .choices = {},
                    .min = 1,
                    .max = 64,
                    .whole = true,
                    .help = "directions from which rows are looked at"}},
    .own_form = true,
    .make = [](const Setup& setup, const Args& args) -> std::unique_ptr<Exchange> {
      return std::make_unique<Arc>(setup, sizes_of(args));
    },
}};

const RegisterForesight foresight{{
    .name = "arc",
    .make = [](Rehearsal& rehearsal, const Args& args) -> std::unique_ptr<Foresight> {
      return std::make_unique<ArcForesight>(rehearsal, sizes_of(args));
    },
}};

}  // namespace
}  // namespace laconic

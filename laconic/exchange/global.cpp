// global: whole numbers that add up on their way (Global-QSGD, Xin et al., arXiv 2305.18627).
//
//   N = max over ranks of |x_i|; l_i = round(s x_i / N) at random; L = sum of l_i; mean = N L / (n
//   s)
//
// Ranks first tell each other how large each slice is, so that all round to multiples of one step.
// Levels then add up without being decoded, exactly and in any order: no rank's work grows with
// their number beyond adding. A share has the bits of 2 s + 1 levels, a sum those of 2 n s + 1.
// Where all ranks hold zeros nothing more is sent of a slice, and neither where some rank's is not
// finite: its size is then NaN, and so is everybody's mean.
//
// With one level this is TernGrad's sharing of scalers (Wen et al., arXiv 1705.07878, section 3.2),
// whose ranks clip their gradients beforehand: `clip`, which is biased, and leaves little of
// entries that have a mean. Norm 2 is the length of all ranks' slices together, never less than any
// entry.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>

#include "laconic/base/errors.h"
#include "laconic/codecs/fixed.h"
#include "laconic/exchange/exchange.h"
#include "laconic/exchange/sums.h"
#include "laconic/operators/blocks.h"
#include "laconic/operators/clipping.h"

namespace laconic {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr std::size_t kCell = 8;  // levels: whatever their bits, so many end on a byte

std::size_t cells_of(const Slice& slice) { return (slice.count + kCell - 1) / kCell; }

// Levels from -most to most, as so much above the least.
struct Levels {
  explicit Levels(std::uint32_t most)
      : most(most), width(static_cast<unsigned>(std::bit_width(2 * most))) {}
  std::uint32_t most;
  unsigned width;  // bits of one, and bytes of a cell
};

struct Form {
  Form(const Args& args, int ranks)
      : share(static_cast<std::uint32_t>(args.whole("levels"))),
        sum(share.most * static_cast<std::uint32_t>(ranks)),
        together(args.text("norm") == "2"),
        clip(args.number("clip")) {}
  Cells cells(std::size_t count) const { return {count, share.width, sum.width}; }

  Levels share, sum;
  bool together;  // norm 2
  double clip;    // standard deviations, 0: none
};

// Reads packed symbols, a multiple of kCell and at most kBlock of them. Whether all are levels.
bool read_levels(ByteView packed, const Levels& levels, std::span<std::uint32_t> symbols) {
  if (levels.width > 8) {
    unpack(packed, levels.width, symbols);
    return std::ranges::all_of(symbols, [&](std::uint32_t s) { return s <= 2 * levels.most; });
  }
  std::uint8_t bytes[kBlock] = {};
  unpack_bytes(packed.data(), symbols.size(), levels.width, bytes);
  std::copy_n(bytes, symbols.size(), symbols.begin());
  return kernels::largest_byte({bytes, symbols.size()}) <= 2 * levels.most;
}

void write_levels(std::span<const std::uint32_t> symbols, const Levels& levels, Buffer& out) {
  if (levels.width > 8) return pack(symbols, levels.width, out);
  std::uint8_t bytes[kBlock];
  std::ranges::copy(symbols, bytes);
  pack_bytes(bytes, symbols.size(), levels.width,
             out.grow(packed_size(levels.width, symbols.size())));
}

// Packed levels of all ranks. Those of a share have 8 bits or fewer.
class LevelSum : public Reduction {
 public:
  explicit LevelSum(const Form& form) : form_(form) {}

  // Makes room for so many cells.
  void reset(std::size_t cells) {
    cells_ = cells;
    shares_.reset(cells * form_.share.width);
    sums_.reset(cells * form_.sum.width);
  }
  // Writes this rank's levels of the cells from `cell` on, a symbol each. Threads may write
  // distinct cells.
  void write(std::size_t cell, std::span<const std::uint8_t> symbols) {
    pack_bytes(symbols.data(), symbols.size(), form_.share.width,
               shares_.data() + cell * form_.share.width);
  }
  void begin(int rank, int ranks) {
    beyond_ = kNobody;
    if (ranks == 1) std::ranges::copy(shares_.view(), sums_.data());
    Reduction::begin(form_.cells(cells_), shares_.span(), sums_.span(), rank, ranks);
  }

  bool next(Transfer& transfer) {
    const bool more = Reduction::next(transfer);
    if (!more) check_sums();
    if (beyond_ != kNobody)
      throw DataError("the levels from rank " + std::to_string(beyond_) +
                          " are no sums of levels up to " + std::to_string(form_.share.most),
                      beyond_);
    return more;
  }

  // The sums of the cells from `cell` on, at most kBlock of them, as symbols.
  void read(std::size_t cell, std::span<std::uint32_t> symbols) const {
    read_levels(
        sums_.view().subspan(cell * form_.sum.width, symbols.size() / kCell * form_.sum.width),
        form_.sum, symbols);
  }

 protected:
  std::size_t block() const override { return kBlock / kCell; }

  void add(std::span<const ByteView> shares, std::span<std::uint8_t> sums) override {
    std::uint32_t all[kBlock], one[kBlock];
    const std::size_t count = sums.size() / form_.sum.width * kCell;
    std::fill_n(all, count, 0U);
    for (std::size_t rank = 0; rank < shares.size(); ++rank) {
      if (!read_levels(shares[rank], form_.share, {one, count})) beyond_ = static_cast<int>(rank);
      for (std::size_t i = 0; i < count; ++i) all[i] += one[i];
    }
    packed_.clear();
    write_levels({all, count}, form_.sum, packed_);
    std::ranges::copy(packed_.view(), sums.begin());
  }
  const char* what() const override { return "levels"; }

 private:
  void check_sums() {
    std::uint32_t symbols[kBlock];
    for (int rank = 0; rank < ranks(); ++rank) {
      ByteView rest = sums_of(rank);
      while (!rest.empty()) {
        const ByteView some = rest.first(std::min(rest.size(), block() * form_.sum.width));
        rest = rest.subspan(some.size());
        if (!read_levels(some, form_.sum, {symbols, some.size() / form_.sum.width * kCell}))
          beyond_ = rank;
      }
    }
  }

  const Form& form_;
  std::size_t cells_ = 0;
  Buffer shares_, sums_, packed_;
  int beyond_ = kNobody;  // who has sent what cannot be
};

// How large slices are on all ranks, in one leg: every rank's floats to every other, with their
// checksum behind them, which begins from `about`, what they are about, and the sender's rank: a
// message of another step is then as good as a damaged one.
class Sizes {
 public:
  // This rank's, to be filled in.
  std::span<float> reset(std::size_t count) { return own_.reset(count); }

  void start(int rank, int ranks, std::uint32_t about, Transfer& transfer) {
    about_ = about;
    mine_.clear();
    mine_.append({reinterpret_cast<const std::uint8_t*>(own_.data()), own_.size() * sizeof(float)});
    mine_.append_number(checksum(mine_.view(), rank));
    received_.resize(static_cast<std::size_t>(ranks));
    transfer.clear();
    for (int i = 1; i < ranks; ++i) {
      const int to = (rank + i) % ranks, from = (rank + ranks - i) % ranks;
      transfer.sends.push_back({to, mine_.view()});
      Buffer& in = received_[static_cast<std::size_t>(from)];
      transfer.receives.push_back(Receive::exactly(from, in.reset(mine_.size())));
    }
  }

  // What is the same on all ranks: the largest, or the length of all together. NaN if one is.
  std::span<const float> join(int rank, int ranks, bool together) {
    squares_.assign(own_.size(), 0);
    joined_.assign(own_.size(), 0);
    for (int from = 0; from < ranks; ++from) {
      if (from != rank) check(from);
      for (std::size_t i = 0; i < own_.size(); ++i) {
        const float size = from == rank ? own_[i] : load<float>(at(from).data() + i * sizeof size);
        if (std::isnan(size) || size > joined_[i]) joined_[i] = size;
        squares_[i] += static_cast<double>(size) * size;
      }
    }
    for (std::size_t i = 0; i < own_.size() && together; ++i)
      if (!std::isnan(joined_[i])) joined_[i] = to_norm(std::sqrt(squares_[i]));
    return joined_;
  }

  std::uint32_t hash() const {
    return crc32c(
        {reinterpret_cast<const std::uint8_t*>(joined_.data()), joined_.size() * sizeof(float)});
  }

 private:
  std::uint32_t checksum(ByteView floats, int from) const {
    return crc32c(floats, hash_of(about_, static_cast<std::uint32_t>(from)));
  }
  ByteView at(int rank) const { return received_[static_cast<std::size_t>(rank)].view(); }

  void check(int from) const {
    const ByteView bytes = at(from), floats = bytes.first(own_.size() * sizeof(float));
    bool sizes = true;
    for (std::size_t i = 0; i < own_.size(); ++i) {
      const auto size = load<float>(floats.data() + i * sizeof(float));
      sizes &= std::isnan(size) || (size >= 0 && std::isfinite(size));
    }
    if (checksum(floats, from) != load<std::uint32_t>(bytes.data() + floats.size()) || !sizes)
      throw DataError("the sizes from rank " + std::to_string(from) + " are damaged", from);
  }

  std::uint32_t about_ = 0;
  Array<float> own_;
  Buffer mine_;
  std::vector<Buffer> received_;  // by rank
  std::vector<double> squares_;
  std::vector<float> joined_;
};

class GlobalUnit : public Unit {
 public:
  GlobalUnit(const Setup& setup, const Form& form)
      : setup_(setup),
        form_(form),
        rank_(setup.transport.rank()),
        ranks_(setup.transport.size()),
        sum_(form_) {}

  void reset() override { phase_ = Phase::start; }

  Move next(const Step& step, Transfer& transfer) override {
    if (phase_ == Phase::start) {
      measure(step);
      phase_ = Phase::sizes;
      if (ranks_ > 1) {
        sizes_.start(rank_, ranks_, about(step), transfer);
        return Move::messages;
      }
    }
    if (phase_ == Phase::sizes) {
      norms_ = sizes_.join(rank_, ranks_, form_.together);
      write(step);
      sum_.begin(rank_, ranks_);
      phase_ = Phase::levels;
    }
    return sum_.next(transfer) ? Move::messages : Move::none;
  }

  void open(const Step& step) override {
    for (const float norm : norms_) step.stats.finite &= !std::isnan(norm);
  }

  void mean(const Step&, std::size_t place, std::size_t from, std::span<float> block) override {
    if (!sends(place)) {
      std::ranges::fill(block, norms_[place]);  // 0 or NaN
      return;
    }
    std::uint32_t symbols[kBlock];
    const std::size_t whole = (block.size() + kCell - 1) / kCell * kCell;
    sum_.read(begin_[place] + from / kCell, {symbols, whole});
    const double unit = static_cast<double>(norms_[place]) / form_.sum.most;
    const auto zero = static_cast<std::int32_t>(form_.sum.most);
    for (std::size_t i = 0; i < block.size(); ++i)
      block[i] = static_cast<float>(unit * (static_cast<std::int32_t>(symbols[i]) - zero));
  }

  std::uint32_t inputs() const override { return hash_of(sizes_.hash(), sum_.hash()); }

 private:
  enum class Phase { start, sizes, levels };

  // The step and the unit, which no other unit of the step has the first slice of.
  std::uint32_t about(const Step& step) const {
    const std::uint64_t words[] = {step.info.step, slices.empty() ? 0 : slices[0]};
    return crc32c({reinterpret_cast<const std::uint8_t*>(words), sizeof words});
  }

  // Whether levels of the slice travel. All ranks know.
  bool sends(std::size_t place) const { return norms_[place] > 0; }

  // How large each slice is on this rank, and what its entries are clipped at.
  void measure(const Step& step) {
    const Timed timed(step.stats.compress_seconds);
    bounds_.assign(slices.size(), 0);
    const std::span<float> sizes = sizes_.reset(slices.size());
    for (std::size_t place = 0; place < slices.size(); ++place) {
      const Slice& slice = step.plan.layout[slices[place]];
      sizes[place] = 0;
      if (step.gradient.rests(slice)) continue;
      const kernels::Measures x = measures(step, step.gradient.floats(slice));
      if (slice.count > 0)
        bounds_[place] = form_.clip > 0 ? clipped_norm(x, slice.count, form_.clip) : max_norm(x);
      sizes[place] = x.largest >= kernels::kInfinity ? kNan
                     : form_.together                ? l2_norm(x)
                                                     : bounds_[place];
    }
    note_bytes(step, slices.size() * sizeof(float));
    for (const std::size_t i : slices) step.sent[i] += sizeof(float);
  }

  kernels::Measures measures(const Step& step, const Floats& x) const {
    const auto blocks = step.scratch.measures.reset((x.size() + kBlock - 1) / kBlock);
    each_block(x.size(), step.scratch.pool, [&](std::size_t from, std::size_t count) {
      float buffer[kBlock];
      const std::span block(x.load(from, count, buffer), count);
      blocks[from / kBlock] = form_.clip > 0   ? kernels::moments_of(block)
                              : form_.together ? kernels::measure_block(block)
                                               : largest_of(block);
    });
    kernels::Measures all;
    for (const kernels::Measures& block : blocks) all.join(block);
    return all;
  }

  void write(const Step& step) {
    const Timed timed(step.stats.compress_seconds);
    begin_.clear();
    std::size_t cells = 0;
    for (std::size_t place = 0; place < slices.size(); ++place) {
      begin_.push_back(cells);
      if (sends(place)) cells += cells_of(step.plan.layout[slices[place]]);
    }
    sum_.reset(cells);
    for (std::size_t place = 0; place < slices.size(); ++place)
      if (sends(place)) write(step, place);
    note_bytes(step, cells * form_.share.width);
  }

  void write(const Step& step, std::size_t place) {
    const std::size_t i = slices[place];
    const Slice& slice = step.plan.layout[i];
    const Floats x = step.gradient.floats(slice);
    const bool rests = step.gradient.rests(slice);
    const Keys keys = make_keys(setup_.seed, step.info.step, static_cast<std::uint64_t>(rank_),
                                setup_.strata ? static_cast<std::uint64_t>(ranks_) : 1)
                          .at(slice.offset);
    step.sent[i] += cells_of(slice) * form_.share.width;
    each_block(slice.count, step.scratch.pool, [&](std::size_t from, std::size_t count) {
      const std::size_t whole = (count + kCell - 1) / kCell * kCell;
      std::int8_t levels[kBlock] = {};
      if (!rests) round(x, from, count, place, keys, levels);
      std::uint8_t symbols[kBlock];
      for (std::size_t k = 0; k < whole; ++k)
        symbols[k] = static_cast<std::uint8_t>(levels[k] + static_cast<int>(form_.share.most));
      sum_.write(begin_[place] + from / kCell, {symbols, whole});
    });
  }

  void round(const Floats& x, std::size_t from, std::size_t count, std::size_t place,
             const Keys& keys, std::int8_t* levels) const {
    float buffer[kBlock];
    std::span block(x.load(from, count, buffer), count);
    if (form_.clip > 0) {
      const float bound = bounds_[place];
      std::ranges::transform(block, buffer,
                             [=](float value) { return std::clamp(value, -bound, bound); });
      block = std::span<const float>(buffer, count);
    }
    const auto most = static_cast<std::int32_t>(form_.share.most);
    kernels::to_levels(block, {norms_[place], static_cast<float>(most)}, most,
                       kernels::Rounding::stochastic, keys.draws(), keys.first + from, {levels});
  }

  static void note_bytes(const Step& step, std::size_t bytes) {
    step.stats.payload_bytes += bytes;
    step.stats.wire_bytes += bytes;
    step.stats.up_bytes += bytes;
  }

  const Setup& setup_;
  const Form form_;
  int rank_, ranks_;
  Phase phase_ = Phase::start;
  Sizes sizes_;
  std::vector<float> bounds_;       // by place: of this rank's entries
  std::span<const float> norms_;    // by place: of all ranks'
  std::vector<std::size_t> begin_;  // by place: its first cell
  LevelSum sum_;
};

class Global : public WithMemory {
 public:
  Global(const Setup& setup, const Args& args)
      : WithMemory((require_identity(setup, "global"), setup), setup.plan),
        setup_(setup),
        form_(args, setup.transport.size()) {}

  const Plan& plan_at(std::uint64_t) const override { return setup_.plan; }
  std::unique_ptr<Unit> make_unit() override { return std::make_unique<GlobalUnit>(setup_, form_); }
  bool takes_half() const override { return true; }

 private:
  Setup setup_;
  Form form_;
};

class GlobalForesight : public Foresight {
 public:
  GlobalForesight(Rehearsal& rehearsal, const Args& args)
      : rehearsal_(rehearsal), form_(args, rehearsal.ranks) {}

  const Plan& plan() const override { return rehearsal_.plan; }
  ForeseenUnit unit(Slices slices) override {
    const double entries = static_cast<double>(entries_of(plan(), slices));
    ForeseenUnit unit{.added = entries};
    const auto others = static_cast<std::uint64_t>(rehearsal_.ranks) - 1;
    const std::uint64_t sizes = slices.size() * sizeof(float) + sizeof(std::uint32_t);
    const std::uint64_t sent = others * (sizes + kMessageHead);
    const auto bytes = static_cast<double>(sent);
    if (others > 0)
      unit.legs.push_back({.sent = sent,
                           .messages = others,
                           .out = bytes,
                           .in = bytes,
                           .most_out = bytes,
                           .most_in = bytes,
                           .encoded = entries / 2});
    std::size_t cells = 0;
    for (const std::size_t i : slices)
      if (!rehearsal_.zeros(plan().layout[i])) cells += cells_of(plan().layout[i]);
    foresee_sum(form_.cells(cells), rehearsal_.ranks, entries / 2, unit.legs);
    return unit;
  }

 private:
  Rehearsal& rehearsal_;
  Form form_;
};

const RegisterExchange global{{
    .name = "global",
    .summary = "All-reduce of whole numbers of steps, whose size all ranks share, rounded at "
               "random without bias; sums are exact, in any order.",
    .paper = "Xin et al., Global-QSGD (arXiv 2305.18627); Wen et al., TernGrad (arXiv 1705.07878), "
             "scaler sharing",
    .parameters = {{.name = "levels",
                    .fallback = "7",
                    .min = 1,
                    .max = 127,
                    .whole = true,
                    .help = "levels between 0 and the norm; 1 is TernGrad with a shared scaler"},
                   {.name = "norm",
                    .fallback = "max",
                    .choices = {"max", "2"},
                    .help = "the largest entry of all ranks, or the length of all their slices"},
                   {.name = "clip",
                    .fallback = "0",
                    .min = 0,
                    .max = 100,
                    .help = "each rank first clips at so many standard deviations, which is "
                            "biased; 0: never"}},
    .own_form = true,
    .make = [](const Setup& setup, const Args& args) -> std::unique_ptr<Exchange> {
      return std::make_unique<Global>(setup, args);
    },
}};

const RegisterForesight foresight{{
    .name = "global",
    .make = [](Rehearsal& rehearsal, const Args& args) -> std::unique_ptr<Foresight> {
      return std::make_unique<GlobalForesight>(rehearsal, args);
    },
}};

}  // namespace
}  // namespace laconic

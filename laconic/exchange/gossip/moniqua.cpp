// moniqua: models modulo B in 2 bits per entry. While neighbours differ by less than theta, the
// remainder is enough to find the value next to one's own; nothing is remembered between rounds.
//
// Every pattern of 2-bit codes is a valid message of a length both ends know, so it travels without
// a frame's tables and in one round. After the codes, little-endian: seed u64, step u64, rank u32,
// 1 as u32 if the model was not finite, CRC-32C of all before it.
#include <algorithm>
#include <cmath>

#include "laconic/base/errors.h"
#include "laconic/codecs/crc32c.h"
#include "laconic/exchange/conversation.h"
#include "laconic/exchange/gossip/mixer.h"
#include "laconic/kernels/reduce.h"

namespace laconic {
namespace {

constexpr std::size_t kTail = 28;

// The representative of v modulo b that is next to 0.
double modulo(double v, double b) { return v - b * std::floor(v / b + 0.5); }

// Four levels over a span of B. As published they are 1/3 apart, B = 6 theta, and the first and the
// last are the same modulo 1; a cyclic grid has them 1/4 apart, B = 4 theta, and half the error.
struct Grid {
  Grid(double bound, bool is_cyclic)
      : cyclic(is_cyclic),
        apart(cyclic ? 0.25 : 1.0 / 3),
        theta(bound),
        span(theta * (cyclic ? 4 : 6)) {}

  // Rounds up with the probability that makes the mean right; `draw` is from [0, 1).
  unsigned code(double x, double draw) const {
    const double turns = x / span + 0.5;
    return static_cast<unsigned>((turns - std::floor(turns)) / apart + draw) & 3;
  }
  double value(unsigned code) const { return (code * apart - 0.5) * span; }
  // What rounding did to x: its own message as others read it, less x.
  double error(double x, unsigned code) const {
    return cyclic ? modulo(value(code) - x, span) : value(code) - modulo(x, span);
  }
  // How far x is at least from whatever has this code by this draw: those values fill a stretch of
  // one level modulo the span. At most half of what the stretch leaves of the span, 1.5 theta on
  // the cyclic grid and 2 theta on the published one.
  double least_gap(double x, unsigned code, double draw) const {
    const double middle = value(code) + (0.5 - draw) * apart * span;
    return std::abs(modulo(middle - x, span)) - 0.5 * apart * span;
  }

  bool cyclic;
  double apart, theta, span;
};

// What follows the codes.
struct Tail {
  std::uint64_t seed, step;
  std::uint32_t rank, damaged, checksum;
};

Tail tail_of(ByteView message) {
  const std::uint8_t* const at = message.last(kTail).data();
  return {.seed = load<std::uint64_t>(at),
          .step = load<std::uint64_t>(at + 8),
          .rank = load<std::uint32_t>(at + 16),
          .damaged = load<std::uint32_t>(at + 20),
          .checksum = load<std::uint32_t>(at + 24)};
}

bool finite(ByteView message) { return tail_of(message).damaged == 0; }

unsigned code_at(ByteView codes, std::size_t i) { return codes[i / 4] >> (2 * (i % 4)) & 3; }

class Moniqua : public Mixer {
 public:
  Moniqua(MixerSetup setup, Grid grid, double gamma)
      : transport_(setup.transport),
        model_(setup.model),
        seed_(setup.seed),
        timeout_seconds_(setup.timeout_seconds),
        grid_(grid),
        gamma_(gamma),
        neighbours_(neighbours_by_round(setup.graph, setup.transport.rank())),
        codes_((count_of(model_) + 3) / 4),
        change_(count_of(model_)) {}

  StepStats mix(std::span<float> x, const StepInfo& info) override {
    require_count(x, model_);
    const auto& peers = neighbours_[static_cast<std::size_t>(info.step % neighbours_.size())];
    StepStats stats{.payload_bytes = peers.size() * codes_,
                    .wire_bytes = peers.size() * (codes_ + kTail),
                    .dense_bytes = peers.size() * x.size_bytes()};
    Stopwatch watch;
    write(x, info.step);
    stats.compress_seconds = watch.lap();
    swap(peers, stats);
    stats.exchange_seconds = watch.lap();
    stats.finite = finite(mine_.view());
    std::ranges::fill(change_, 0.0);
    double gap = 0;
    for (std::size_t j = 0; j < peers.size(); ++j) {
      check(in_[j].view(), peers[j].rank, info.step);
      stats.finite = stats.finite && finite(in_[j].view());
      if (finite(mine_.view()) && finite(in_[j].view()))
        gap = std::max(gap, approach(x, in_[j].view(), gamma_ * peers[j].weight, info.step));
    }
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(x[i] + change_[i]);
    apart_ = gap / grid_.theta;
    stats.decompress_seconds = watch.lap();
    return stats;
  }

  double apart() const override { return apart_; }

  State save() const override { return {}; }
  void load(const State& state) override { expect_state(state, {}, model_); }

 private:
  // All ranks round with the same draws: models that agree then stay in agreement.
  Key draws_of(std::uint64_t step) const { return make_keys(seed_, step, 0).common; }

  void write(std::span<const float> x, std::uint64_t step) {
    const bool is_finite = kernels::all_finite(x);
    const Key draws = draws_of(step);
    const auto codes = mine_.reset(codes_);
    std::ranges::fill(codes, std::uint8_t{0});
    for (std::size_t i = 0; is_finite && i < x.size(); ++i) {
      const unsigned code = grid_.code(x[i], draws.bits32(i) * 0x1p-32);
      codes[i / 4] |= static_cast<std::uint8_t>(code << (2 * (i % 4)));
    }
    mine_.append_number(seed_);
    mine_.append_number(step);
    mine_.append_number(static_cast<std::uint32_t>(transport_.rank()));
    mine_.append_number(std::uint32_t{is_finite ? 0U : 1U});
    mine_.append_number(crc32c(mine_.view()));
  }

  void swap(const std::vector<Neighbour>& peers, StepStats& stats) {
    transfer_.clear();
    if (in_.size() < peers.size()) in_.resize(peers.size());
    for (std::size_t j = 0; j < peers.size(); ++j) {
      transfer_.sends.push_back({peers[j].rank, mine_.view()});
      transfer_.receives.push_back(Receive::exactly(peers[j].rank, in_[j].reset(mine_.size())));
    }
    const TrafficMeter meter(transport_);
    Conversation(transport_, Deadline::in(timeout_seconds_, "exchange of codes with neighbours"))
        .exchange(transfer_);
    meter.into(stats);
  }

  void check(ByteView message, int rank, std::uint64_t step) const {
    const std::string from = "from rank " + std::to_string(rank) + ": ";
    const Tail tail = tail_of(message);
    if (tail.checksum != crc32c(message.first(message.size() - sizeof tail.checksum)))
      throw DataError(from + "the checksum of the codes is wrong");
    if (tail.seed != seed_ || tail.step != step || tail.rank != static_cast<std::uint32_t>(rank))
      throw DataError(from + "the codes are of rank " + std::to_string(tail.rank) + ", step " +
                      std::to_string(tail.step) + ", seed " + std::to_string(tail.seed));
  }

  // Lu and De Sa, algorithm 1: the neighbour's remainder next to one's own value, less one's own
  // rounding error, so that what one end gains the other loses. Returns how far apart the two
  // certainly are.
  double approach(std::span<const float> x, ByteView theirs, double weight, std::uint64_t step) {
    const Key draws = draws_of(step);
    double gap = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const unsigned code = code_at(theirs, i);
      const double there = modulo(grid_.value(code) - x[i], grid_.span);
      change_[i] += weight * (there - grid_.error(x[i], code_at(mine_.view(), i)));
      gap = std::max(gap, grid_.least_gap(x[i], code, draws.bits32(i) * 0x1p-32));
    }
    return gap;
  }

  Transport& transport_;
  Model model_;
  std::uint64_t seed_;
  double timeout_seconds_;
  Grid grid_;
  double gamma_;
  double apart_ = 0;  // in the last round, in parts of theta
  std::vector<std::vector<Neighbour>> neighbours_;
  std::size_t codes_;  // bytes of them
  std::vector<double> change_;
  Buffer mine_;
  std::vector<Buffer> in_;
  Transfer transfer_;
};

const RegisterMixer moniqua{{
    .name = "moniqua",
    .summary = "Models modulo a span in 2 bits per entry; right while neighbours differ by less "
               "than theta.",
    .paper = "Lu and De Sa, Moniqua (arXiv 2002.11787)",
    .parameters = {{.name = "theta",
                    .min = 1e-30,
                    .max = 1e30,
                    .help = "bound on the difference of neighbours in any entry"},
                   gamma_parameter(),
                   {.name = "grid",
                    .fallback = "cyclic",
                    .choices = {"cyclic", "published"},
                    .help = "levels a quarter apart around the span, or a third apart"}},
    .examples = {"moniqua:16,0.05", "moniqua:16,0.05,published"},
    .make = [](MixerSetup setup, const Args& args) -> std::unique_ptr<Mixer> {
      return std::make_unique<Moniqua>(std::move(setup),
                                       Grid(args.number("theta"), args.text("grid") == "cyclic"),
                                       args.number("gamma"));
    },
}};

}  // namespace
}  // namespace laconic

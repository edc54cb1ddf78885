// randomk: k entries chosen at random without replacement, from the key all ranks have in common:
// no position travels, and what ranks send can be added as it is. Scaled by n / k it is unbiased,
// unscaled a contraction.
//
// The price of a mask that ranks share: their errors are the same mistake, so E|mean C(x_i) - mean
// x_i|^2 is omega |mean x|^2 however many ranks there are, where own draws have omega / n. With
// `own` the mask is drawn from the rank's key instead, still without a position on the wire, since
// a frame names its rank; what ranks send then lies at different positions and does not add up.
//
// Dutta et al. ran the unscaled form with masks that were never seeded; other code draws with
// replacement. Here every set of k entries is equally likely, and both forms are named.
//
// The choice is Floyd's: for j = n - k .. n - 1 a draw t of 0..j is taken, or j itself when t is
// taken already. k draws and a bit per entry, whatever n.
#include <algorithm>

#include "laconic/kernels/drawn.h"
#include "laconic/kernels/ones.h"
#include "laconic/kernels/stream.h"
#include "laconic/operators/indexed.h"

namespace laconic {
namespace {

constexpr std::uint64_t kMasks = ~0ULL;  // of the own key, apart from those of rounding

class RandomK : public Selector {
 public:
  explicit RandomK(const Args& args)
      : density_(args.number("density")),
        scaled_(args.text("scale") == "scaled"),
        own_(args.text("mask") == "own") {}

  std::size_t most(std::size_t count) const override { return kept_at(density_, count); }

  bool select(Entries& x, const Keys& keys, Picked& kept, StageScratch& scratch) const override {
    choose(x.size(), keys, kept.positions, scratch);
    return x.pass(kept);
  }

  float factor(std::size_t count) const override {
    return scaled_
               ? static_cast<float>(static_cast<double>(count) / static_cast<double>(most(count)))
               : 1;
  }

  void write(std::span<const std::uint32_t>, std::size_t, Buffer&) const override {}
  std::size_t max_size(std::size_t) const override { return 0; }

  ByteView read(ByteView section, std::size_t count, const Keys& keys, Positions& kept,
                StageScratch& scratch) const override {
    choose(count, keys, kept, scratch);
    return section;
  }

  // Both exactly, for every x: E|C(x)|^2 = (n/k)|x|^2, and E|x - C(x)|^2 = (1 - k/n)|x|^2.
  Traits traits(std::size_t count) const override {
    const double share =
        count == 0 ? 1 : static_cast<double>(most(count)) / static_cast<double>(count);
    if (!scaled_) return {.random = own_, .shared = !own_, .delta = share};
    const double omega = 1 / share - 1;
    return {.unbiased = true,
            .random = own_,
            .shared = !own_,
            .omega = omega,
            .delta = omega < 1 ? std::optional(1 - omega) : std::nullopt};
  }

 private:
  void choose(std::size_t count, const Keys& keys, Positions& kept, StageScratch& scratch) const {
    const Key key = (own_ ? keys.own.fork(kMasks) : keys.common).fork(keys.first);
    const std::size_t k = most(count);
    const auto taken = scratch.words.reset((count + 63) / 64);
    std::ranges::fill(taken, 0);
    choose_in(key, count, k, taken.data());
    kernels::positions_of(taken, kept.reset(k + kernels::kSpareOnes).data());
    kept.truncate(k);
  }

  // Some draws at a time: their words, which lie anywhere, are asked for while others are drawn and
  // taken.
  static constexpr std::size_t kDrawn = 128;
  struct Drawn {
    std::uint32_t first;
    std::size_t count = 0;
    std::uint32_t positions[kDrawn];
  };

  static void choose_in(const Key& key, std::size_t count, std::size_t k, std::uint64_t* taken) {
    Drawn drawn[2];
    bool turn = false;
    for (std::size_t j = count - k; j < count; j += kDrawn) {
      Drawn& next = drawn[turn];
      next.first = static_cast<std::uint32_t>(j);
      next.count = std::min(kDrawn, count - j);
      kernels::draw_below(key, next.first, {next.positions, next.count});
      for (std::size_t i = 0; i < next.count; ++i) kernels::fetch(taken + next.positions[i] / 64);
      turn = !turn;
      take(drawn[turn], taken);
    }
    take(drawn[!turn], taken);
  }

  static void take(const Drawn& drawn, std::uint64_t* taken) {
    for (std::size_t i = 0; i < drawn.count; ++i) {
      std::uint32_t t = drawn.positions[i];
      if (taken[t / 64] >> t % 64 & 1) t = drawn.first + static_cast<std::uint32_t>(i);
      taken[t / 64] |= std::uint64_t{1} << t % 64;
    }
  }

  double density_;
  bool scaled_, own_;
};

const RegisterStage randomk{{
    .name = "randomk",
    .role = Role::selector,
    .summary =
        "Keeps entries chosen at random, by default the same on all ranks, so no position is "
        "sent.",
    .paper = "Dutta et al. (arXiv 1911.08250); Stich et al., Sparsified SGD with Memory",
    .parameters = {density_parameter(),
                   {.name = "scale",
                    .fallback = "scaled",
                    .choices = {"scaled", "unscaled"},
                    .help = "scaled by n/k it is unbiased; unscaled it is a contraction"},
                   {.name = "mask",
                    .fallback = "shared",
                    .choices = {"shared", "own"},
                    .help = "shared by all ranks, whose errors then do not average out, or each "
                            "rank's own"}},
    .bits = "0, and the quantiser on k = ceil(density n)",
    .examples = {"randomk:0.1", "randomk:0.01,unscaled", "randomk:0.1+dithering:4",
                 "randomk:0.1+natural", "randomk:0.1,own"},
    .make = [](const Args& args) -> Stage { return std::make_shared<RandomK>(args); },
}};

}  // namespace
}  // namespace laconic

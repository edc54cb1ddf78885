// binned: entries in 2^bits bins, each decoded as the mean of its bin. A table of the means, then
// `bits` bits per entry: what SparseLoCo (Sarfi et al.) sends of the entries a selector kept.
//
// Decisions. Half of the bins are for entries below zero and half for the others, zero and -0 in
// the one of least magnitude: no bin holds both signs, whatever the mean of all entries is. With
// n_b entries of mean mu_b in bin b, |x - C(x)|^2 = |x|^2 - sum_b n_b mu_b^2, and by Cauchy-Schwarz
// that sum is at least |x|_1^2 / n: at least what `sign` keeps, for every x.
//
// The edges are not evenly spaced up to three standard deviations, as in SparseLoCo's deployment:
// behind a selector no entry is near zero, and most of those bins stay empty. Instead every bin is
// cut in two by Lloyd's rounds from its mean, the bins of either sign first. Share of |x|^2 lost,
// evenly spaced up to 3 root mean squares against cut so: the largest 1 % of a bell curve 0.0096
// and 0.0038 with 2 bits, 0.0042 and 0.0003 with 4; of LeNet-5's gradient 0.073 and 0.066, 0.0092
// and 0.0037; of Student's t with 3 degrees 0.130 and 0.135, 0.050 and 0.009.
//
// The edges are fitted to some of the entries where there are many, the means to all.
#include <algorithm>
#include <array>
#include <limits>

#include "laconic/kernels/bins.h"
#include "laconic/kernels/reduce.h"
#include "laconic/operators/codes.h"
#include "laconic/operators/norms.h"
#include "laconic/operators/sweeps.h"

namespace laconic {
namespace {

constexpr unsigned kMostBits = kernels::kMostBinBits;
constexpr std::size_t kFitted = 16384;  // entries that edges are fitted to, up to twice as many
constexpr int kRounds = 4;  // LeNet-5's largest 5 %: 0.132 lost with none, 0.101, 0.099 with 6

// A tree of cuts. Node 2 holds the entries from zero on, node 3 those below; node i is cut at its
// edge into 2 i, magnitudes up to the edge, and 2 i + 1, those beyond. Bin b is node 2^bits + b.
// Sums are in double in the order of the entries: the same on every machine.
class Bins {
 public:
  // All entries, and those that the edges are fitted to.
  Bins(const Sweeps& all, std::span<const float> some, unsigned bits) : some_(some), bits_(bits) {
    measure(1);
    for (unsigned depth = 2; depth <= bits; ++depth) {
      const std::size_t first = std::size_t{1} << (depth - 1);
      std::copy_n(&mean_[first], first, &edge_[first]);
      for (int round = 0; round < kRounds; ++round) {
        measure(depth);
        // Equal entries leave one half empty, and it does not matter where their edge is.
        for (std::size_t i = first; i < 2 * first; ++i)
          edge_[i] = (mean_[2 * i] + mean_[2 * i + 1]) / 2;
      }
      if (depth < bits) measure(depth);
    }
    constexpr double kAll = std::numeric_limits<double>::infinity();
    cuts_.bits = bits;
    put_cuts(2, 0, kAll, cuts_.above);
    float* const end = put_cuts(3, 0, kAll, cuts_.below);
    for (float* cut = cuts_.below; cut < end; ++cut) *cut = -*cut;
    finite_ = measure_all(all);
  }

  bool finite() const { return finite_; }
  const kernels::BinCuts& cuts() const { return cuts_; }

  // What entries of this bin are decoded as; 0, not -0, if there are none.
  float value(std::size_t bin) const {
    const float magnitude = to_norm(mean_[(1U << bits_) + bin]);
    return bin < 1U << (bits_ - 1) ? magnitude : 0 - magnitude;
  }

 private:
  using Nodes = std::array<double, 2U << kMostBits>;

  std::size_t node(float value, unsigned depth) const {
    const double magnitude = std::abs(static_cast<double>(value));
    std::size_t i = 2 + static_cast<std::size_t>(value < 0);
    for (unsigned d = 1; d < depth; ++d) i = 2 * i + static_cast<std::size_t>(magnitude > edge_[i]);
    return i;
  }

  // The mean magnitude in every node of this depth.
  void measure(unsigned depth) {
    Nodes sum{}, count{};
    for (const float value : some_) {
      const std::size_t i = node(value, depth);
      sum[i] += std::abs(static_cast<double>(value));
      ++count[i];
    }
    for (std::size_t i = 1U << depth; i < 2U << depth; ++i)
      mean_[i] = count[i] > 0 ? sum[i] / count[i] : 0;
  }

  // The edges below a node in the order of what they cut, from `low` to `high`: an edge outside
  // cuts nothing there. As floats, rounded down: no float is between an edge and that. Returns
  // where the next one goes.
  float* put_cuts(std::size_t node, double low, double high, float* to) const {
    if (node >= 1U << bits_) return to;
    const double edge = std::clamp(edge_[node], low, high);
    to = put_cuts(2 * node, low, edge, to);
    const auto nearest = static_cast<float>(edge);
    *to++ = static_cast<double>(nearest) > edge ? std::nextafter(nearest, 0.0F) : nearest;
    return put_cuts(2 * node + 1, edge, high, to);
  }

  // As measure for all entries and bins. Magnitudes of each bin are put aside, then the sums of
  // four bins go on side by side: one that has fewer adds zeros, which changes nothing. Returns
  // false when there is NaN or Inf.
  bool measure_all(const Sweeps& all) {
    const std::size_t number = std::size_t{1} << bits_;
    double sums[kernels::kMostBins] = {};
    std::size_t counts[kernels::kMostBins] = {};
    std::uint32_t largest = 0;
    kernels::Binned aside;
    all.look_in_order([&](std::size_t, std::span<const float> x) {
      for (std::size_t from = 0; from < x.size(); from += kernels::kBinPiece) {
        const auto some = x.subspan(from, std::min(kernels::kBinPiece, x.size() - from));
        largest = std::max(largest, kernels::part_in_bins(some, cuts_, aside));
        add_up(aside, sums);
        for (std::size_t b = 0; b < number; ++b) counts[b] += aside.sizes[b];
      }
    });
    for (std::size_t b = 0; b < number; ++b)
      mean_[number + b] = counts[b] > 0 ? sums[b] / static_cast<double>(counts[b]) : 0;
    return largest < kernels::kInfinity;
  }

  // Four sums side by side.
  void add_up(kernels::Binned& aside, double* sums) const {
    constexpr std::size_t kSums = 4;
    for (std::size_t first = 0; first < std::size_t{1} << bits_; first += kSums) {
      const std::uint32_t* sizes = aside.sizes + first;
      const std::uint32_t longest = *std::max_element(sizes, sizes + kSums);
      for (std::size_t b = 0; b < kSums; ++b)
        std::fill(aside.magnitudes[first + b] + sizes[b], aside.magnitudes[first + b] + longest,
                  0.0F);
      double sum[kSums];
      std::copy_n(sums + first, kSums, sum);
      for (std::uint32_t i = 0; i < longest; ++i)
        for (std::size_t b = 0; b < kSums; ++b)
          sum[b] += static_cast<double>(aside.magnitudes[first + b][i]);
      std::copy_n(sum, kSums, sums + first);
    }
  }

  std::span<const float> some_;
  unsigned bits_;
  Nodes mean_{}, edge_{};
  kernels::BinCuts cuts_;
  bool finite_ = true;
};

class Binned : public SweepQuantiser {
 public:
  explicit Binned(unsigned bits) : bits_(bits) {}

  PlaneShapes planes(std::size_t count) const override {
    return {{.width = 32, .count = count > 0 ? bins() : 0}, {.width = bits_, .count = count}};
  }

  bool encode_swept(const Sweeps& sweeps, const PlaneSpans& planes, const Keys&,
                    StageScratch& scratch) const override {
    const std::size_t stride = std::max<std::size_t>(1, sweeps.size() / kFitted);
    const auto some = scratch.sample.reset((sweeps.size() + stride - 1) / stride);
    for (std::size_t i = 0; i < some.size(); ++i) some[i] = *sweeps.load(i * stride, 1, &some[i]);
    const Bins of(sweeps, some, bits_);
    if (!of.finite()) return false;
    store_means(of, planes);
    if (!sweeps.mixes_and_leaves()) {
      sweeps.each(scratch.pool, [&](std::size_t from, std::span<const float> x) {
        encode_block(x, from, of, planes);
        sweeps.done(from, x);
      });
      return true;
    }
    sweeps.encode_each(
        scratch.pool,
        [&](std::size_t from, std::span<const float> x) { encode_block(x, from, of, planes); },
        [&](std::size_t from, const kernels::Mixed& block) {
          encode_then_leave(*this, block, from, planes, [&](std::span<const float> x) {
            encode_block(x, from, of, planes);
            return true;
          });
        });
    return true;
  }

  bool encode_few(std::span<const float> x, const PlaneSpans& planes, const Keys&) const override {
    const Bins of(Plain(x), x, bits_);
    if (!of.finite()) return false;
    store_means(of, planes);
    encode_block(x, 0, of, planes);
    return true;
  }

  void check(const PlaneViews& planes, std::size_t) const override {
    for (std::size_t b = 0; b < bins(); ++b)
      if (const float value = mean(planes[0], b); !std::isfinite(value))
        throw DataError("a section by 'binned' has a mean of " + std::to_string(value) +
                        "; allowed: finite numbers");
  }

  void add(const PlaneViews& planes, std::size_t from, float weight,
           std::span<float> y) const override {
    if (y.empty()) return;
    std::array<float, kernels::kMostBins> worth{};
    for (std::size_t b = 0; b < bins(); ++b) worth[b] = weight * mean(planes[0], b);
    unpack_codes(from, y.size(), bits_, planes[1],
                 [&](std::size_t at, std::size_t part, const std::uint8_t* codes) {
                   kernels::add_bins(codes, worth.data(), y.subspan(at, part));
                 });
  }

  // A spike among many entries that are nearly zero has little more.
  Traits traits(std::size_t count) const override {
    return {.delta = 1 / static_cast<double>(std::max<std::size_t>(count, 1))};
  }

 private:
  std::size_t bins() const { return std::size_t{1} << bits_; }
  void store_means(const Bins& of, const PlaneSpans& planes) const {
    for (std::size_t b = 0; b < bins(); ++b)
      store(planes[0].data() + b * sizeof(float), of.value(b));
  }
  void encode_block(std::span<const float> x, std::size_t from, const Bins& of,
                    const PlaneSpans& planes) const {
    std::uint8_t codes[kBlock];
    kernels::to_bins(x, of.cuts(), codes);
    pack_bytes(codes, x.size(), bits_, planes[1].data() + from / 8 * bits_);
  }
  static float mean(ByteView table, std::size_t bin) {
    return load<float>(table.data() + bin * sizeof(float));
  }

  unsigned bits_;
};

const RegisterStage binned{{
    .name = "binned",
    .role = Role::quantiser,
    .summary = "Entries as the means of 2^bits bins that fit them; made for what a selector kept.",
    .paper =
        "Sarfi et al., SparseLoCo (arXiv 2508.15706); Lloyd, Least Squares Quantization in PCM",
    .parameters = {{.name = "bits",
                    .fallback = "2",
                    .min = 1,
                    .max = kMostBits,
                    .whole = true,
                    .help = "bits per entry"}},
    .bits = "32 x 2^bits + bits n",
    .examples = {"binned", "binned:1", "chunk:4096,kept=64,fixed+binned", "topk:0.05+binned:3"},
    .make = [](const Args& args) -> Stage {
      return std::make_shared<Binned>(static_cast<unsigned>(args.whole("bits")));
    },
}};

}  // namespace
}  // namespace laconic

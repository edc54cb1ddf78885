// powergossip: neighbours find the main directions of the difference of their models by power
// iteration, and each moves along them. On an edge, out = (X_high - X_low) in takes one vector per
// iteration, because X_high in and X_low in are computed apart; `in` is what both ends already hold
// from the iteration before. Tensors of one dimension go by plain gossip.
#include <algorithm>
#include <map>

#include "laconic/base/errors.h"
#include "laconic/exchange/gossip/neighbourhood.h"
#include "laconic/kernels/low_rank.h"
#include "laconic/kernels/reduce.h"

namespace laconic {
namespace {

constexpr std::uint64_t kStream = 0x706f776572;  // apart from the keys of steps

constexpr std::size_t kOne[] = {0};  // the only slice of a frame of products

// A difference of products that is shorter than this part of them is rounding.
constexpr double kNoise = 1e-7;

// A tensor of at least two dimensions, as a matrix.
struct Matrix {
  std::string name;
  std::size_t offset = 0;
  MatrixShape shape;

  std::size_t count() const { return shape.rows * shape.cols; }
};

// The directions of one matrix on one edge, the same at both ends: p has rows, q has columns.
struct Directions {
  std::vector<float> p, q;
};

struct EdgeState {
  bool transposed = false;  // whose turn it is: X q, or X^T p
  std::vector<Directions> matrices;

  std::vector<float>& in(std::size_t m) { return transposed ? matrices[m].p : matrices[m].q; }
  std::vector<float>& out(std::size_t m) { return transposed ? matrices[m].q : matrices[m].p; }
};

struct Options {
  std::size_t rank;
  std::uint64_t iterations;
  double gamma;
  bool warm;
};

class PowerGossip : public Mixer {
 public:
  PowerGossip(MixerSetup setup, Options options)
      : setup_(std::move(setup)),
        options_(options),
        neighbours_(neighbours_by_round(setup_.graph, setup_.transport.rank())),
        scratch_(setup_.threads),
        x_(count_of(setup_.model)),
        next_(x_.size()) {
    cut();
    std::size_t products = 0;
    for (const Matrix& m : matrices_)
      products += m.shape.rank * std::max(m.shape.rows, m.shape.cols);
    for (const Slice& slice : plain_) products += slice.count;
    leg_of(products, 0);
    most_ = largest_frame(plan_, kOne);
    for (const auto& peers : neighbours_)
      for (const Neighbour& peer : peers) edges_.try_emplace(peer.rank, first_state(peer.rank));
  }

  StepStats mix(std::span<float> x, const StepInfo& info) override {
    require_count(x, setup_.model);
    const auto& peers = neighbours_[static_cast<std::size_t>(info.step % neighbours_.size())];
    StepStats stats{.dense_bytes = peers.size() * x.size_bytes()};
    const TrafficMeter meter(setup_.transport);
    std::ranges::copy(x, next_.begin());
    if (active_.size() < peers.size()) active_.resize(peers.size());
    for (std::size_t e = 0; e < peers.size(); ++e) active_[e] = edges_.at(peers[e].rank);
    for (std::uint64_t k = 0; k < options_.iterations; ++k) iterate(peers, info.step, k, stats);
    for (std::size_t e = 0; e < peers.size(); ++e) std::swap(edges_.at(peers[e].rank), active_[e]);
    std::ranges::copy(next_, x.begin());
    meter.into(stats);
    return stats;
  }

  State save() const override {
    State state;
    for (const auto& [peer, edge] : edges_) {
      const std::string role = "powergossip/" + std::to_string(peer) + "/";
      state[role + "turn"] = {edge.transposed ? 1.0F : 0.0F};
      for (std::size_t m = 0; m < matrices_.size(); ++m) {
        state[role + "p/" + matrices_[m].name] = edge.matrices[m].p;
        state[role + "q/" + matrices_[m].name] = edge.matrices[m].q;
      }
    }
    return state;
  }

  void load(const State& state) override {
    const State like = save();
    for (const auto& [name, values] : like)
      if (!state.contains(name) || state.at(name).size() != values.size())
        throw DataError("the state has no '" + name + "' of " + std::to_string(values.size()) +
                        " entries");
    if (state.size() != like.size())
      throw DataError("the state has " + std::to_string(state.size()) + " arrays where " +
                      std::to_string(like.size()) + " are remembered here");
    for (auto& [peer, edge] : edges_) {
      const std::string role = "powergossip/" + std::to_string(peer) + "/";
      edge.transposed = state.at(role + "turn")[0] != 0;
      for (std::size_t m = 0; m < matrices_.size(); ++m) {
        edge.matrices[m].p = state.at(role + "p/" + matrices_[m].name);
        edge.matrices[m].q = state.at(role + "q/" + matrices_[m].name);
      }
    }
  }

 private:
  // Tells matrices from what goes as it is.
  void cut() {
    std::size_t offset = 0;
    for (const Tensor& tensor : setup_.model) {
      const std::size_t count = tensor.count();
      if (tensor.shape.size() < 2 || count == 0) {
        plain_.push_back({tensor.name, offset, count, count, 1});
      } else {
        const auto rows = static_cast<std::size_t>(tensor.shape[0]);
        const std::size_t cols = count / rows;
        matrices_.push_back(
            {tensor.name, offset, {rows, cols, std::min({options_.rank, rows, cols})}});
      }
      offset += count;
    }
  }

  // Draws of an edge come from a key that its two ends share.
  Key edge_key(int peer, std::size_t m) const {
    const int rank = setup_.transport.rank();
    return Key(setup_.seed)
        .fork(kStream)
        .fork(static_cast<std::uint64_t>(std::min(rank, peer)))
        .fork(static_cast<std::uint64_t>(std::max(rank, peer)))
        .fork(m);
  }

  EdgeState first_state(int peer) const {
    EdgeState edge;
    for (std::size_t m = 0; m < matrices_.size(); ++m) {
      const MatrixShape& shape = matrices_[m].shape;
      edge.matrices.push_back({std::vector<float>(shape.rank * shape.rows),
                               std::vector<float>(shape.rank * shape.cols)});
      draw_normal(edge_key(peer, m).fork(0), edge.matrices[m].p);
      draw_normal(edge_key(peer, m).fork(1), edge.matrices[m].q);
    }
    return edge;
  }

  // All edges start from the same models; then all of them move.
  void iterate(const std::vector<Neighbour>& peers, std::uint64_t step, std::uint64_t k,
               StepStats& stats) {
    Stopwatch watch;
    std::ranges::copy(next_, x_.begin());
    if (products_.size() < peers.size()) products_.resize(peers.size());
    if (frames_.size() < peers.size()) frames_.resize(peers.size());
    out_.clear();
    for (std::size_t e = 0; e < peers.size(); ++e) {
      multiply_edge(active_[e], peers[e].rank, step, k, products_[e]);
      write(products_[e], step, frames_[e], stats);
      out_.push_back(frames_[e].view());
    }
    stats.compress_seconds += watch.lap();
    swap_with(peers, out_, in_, most_, setup_.transport,
              Deadline::in(setup_.timeout_seconds, "exchange of products with neighbours"),
              transfer_);
    stats.exchange_seconds += watch.lap();
    for (std::size_t e = 0; e < peers.size(); ++e) move_along(peers[e], e, step, k, stats);
    stats.decompress_seconds += watch.lap();
  }

  void write(std::span<const float> products, std::uint64_t step, Buffer& out, StepStats& stats) {
    frame_out_.begin(leg_of(products.size(), step), setup_.transport.rank(), out);
    frame_out_.add(0, Floats(products), scratch_);
    stats.payload_bytes += frame_out_.finish();
    stats.wire_bytes += out.size();
  }

  // X in for every matrix, and in a step's first iteration the other tensors.
  void multiply_edge(EdgeState& edge, int peer, std::uint64_t step, std::uint64_t k,
                     std::vector<float>& products) {
    products.clear();
    for (std::size_t m = 0; m < matrices_.size(); ++m) {
      const Matrix& matrix = matrices_[m];
      const auto x = std::span(x_).subspan(matrix.offset, matrix.count());
      const Key draws = edge_key(peer, m).fork(2).fork(step).fork(k);
      std::vector<float>& in = edge.in(m);
      if (!options_.warm) draw_normal(draws, in);
      orthonormalise(in, in.size() / matrix.shape.rank, draws, columns_);
      products.resize(products.size() + edge.out(m).size());
      const auto out = std::span(products).last(edge.out(m).size());
      if (edge.transposed)
        multiply_transposed(x, matrix.shape, in, out, sums_);
      else
        multiply(x, matrix.shape, in, out);
    }
    if (k > 0) return;
    for (const Slice& slice : plain_) {
      const auto values = std::span(x_).subspan(slice.offset, slice.count);
      products.insert(products.end(), values.begin(), values.end());
    }
  }

  void move_along(const Neighbour& peer, std::size_t e, std::uint64_t step, std::uint64_t k,
                  StepStats& stats) {
    const std::vector<float>& mine = products_[e];
    frame_in_.open(leg_of(mine.size(), step), peer.rank, kOne, in_[e].view(), scratch_);
    const bool finite = frame_in_.finite() && kernels::all_finite(mine);
    stats.finite = stats.finite && finite;
    if (!finite) return;
    theirs_.assign(mine.size(), 0.0F);
    frame_in_.add(1, theirs_);
    const auto weight = static_cast<float>(options_.gamma * peer.weight);
    std::size_t from = 0;
    for (std::size_t m = 0; m < matrices_.size(); ++m)
      from += move_matrix(m, active_[e], peer.rank, from, mine, weight);
    active_[e].transposed = !active_[e].transposed;
    if (k == 0) move_plain(std::span(mine).subspan(from), weight);
  }

  // out = higher rank's product less lower rank's, on both ends; the lower moves up, the higher
  // down.
  std::size_t move_matrix(std::size_t m, EdgeState& edge, int peer, std::size_t from,
                          std::span<const float> mine, float weight) {
    const Matrix& matrix = matrices_[m];
    const bool low = setup_.transport.rank() < peer;
    std::vector<float>& out = edge.out(m);
    const auto own = mine.subspan(from, out.size());
    const auto other = std::span<const float>(theirs_).subspan(from, out.size());
    subtract(low ? other : own, low ? own : other, matrix.shape.rank, out);
    add_product(edge.matrices[m].p, edge.matrices[m].q, matrix.shape, low ? weight : -weight,
                std::span(next_).subspan(matrix.offset, matrix.count()));
    return out.size();
  }

  // Columns whose difference is rounding become 0, and are drawn again before they are used.
  static void subtract(std::span<const float> high, std::span<const float> low, std::size_t rank,
                       std::vector<float>& out) {
    const std::size_t length = out.size() / rank;
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = high[i] - low[i];
    for (std::size_t c = 0; c < rank; ++c) {
      const auto column = std::span(out).subspan(c * length, length);
      const double scale = std::max(kernels::sum_of_squares(high.subspan(c * length, length)),
                                    kernels::sum_of_squares(low.subspan(c * length, length)));
      if (kernels::sum_of_squares(column) <= kNoise * kNoise * scale)
        std::ranges::fill(column, 0.0F);
    }
  }

  void move_plain(std::span<const float> mine, float weight) {
    std::size_t from = theirs_.size() - mine.size();
    for (const Slice& slice : plain_)
      for (std::size_t i = 0; i < slice.count; ++i, ++from) {
        const std::size_t at = slice.offset + i;
        next_[at] += weight * (theirs_[from] - x_[at]);
      }
  }

  // One slice of so many products.
  Leg leg_of(std::size_t count, std::uint64_t step) {
    Slice& slice = plan_.layout[0];
    slice.count = slice.rows = count;
    return {.plan = plan_,
            .seed = setup_.seed,
            .step = step,
            .count = count,
            .ranks = static_cast<std::size_t>(setup_.transport.size())};
  }

  MixerSetup setup_;
  Options options_;
  Plan plan_{.layout = {{"products", 0, 0, 0, 1}},
             .operators = {parse_operator("identity")},
             .operator_of = {0}};
  std::uint64_t most_ = 0;  // bytes of a frame
  std::vector<std::vector<Neighbour>> neighbours_;
  std::vector<Matrix> matrices_;
  std::vector<Slice> plain_;
  std::map<int, EdgeState> edges_;  // by neighbour
  Scratch scratch_;
  // Within a step: the model before and after an iteration, and the edges of the step.
  std::vector<float> x_, next_, theirs_;
  Array<double> columns_;  // working memory of the factors
  Array<float> sums_;
  std::vector<EdgeState> active_;
  std::vector<std::vector<float>> products_;
  std::vector<Buffer> frames_, in_;
  std::vector<ByteView> out_;
  FrameOut frame_out_;
  FrameIn frame_in_;
  Transfer transfer_;
};

const RegisterMixer powergossip{{
    .name = "powergossip",
    .summary = "Power iteration on the difference of two neighbours' matrices.",
    .paper = "Vogels et al., PowerGossip (arXiv 2008.01425)",
    .parameters = {{.name = "rank", .fallback = "1", .min = 1, .max = 1024, .whole = true},
                   {.name = "iterations",
                    .fallback = "1",
                    .min = 1,
                    .max = 1024,
                    .whole = true,
                    .help = "vectors sent per step and neighbour"},
                   gamma_parameter(),
                   {.name = "start",
                    .fallback = "warm",
                    .choices = {"warm", "random"},
                    .help = "go on from the directions found last, or draw new ones"}},
    .examples = {"powergossip", "powergossip:2,3", "powergossip:random"},
    .make = [](MixerSetup setup, const Args& args) -> std::unique_ptr<Mixer> {
      return std::make_unique<PowerGossip>(
          std::move(setup), Options{.rank = static_cast<std::size_t>(args.whole("rank")),
                                    .iterations = args.whole("iterations"),
                                    .gamma = args.number("gamma"),
                                    .warm = args.text("start") == "warm"});
    },
}};

}  // namespace
}  // namespace laconic

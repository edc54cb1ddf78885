// Replicas: the first message whole, the same rule on both ends, and their way into a State.
#include "laconic/exchange/gossip/replicas.h"

#include <algorithm>
#include <cmath>

#include "laconic/base/errors.h"

namespace laconic {
namespace {

constexpr std::uint64_t kMostHeard = std::uint64_t{1} << 24;  // a float of a State counts so far

// One round with the edges of all.
MixerSetup with_all_edges(MixerSetup setup) {
  std::vector<Edge> all;
  for (std::size_t round = 0; round < setup.graph.period(); ++round) {
    const auto edges = setup.graph.edges(round);
    all.insert(all.end(), edges.begin(), edges.end());
  }
  setup.graph = Graph(setup.graph.size(), {std::move(all)});
  return setup;
}

}  // namespace

Replicas::Replicas(const MixerSetup& setup, std::string role)
    : role_(std::move(role)), model_(setup.model), near_(with_all_edges(setup)) {
  const auto& all = near_.neighbours(0);
  copies_.assign(all.size() + 1, {.values = std::vector<float>(count_of(model_))});
  whole_.theirs.resize(all.size());
  for (const auto& neighbours : neighbours_by_round(setup.graph, near_.rank())) {
    auto& edges = edges_.emplace_back();
    for (const Neighbour& one : neighbours) {
      const auto at = std::ranges::find(all, one.rank, &Neighbour::rank);
      edges.push_back({static_cast<std::size_t>(at - all.begin()), one.weight});
    }
  }
}

// Both ends hold the same copies bit for bit, so what one gains the other loses.
void Replicas::move(double gamma, std::uint64_t step, std::span<float> x) const {
  if (own().heard == 0) return;
  for (const Near& edge : edges_[static_cast<std::size_t>(step % edges_.size())]) {
    const Copy& theirs = copies_[edge.copy];
    if (theirs.heard == 0) continue;
    const auto weight = static_cast<float>(gamma * edge.weight);
    for (std::size_t i = 0; i < x.size(); ++i)
      x[i] += weight * (theirs.values[i] - own().values[i]);
  }
}

bool Replicas::swap(std::span<const float> x, std::uint64_t step, StepStats& stats,
                    const std::function<void(const FrameIn&, Copy&)>& change) {
  whole_.mine = own().heard == 0;
  for (std::size_t j = 0; j < whole_.theirs.size(); ++j) whole_.theirs[j] = copies_[j].heard == 0;
  near_.swap(x, step, stats, whole_);
  Stopwatch watch;
  for (std::size_t j = 0; j < copies_.size(); ++j) {
    const FrameIn& frame = j + 1 < copies_.size() ? near_.from(j) : near_.mine();
    Copy& copy = copies_[j];
    if (!frame.finite()) continue;
    if (copy.heard == 0)
      frame.add(1, copy.values);
    else
      change(frame, copy);
    copy.heard = std::min(copy.heard + 1, kMostHeard);
  }
  stats.decompress_seconds += watch.lap();
  return near_.mine().finite();
}

std::string Replicas::role_of(std::size_t copy) const {
  const bool theirs = copy + 1 < copies_.size();
  return role_ + "/" + std::to_string(theirs ? near_.neighbours(0)[copy].rank : near_.rank());
}

void Replicas::save(State& state) const {
  auto& heard = state[role_ + ".heard"];
  for (std::size_t j = 0; j < copies_.size(); ++j) {
    heard.push_back(static_cast<float>(copies_[j].heard));
    if (copies_[j].heard > 0) save_tensors(role_of(j), model_, copies_[j].values, state);
  }
}

std::vector<std::uint64_t> Replicas::heard_in(const State& state) const {
  const auto at = state.find(role_ + ".heard");
  if (at == state.end()) throw DataError("the state has no '" + role_ + ".heard'");
  if (at->second.size() != copies_.size())
    throw DataError("the state's '" + role_ + ".heard' is of " + std::to_string(at->second.size()) +
                    " ranks; here are " + std::to_string(copies_.size()));
  std::vector<std::uint64_t> heard;
  for (const float count : at->second) {
    if (!(count >= 0 && count <= static_cast<float>(kMostHeard)) || count != std::floor(count))
      throw DataError("the state's '" + role_ + ".heard' holds " + std::to_string(count) +
                      "; allowed: whole numbers from 0 to " + std::to_string(kMostHeard));
    heard.push_back(static_cast<std::uint64_t>(count));
  }
  return heard;
}

void Replicas::load(const State& state, std::vector<std::string> others) {
  const auto heard = heard_in(state);
  for (std::size_t j = 0; j < copies_.size(); ++j)
    if (heard[j] > 0) others.push_back(role_of(j));
  State arrays = state;
  arrays.erase(role_ + ".heard");
  expect_state(arrays, others, model_);
  for (std::size_t j = 0; j < copies_.size(); ++j) {
    copies_[j].heard = heard[j];
    if (heard[j] > 0)
      copies_[j].values = load_tensors(role_of(j), model_, state);
    else
      std::ranges::fill(copies_[j].values, 0.0F);
  }
}

}  // namespace laconic

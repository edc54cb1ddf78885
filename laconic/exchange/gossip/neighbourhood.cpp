// One frame to all neighbours.
#include "laconic/exchange/gossip/neighbourhood.h"

#include <algorithm>

#include "laconic/exchange/conversation.h"

namespace laconic {
namespace {

Plan as_it_is(const Plan& plan) {
  return {.layout = plan.layout,
          .operators = {parse_operator("identity")},
          .operator_of = std::vector<std::size_t>(plan.layout.size())};
}

}  // namespace

void swap_with(std::span<const Neighbour> peers, std::span<const ByteView> out,
               std::vector<Buffer>& in, std::uint64_t most, Transport& transport,
               const Deadline& deadline, Transfer& transfer) {
  if (in.size() < peers.size()) in.resize(peers.size());
  transfer.clear();
  for (std::size_t i = 0; i < peers.size(); ++i) {
    in[i].reserve(most);  // once: frames differ in length from round to round
    transfer.sends.push_back({peers[i].rank, out[i]});
    transfer.receives.push_back(Receive::sized(peers[i].rank, in[i], most));
  }
  Conversation(transport, deadline).exchange(transfer);
}

Neighbourhood::Neighbourhood(const MixerSetup& setup)
    : transport_(setup.transport),
      plan_(setup.plan),
      whole_plan_(as_it_is(plan_)),
      slices_(all_slices(plan_)),
      seed_(setup.seed),
      timeout_seconds_(setup.timeout_seconds),
      largest_(std::max(largest_frame(plan_, slices_), largest_frame(whole_plan_, slices_))),
      neighbours_(neighbours_by_round(setup.graph, setup.transport.rank())),
      scratch_(setup.threads) {}

void Neighbourhood::swap(std::span<const float> x, std::uint64_t step, StepStats& stats,
                         const Whole& whole) {
  const auto& peers = neighbours(step);
  const auto leg_of = [&](bool plain) -> Leg {
    return {.plan = plain ? whole_plan_ : plan_,
            .seed = seed_,
            .step = step,
            .count = x.size(),
            .ranks = static_cast<std::size_t>(transport_.size())};
  };
  const Leg leg = leg_of(whole.mine);
  Stopwatch watch;
  bytes_.reserve(largest_);
  out_.begin(leg, rank(), bytes_);
  for (const std::size_t i : slices_)
    out_.add(i, Floats(x.subspan(plan_.layout[i].offset, plan_.layout[i].count)), scratch_);
  stats.payload_bytes = peers.size() * out_.finish();
  stats.wire_bytes = peers.size() * bytes_.size();
  stats.dense_bytes = peers.size() * x.size_bytes();
  mine_.open(leg, rank(), slices_, bytes_.view(), scratch_, true);
  stats.compress_seconds = watch.lap();

  const TrafficMeter meter(transport_);
  sent_.assign(peers.size(), bytes_.view());
  swap_with(peers, sent_, in_, largest_, transport_,
            Deadline::in(timeout_seconds_, "exchange of frames with neighbours"), transfer_);
  meter.into(stats);
  stats.exchange_seconds = watch.lap();

  if (theirs_.size() < peers.size()) theirs_.resize(peers.size());
  stats.finite = mine_.finite();
  for (std::size_t i = 0; i < peers.size(); ++i) {
    const bool plain = !whole.theirs.empty() && whole.theirs[i];
    theirs_[i].open(leg_of(plain), peers[i].rank, slices_, in_[i].view(), scratch_);
    stats.finite = stats.finite && theirs_[i].finite();
  }
  stats.decompress_seconds = watch.lap();
}

}  // namespace laconic

// One frame to all neighbours.
#include "laconic/exchange/gossip/broadcast.h"

#include "laconic/exchange/conversation.h"

namespace laconic {

void swap_with(std::span<const Neighbour> peers, std::span<const ByteView> out,
               std::vector<Buffer>& in, std::uint64_t most, Transport& transport,
               const Deadline& deadline) {
  if (in.size() < peers.size()) in.resize(peers.size());
  std::vector<Send> sends;
  std::vector<Receive> receives;
  for (std::size_t i = 0; i < peers.size(); ++i) {
    sends.push_back({peers[i].rank, out[i]});
    receives.push_back(Receive::sized(peers[i].rank, in[i], most));
  }
  Conversation(transport, deadline).exchange(sends, receives);
}

Broadcast::Broadcast(const MixerSetup& setup)
    : transport_(setup.transport),
      plan_(setup.plan),
      seed_(setup.seed),
      timeout_seconds_(setup.timeout_seconds),
      largest_(largest_frame(plan_, all_slices(plan_))),
      neighbours_(neighbours_by_round(setup.graph, setup.transport.rank())),
      scratch_(setup.threads) {}

void Broadcast::swap(std::span<const float> x, std::uint64_t step, StepStats& stats) {
  const auto& peers = neighbours(step);
  const Leg leg{.plan = plan_, .seed = seed_, .step = step, .count = x.size()};
  const SliceRange slices = all_slices(plan_);
  Stopwatch watch;
  stats.payload_bytes = peers.size() * write_frame(leg, rank(), slices, x, scratch_, out_);
  stats.wire_bytes = peers.size() * out_.size();
  stats.dense_bytes = peers.size() * x.size_bytes();
  mine_ = read_frame_of(leg, rank(), slices, out_.view());
  stats.compress_seconds = watch.lap();

  const TrafficMeter meter(transport_);
  swap_with(peers, std::vector<ByteView>(peers.size(), out_.view()), in_, largest_, transport_,
            Deadline::in(timeout_seconds_, "exchange of frames with neighbours"));
  meter.into(stats);
  stats.exchange_seconds = watch.lap();

  theirs_.clear();
  stats.finite = mine_.finite();
  for (std::size_t i = 0; i < peers.size(); ++i) {
    theirs_.push_back(read_checked_frame_of(leg, peers[i].rank, slices, in_[i].view(), scratch_));
    stats.finite = stats.finite && theirs_.back().finite();
  }
  stats.decompress_seconds = watch.lap();
}

}  // namespace laconic

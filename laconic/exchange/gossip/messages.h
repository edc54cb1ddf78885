// Frames between neighbours: written by a plan, exchanged, and read with suspicion.
#pragma once

#include "laconic/exchange/gossip/mixer.h"
#include "laconic/frame/frame.h"

namespace laconic {

// The most bytes a frame of this plan can take.
std::uint64_t largest_frame(const Plan& plan);

// Replaces `out` by the frame of x. Returns its payload.
std::size_t write_message(std::span<const float> x, const FrameHeader& header, const Plan& plan,
                          Buffer& out, Scratch& scratch);

// The frame in `bytes`, every section checked: adding it cannot fail any more. Throws DataError
// naming the sender unless it is the one that `expected` and the plan tell of.
Frame read_message(ByteView bytes, const FrameHeader& expected, const Plan& plan, Scratch& scratch);

// Sends out[i] to the i-th peer and fills in[i] with what it sends. Lengths travel first, so that
// takes two rounds; a peer that claims more than `most` bytes is a DataError before memory is
// taken.
void swap_messages(Transport& transport, std::span<const Neighbour> peers,
                   std::span<const ByteView> out, std::vector<Buffer>& in, std::uint64_t most,
                   const Deadline& deadline);

// Adds what went to one neighbour to a step's bytes.
inline void count_message(std::size_t payload, std::size_t wire, StepStats& stats) {
  stats.payload_bytes += payload;
  stats.wire_bytes += wire;
}

// y += weight * the frame's values, for a frame that was checked.
void add_message(const Frame& frame, float weight, std::span<float> y, Scratch& scratch);

// The same frame to all neighbours, and theirs: what a step of most mixers sends.
class Broadcast {
 public:
  explicit Broadcast(const MixerSetup& setup);

  std::size_t round(std::uint64_t step) const {
    return static_cast<std::size_t>(step % neighbours_.size());
  }
  const std::vector<std::vector<Neighbour>>& rounds() const { return neighbours_; }
  const std::vector<Neighbour>& neighbours(std::uint64_t step) const {
    return neighbours_[round(step)];
  }
  int rank() const { return transport_.rank(); }

  // Compresses x, sends it and takes in the neighbours' frames. Fills the stats but for what comes
  // after.
  void swap(std::span<const float> x, std::uint64_t step, StepStats& stats);

  // What swap brought, by place among the step's neighbours, and what it sent.
  const Frame& from(std::size_t neighbour) const { return theirs_[neighbour]; }
  const Frame& mine() const { return mine_; }
  // Whether both ends of an edge sent something finite: else it moves nothing.
  bool open(std::size_t neighbour) const { return mine_.finite() && from(neighbour).finite(); }

  void add(const Frame& frame, float weight, std::span<float> y) {
    add_message(frame, weight, y, scratch_);
  }

 private:
  Transport& transport_;
  Plan plan_;
  FrameHeader header_;
  double timeout_seconds_;
  std::uint64_t largest_;
  std::vector<std::vector<Neighbour>> neighbours_;
  Scratch scratch_;
  Buffer out_;
  std::vector<Buffer> in_;
  Frame mine_;
  std::vector<Frame> theirs_;
};

}  // namespace laconic

// Frames between neighbours: what a round of most mixers sends.
#pragma once

#include "laconic/exchange/frames.h"
#include "laconic/exchange/gossip/mixer.h"

namespace laconic {

// Sends out[i] to the i-th peer and fills in[i] with what it sends, at most so many bytes each. The
// transfer is working memory.
void swap_with(std::span<const Neighbour> peers, std::span<const ByteView> out,
               std::vector<Buffer>& in, std::uint64_t most, Transport& transport,
               const Deadline& deadline, Transfer& transfer);

// Who sends a frame of plain floats where others compress: this rank, and neighbours by place.
struct Whole {
  bool mine = false;
  std::vector<bool> theirs = {};  // empty: none
};

// The same frame to all neighbours, and theirs.
class Neighbourhood {
 public:
  explicit Neighbourhood(const MixerSetup& setup);

  std::size_t round(std::uint64_t step) const {
    return static_cast<std::size_t>(step % neighbours_.size());
  }
  const std::vector<std::vector<Neighbour>>& rounds() const { return neighbours_; }
  const std::vector<Neighbour>& neighbours(std::uint64_t step) const {
    return neighbours_[round(step)];
  }
  int rank() const { return transport_.rank(); }
  const Layout& layout() const { return plan_.layout; }  // whose slices frames have

  // Compresses x, sends it and takes in the neighbours' frames, each checked to its last bit. Fills
  // the stats but for what comes after.
  void swap(std::span<const float> x, std::uint64_t step, StepStats& stats,
            const Whole& whole = {});

  // What swap brought, by place among the step's neighbours, and what it sent.
  const FrameIn& from(std::size_t neighbour) const { return theirs_[neighbour]; }
  const FrameIn& mine() const { return mine_; }
  // Whether both ends of an edge sent something finite: else it moves nothing.
  bool open(std::size_t neighbour) const { return mine_.finite() && from(neighbour).finite(); }

 private:
  Transport& transport_;
  Plan plan_, whole_plan_;
  std::vector<std::size_t> slices_;
  std::uint64_t seed_;
  double timeout_seconds_;
  std::uint64_t largest_;
  std::vector<std::vector<Neighbour>> neighbours_;
  Scratch scratch_;
  FrameOut out_;
  Buffer bytes_;
  std::vector<ByteView> sent_;
  std::vector<Buffer> in_;
  FrameIn mine_;
  std::vector<FrameIn> theirs_;
  Transfer transfer_;
};

}  // namespace laconic

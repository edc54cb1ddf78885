// What neighbours know of each other's models, as methods before choco kept it: a copy that its
// owner and all who hold it change by the same messages, so it is the same bits on both ends.
//
// The papers start from one model that all know. Here a rank's first message is its model as it is,
// uncompressed, so ranks may start apart. A copy is right only while its holders hear every
// message: on a graph that changes a rank sends to all whom it meets in any round.
#pragma once

#include <functional>

#include "laconic/exchange/gossip/neighbourhood.h"

namespace laconic {

struct Copy {
  std::vector<float> values;
  std::uint64_t heard = 0;  // finite messages so far; values begin with the first
};

class Replicas {
 public:
  // `role` names the copies in a State: "dcd/7/tensor" is that of rank 7.
  Replicas(const MixerSetup& setup, std::string role);

  const Copy& own() const { return copies_.back(); }

  // x += gamma sum_j W_ij (copy of j - own copy), over the edges of this step whose ends both have
  // been heard.
  void move(double gamma, std::uint64_t step, std::span<float> x) const;

  // Sends x to all: as it is while this rank was not heard, compressed from then on. When it
  // throws, nothing has changed; else every message that is finite becomes its owner's copy, if it
  // is the first, or is handed to `change`. Returns whether that of this rank was finite.
  bool swap(std::span<const float> x, std::uint64_t step, StepStats& stats,
            const std::function<void(const FrameIn&, Copy&)>& change);

  void save(State& state) const;
  // Throws DataError, with nothing changed, unless the state is of these copies and of `others`
  // (roles) and no more.
  void load(const State& state, std::vector<std::string> others = {});

 private:
  struct Near {
    std::size_t copy;
    double weight;  // W_ij
  };
  std::string role_of(std::size_t copy) const;
  std::vector<std::uint64_t> heard_in(const State& state) const;

  std::string role_;
  Model model_;
  Neighbourhood near_;                    // whoever is a neighbour in some round
  std::vector<std::vector<Near>> edges_;  // by round of the graph's period
  std::vector<Copy> copies_;              // by place among those, then this rank's own
  Whole whole_;
};

}  // namespace laconic

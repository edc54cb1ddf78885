// A chain of stages as it was parsed: what an operator runs.
#pragma once

#include <limits>

#include "laconic/operators/operator.h"

namespace laconic {

// Positions are 32-bit numbers.
inline constexpr std::size_t kMostPositions = std::numeric_limits<std::uint32_t>::max();

struct Operator::Chain {
  std::string spec;
  bool shrink = false;
  std::shared_ptr<const Selector> selector;  // none: all entries
  std::shared_ptr<const Quantiser> quantiser;
  std::shared_ptr<const Coder> coder;  // none: planes as they are
  std::size_t bucket = 0;              // 0: all entries at once
  bool plain = true;                   // values are written as they are
  bool has_positions = false;          // of entries or levels, which are 32-bit numbers

  void take(std::shared_ptr<const Selector> stage) { selector = std::move(stage); }
  void take(std::shared_ptr<const Quantiser> stage) { quantiser = std::move(stage); }
  void take(std::shared_ptr<const Coder> stage) { coder = std::move(stage); }
  void take(const SparseQuantiser& stage) {
    selector = stage.selector;
    quantiser = stage.quantiser;
  }
  void take(Bucket stage) { bucket = stage.size; }
  void take(Shrink) { shrink = true; }

  // Fills in what the spec left out, and refuses what cannot be. Called once.
  void complete();

  // The entries the quantiser sees at most.
  std::size_t seen(std::size_t count) const { return selector ? selector->most(count) : count; }

  // The omega that shrink makes up for: of the whole when the whole is unbiased, else of the
  // quantiser behind a projection.
  std::optional<double> omega(std::size_t count) const;

  // What entries are multiplied by before anything else sees them.
  float scale(std::size_t count) const {
    return shrink ? static_cast<float>(1 / (1 + *omega(count))) : 1;
  }

  Traits traits(std::size_t count) const;
};

}  // namespace laconic

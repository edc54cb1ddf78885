// Working memory for operators: kept between calls, so that steady state allocates nothing. One per
// calling thread.
#pragma once

#include "laconic/base/array.h"
#include "laconic/base/pool.h"
#include "laconic/codecs/entropy.h"
#include "laconic/codecs/index.h"

namespace laconic {

// What a stage may use within one call. Nothing in it outlives the call: the next stage of the
// chain finds it used.
struct StageScratch {
  explicit StageScratch(unsigned threads) : pool(threads) {}

  Pool pool;        // how many threads it has changes no byte
  Entropy entropy;  // zstd's contexts
  Buffer spare;
  Positions nonzero, candidates;
  Array<std::uint64_t> words;
  Array<float> sample;
};

// With what the chain keeps between its stages, which no stage can name: a stage that wrote there
// would change entries that another has not seen yet.
class Scratch : public StageScratch {
 public:
  explicit Scratch(unsigned threads = 1) : StageScratch(threads) {}

  // Which entries were kept by the section that was encoded or checked last.
  const Positions& kept() const { return kept_; }

 private:
  friend class Operator;

  Array<float> scaled_;  // what a scaler made of the entries
  Positions kept_;       // which entries the selector keeps
  Array<float> values_;  // and their values
  Buffer planes_;        // planes on their way through a coder
};

}  // namespace laconic

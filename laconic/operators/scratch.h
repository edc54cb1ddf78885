// Working memory for operators: kept between calls, so that steady state allocates nothing. One per
// calling thread.
#pragma once

#include "laconic/base/array.h"
#include "laconic/base/pool.h"
#include "laconic/codecs/entropy.h"
#include "laconic/codecs/index.h"

namespace laconic {

struct Scratch {
  explicit Scratch(unsigned threads = 1) : pool(threads) {}

  Pool pool;        // how many threads it has changes no byte
  Entropy entropy;  // zstd's contexts

  // The chain's own, between its stages.
  Array<float> scaled;  // what a scaler made of the entries
  Positions kept;       // which entries the selector keeps
  Array<float> values;  // and their values
  Buffer planes;        // planes on their way through a coder

  // For a stage's own use within one call.
  Buffer spare;
  Positions nonzero, candidates;
  Array<std::uint64_t> words;
};

}  // namespace laconic

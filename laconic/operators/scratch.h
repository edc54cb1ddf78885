// Working memory for operators: kept between calls, so that steady state allocates nothing. One per
// calling thread.
#pragma once

#include "laconic/base/buffer.h"
#include "laconic/base/pool.h"
#include "laconic/codecs/entropy.h"

namespace laconic {

struct Scratch {
  explicit Scratch(unsigned threads = 1) : pool(threads) {}

  Pool pool;        // how many threads it has changes no byte
  Entropy entropy;  // zstd's contexts
  Buffer planes;    // planes on their way through a coder
  Buffer spare;     // for a stage's own use within one call
};

}  // namespace laconic

// Working memory for operators: kept between calls, so that steady state allocates nothing. One per
// calling thread.
#pragma once

#include "laconic/operators/decoder.h"
#include "laconic/operators/stage_scratch.h"

namespace laconic {

// What stages may use, and what the chain keeps between them. No stage can name the latter: one
// that wrote there would change entries that another has not seen yet.
class Scratch : public StageScratch {
 public:
  explicit Scratch(unsigned threads = 1) : StageScratch(threads) {}

 private:
  friend class Operator;

  Array<float> mixed_;   // the entries, where they are not one array
  Array<float> scaled_;  // what a scaler made of the entries
  Picked kept_;          // the entries the selector keeps
  Buffer planes_;        // planes on their way to a coder
  Decoder decoder_;      // of a section that is checked, or added as a whole
};

}  // namespace laconic

// Working memory of a stage: kept between calls, so that steady state allocates nothing.
#pragma once

#include "laconic/base/array.h"
#include "laconic/base/pool.h"
#include "laconic/codecs/entropy.h"
#include "laconic/codecs/index.h"
#include "laconic/kernels/levels.h"
#include "laconic/kernels/reduce.h"
#include "laconic/operators/entries.h"

namespace laconic {

// What a stage may use within one call. Nothing in it outlives the call: the next stage of the
// chain finds it used.
struct StageScratch {
  explicit StageScratch(unsigned threads) : pool(threads) {}

  Pool pool;  // how many threads it has changes no byte
  Entropy entropy;
  Buffer spare;
  Positions nonzero, positions;
  Array<std::uint32_t> magnitudes;
  Array<std::uint64_t> words;
  Array<float> sample;
  Array<double> sums;
  Array<std::uint16_t> symbols;
  Array<float> rest, products;
  Array<double> bases;
  Array<std::uint32_t> chosen;
  Buffer coded, scales;
  Array<kernels::Measures> measures;
  Array<kernels::Spreads> spreads;
  Picked candidates, other;
  std::vector<Stretch> parts;  // of threads
};

}  // namespace laconic

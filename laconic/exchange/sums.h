// The sum over ranks of an array, in two legs: every rank adds up one part of it, in rank order,
// and sends that to all. The same bits whatever else travels, on every transport.
#pragma once

#include "laconic/exchange/foresight.h"
#include "laconic/exchange/transport.h"

namespace laconic {

// Used again, it allocates nothing.
class Sum {
 public:
  // The array, the same length on all ranks. It stays until the last leg has ended.
  void begin(std::span<float> values, int rank, int ranks);

  // Fills in the transfer of the next leg; false when the array holds the sum.
  bool next(Transfer& transfer);

 private:
  std::span<float> part(int rank) const;
  void add_up();

  std::span<float> values_;
  int rank_ = 0, ranks_ = 1, leg_ = 0;
  std::vector<Buffer> received_;  // by rank: its share of this rank's part
};

// The legs of such a sum. Who has encoded so many entries for it does that first.
void foresee_sum(std::size_t floats, int ranks, double encoded, std::vector<ForeseenLeg>& legs);

}  // namespace laconic

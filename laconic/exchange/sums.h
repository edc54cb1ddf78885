// The sum over ranks of an array, in two legs: every rank adds up one part of it, in rank order,
// and sends that to all. The same bits whatever else travels, on every transport. Plain floats have
// no frame around them: a message of four bytes before each part is its checksum. Before, because
// transports may take back long messages of a transfer that is cancelled where short ones have
// gone.
#pragma once

#include <array>

#include "laconic/exchange/foresight.h"
#include "laconic/exchange/transport.h"

namespace laconic {

// Used again, it allocates nothing.
class Sum {
 public:
  // The array, the same length on all ranks. It stays until the last leg has ended.
  void begin(std::span<float> values, int rank, int ranks);

  // Fills in the transfer of the next leg; false when the array holds the sum. Throws DataError
  // that names the sender of floats which are not what it sent.
  bool next(Transfer& transfer);

  // After the last leg: a hash of the sum, equal on all ranks.
  std::uint32_t hash() const;

 private:
  using Checksum = std::array<std::uint8_t, 4>;

  std::span<float> part(int rank) const;
  void add_up();
  void check_sums() const;

  std::span<float> values_;
  int rank_ = 0, ranks_ = 1, leg_ = 0;
  std::vector<Buffer> received_;      // by rank: its share of this rank's part
  std::vector<Checksum> out_, in_;    // by rank: of what goes to it, of what comes from it
  std::vector<std::uint32_t> found_;  // by rank: of what has come
};

// The legs of such a sum. Who has encoded so many entries for it does that first.
void foresee_sum(std::size_t floats, int ranks, double encoded, std::vector<ForeseenLeg>& legs);

}  // namespace laconic

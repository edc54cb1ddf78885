// The sum over ranks of an array, in two legs: every rank adds up one part of it, in rank order,
// and sends that to all. The same bits whatever else travels, on every transport. What is summed
// has no frame around it: a message of four bytes before each part is its checksum. Before, because
// transports may take back long messages of a transfer that is cancelled where short ones have
// gone.
#pragma once

#include <array>

#include "laconic/exchange/foresight.h"
#include "laconic/exchange/transport.h"

namespace laconic {

// What an array is cut in, and the bytes of one cell: on its way to who adds it up, and of the sum.
struct Cells {
  std::size_t count = 0;
  std::size_t share = sizeof(float), sum = sizeof(float);
};

// The legs of such a sum, whatever cells hold. Used again, it allocates nothing.
class Reduction {
 public:
  virtual ~Reduction() = default;

  // Fills in the transfer of the next leg; false when all sums are there. Throws DataError that
  // names the sender of what is not as it was sent.
  bool next(Transfer& transfer);

  // After the last leg: a hash of the sums, equal on all ranks.
  std::uint32_t hash() const;

 protected:
  // So many cells are added up at a time, while they are in the first-level cache.
  virtual std::size_t block() const = 0;
  // Adds up the shares of some cells, one of each rank and all of one length, into their sums,
  // which may be where this rank's share lies.
  virtual void add(std::span<const ByteView> shares, std::span<std::uint8_t> sums) = 0;
  virtual const char* what() const = 0;  // travels, for sentences

  // All cells' shares, and where their sums go; the same number on all ranks. They stay until the
  // last leg has ended.
  void begin(const Cells& cells, std::span<std::uint8_t> shares, std::span<std::uint8_t> sums,
             int rank, int ranks);
  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  std::span<std::uint8_t> sums_of(int rank) const { return part(sums_, cells_.sum, rank); }

 private:
  using Checksum = std::array<std::uint8_t, 4>;

  std::span<std::uint8_t> part(std::span<std::uint8_t> bytes, std::size_t cell, int rank) const;
  std::span<std::uint8_t> shares_of(int rank) const { return part(shares_, cells_.share, rank); }
  void require(std::uint32_t found, int from) const;
  void add_up();
  void check_sums() const;

  Cells cells_;
  std::span<std::uint8_t> shares_, sums_;
  int rank_ = 0, ranks_ = 1, leg_ = 0;
  std::vector<Buffer> received_;      // by rank: its share of this rank's part
  std::vector<ByteView> together_;    // by rank: of the block that is being added up
  std::vector<Checksum> out_, in_;    // by rank: of what goes to it, of what comes from it
  std::vector<std::uint32_t> found_;  // by rank: of what has come
};

// Of plain floats, in place.
class Sum : public Reduction {
 public:
  // The array, the same length on all ranks. It stays until the last leg has ended.
  void begin(std::span<float> values, int rank, int ranks);

 protected:
  std::size_t block() const override;
  void add(std::span<const ByteView> shares, std::span<std::uint8_t> sums) override;
  const char* what() const override { return "floats"; }
};

// The legs of a sum of these cells. Who has encoded so many entries for it does that first.
void foresee_sum(const Cells& cells, int ranks, double encoded, std::vector<ForeseenLeg>& legs);
inline void foresee_sum(std::size_t floats, int ranks, double encoded,
                        std::vector<ForeseenLeg>& legs) {
  foresee_sum(Cells{.count = floats}, ranks, encoded, legs);
}

}  // namespace laconic
